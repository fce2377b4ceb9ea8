//! Events of a world, as checkers and traces see them.

use std::fmt;

use covalent_protocol::group::{BadEnvelope, Contact, End, Incarnation, Stop, View};
use serde::Serialize;

use super::{
    book::{Digest, MembershipId, Placed},
    sent::SentEnvelope,
};
use crate::node_name;

/// Something that happened.
#[derive(Debug)]
pub enum Fact<'a> {
    /// An application began an incarnation, with the next number.
    Began {
        /// On this node.
        node: usize,
        /// It is reached here.
        contact: &'a Contact,
        /// Members with which it founds; 0 if it only joins, or begins with a view.
        founders: u8,
        /// The previous incarnation on this node, about whose messages it queries.
        former: Option<Incarnation>,
    },
    /// A multicast was taken in.
    Requested {
        /// The sender.
        by: MembershipId,
        /// Its number among the messages of that incarnation.
        sequence: u64,
        /// Its number among all.
        message: u64,
        /// Its length.
        bytes: usize,
    },
    /// A multicast was refused because the queue was full.
    Full {
        /// The sender.
        by: MembershipId,
    },
    /// An envelope was posted.
    SentEnvelope {
        /// The sender.
        by: MembershipId,
        /// The receiver.
        to: &'a Contact,
        /// The decoded envelope.
        sent: &'a SentEnvelope,
    },
    /// A posted envelope cannot be parsed.
    Garbled {
        /// The sender.
        by: MembershipId,
        /// Why.
        why: &'a str,
    },
    /// An envelope was taken out of a receive queue.
    Received {
        /// The receiver.
        by: MembershipId,
        /// The sender.
        from: MembershipId,
        /// The decoded envelope.
        sent: &'a SentEnvelope,
        /// Result at the receiver.
        result: Result<(), BadEnvelope>,
    },
    /// An envelope that a stranger forged was taken out of a receive queue.
    Forged {
        /// The receiver.
        by: MembershipId,
        /// The node of the stranger.
        node: usize,
        /// Its kind, as far as it has one.
        kind: u8,
        /// Result at the receiver.
        result: Result<(), BadEnvelope>,
        /// The receiver is not as it was before.
        moved: bool,
    },
    /// An envelope ended for its sender.
    Ended {
        /// The sender.
        by: MembershipId,
        /// The receiver.
        to: &'a Contact,
        /// How.
        how: End,
    },
    /// Bytes of envelopes with numbers in a receive queue, behind one more envelope.
    Queued {
        /// Owner of the queue.
        at: MembershipId,
        /// How many.
        bytes: usize,
    },
    /// Memory that a state machine holds after a turn.
    Holds {
        /// Owner of the state machine.
        by: MembershipId,
        /// Bytes of multicasts and envelopes.
        bytes: usize,
    },
    /// The link layer reported the path to a node.
    Path {
        /// The notified incarnation.
        at: MembershipId,
        /// Of which node.
        about: usize,
        /// That there is one.
        up: bool,
    },
    /// An application requested to exclude a member.
    Suspected {
        /// Which application.
        by: MembershipId,
        /// The member to exclude.
        target: MembershipId,
    },
    /// An application was notified of a view.
    View {
        /// Which application.
        by: MembershipId,
        /// The view.
        view: &'a View,
    },
    /// An application received a message.
    Delivered {
        /// Which application.
        by: MembershipId,
        /// Which message, and where it lies.
        placed: &'a Placed,
        /// View that the message was reported to belong to.
        view: u64,
        /// The bytes equal those that were requested.
        whole: bool,
    },
    /// An application was notified of what all members have.
    Stable {
        /// Which application.
        by: MembershipId,
        /// In this view.
        view: u64,
        /// Everything below this position.
        position: u64,
    },
    /// An application must provide its state.
    StateWanted {
        /// Which application.
        by: MembershipId,
        /// The receiver of the state.
        to: &'a Contact,
    },
    /// An application got a part of the state.
    State {
        /// Which application.
        by: MembershipId,
        /// The last one.
        last: bool,
        /// Digest of the state after its last part, or `None` if the bytes are no valid state.
        digest: Option<Digest>,
        /// Own messages that are in it.
        delivered_to: u64,
    },
    /// The state parts received so far are void.
    StateVoid {
        /// For this application.
        by: MembershipId,
    },
    /// An application was notified that nothing is delivered any more.
    Stopped {
        /// Which application.
        by: MembershipId,
        /// Why.
        why: Stop,
        /// Own messages from this number on are in doubt.
        undelivered: u64,
    },
    /// An application was notified of the outcome of its former incarnation's messages.
    Outcome {
        /// Which application.
        by: MembershipId,
        /// So many were delivered.
        delivered_to: u64,
    },
    /// An application requested to leave.
    Leaves {
        /// Which.
        by: MembershipId,
    },
    /// An application left.
    Left {
        /// Which.
        by: MembershipId,
    },
    /// An application died, alone or with its node.
    Died {
        /// Which.
        membership: MembershipId,
    },
    /// An application stalls or resumes.
    Halted {
        /// Which.
        membership: MembershipId,
        /// It stands still.
        still: bool,
    },
    /// An application takes no events, or takes them again.
    Sated {
        /// Which.
        membership: MembershipId,
        /// It takes none.
        sated: bool,
    },
    /// A node died or started.
    Node {
        /// Which.
        node: usize,
        /// It runs.
        runs: bool,
    },
    /// A cable was cut or mended.
    Cable {
        /// The nodes at its ends.
        ends: [usize; 2],
        /// It is cut.
        cut: bool,
    },
    /// Nothing was done to the world for so long that everything able to come to rest has done so.
    Calm,
    /// From now on only ticks happen.
    Idle,
    /// The given number of ticks has passed.
    Rested {
        /// Number of ticks.
        ticks: u64,
    },
    /// All faults are over. Everything has completed, or had the time to.
    Over,
}

/// Topic of a line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// Requests and notifications of applications.
    Application,
    /// Envelopes.
    Envelope,
    /// Reports of the link layer.
    Path,
    /// Faults and repairs.
    Fault,
    /// The run itself.
    Run,
}

impl Fact<'_> {
    /// Topic of the fact.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match self {
            Self::SentEnvelope { .. }
            | Self::Garbled { .. }
            | Self::Received { .. }
            | Self::Forged { .. }
            | Self::Ended { .. }
            | Self::Queued { .. }
            | Self::Holds { .. } => Subject::Envelope,
            Self::Path { .. } => Subject::Path,
            Self::Died { .. }
            | Self::Halted { .. }
            | Self::Sated { .. }
            | Self::Node { .. }
            | Self::Cable { .. } => Subject::Fault,
            Self::Calm | Self::Idle | Self::Rested { .. } | Self::Over => Subject::Run,
            _ => Subject::Application,
        }
    }
}

impl fmt::Display for Fact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began {
                node,
                contact,
                founders,
                ..
            } => {
                write!(
                    f,
                    "{} begins an incarnation: {}",
                    node_name(*node),
                    incarnation(contact)
                )?;
                if *founders > 0 {
                    write!(f, ", to found with {founders}")?;
                }
                Ok(())
            }
            Self::Requested {
                by,
                sequence,
                message,
                bytes,
            } => write!(
                f,
                "s{by} submits message {message}: its {sequence}, {bytes} B"
            ),
            Self::Full { by } => write!(f, "s{by} is refused: no space"),
            Self::SentEnvelope { by, to, sent } => {
                write!(f, "s{by} sends to {}: {sent}", incarnation(to))
            }
            Self::Garbled { by, why } => write!(f, "s{by} sends an invalid envelope: {why}"),
            Self::Received {
                by,
                from,
                sent,
                result,
            } => match result {
                Ok(()) => write!(f, "s{by} receives from s{from}: {sent}"),
                Err(error) => write!(f, "s{by} receives from s{from}: {sent}: {error:?}"),
            },
            Self::Forged {
                by,
                node,
                kind,
                result,
                moved,
            } => {
                let node = node_name(*node);
                let word = if *moved {
                    "and changes"
                } else {
                    "and does not change"
                };
                write!(
                    f,
                    "s{by} receives from a non-member of {node}, kind {kind}: {result:?}, {word}"
                )
            }
            Self::Ended { by, to, how } => {
                write!(
                    f,
                    "s{by}: an envelope to {} ended: {how:?}",
                    incarnation(to)
                )
            }
            Self::Queued { at, bytes } => write!(f, "s{at} has {bytes} B in its queue"),
            Self::Holds { by, bytes } => write!(f, "s{by} holds {bytes} B"),
            Self::Path { at, about, up } => {
                let word = if *up { "is up" } else { "is lost" };
                write!(
                    f,
                    "s{at} is notified: the path to {} {word}",
                    node_name(*about)
                )
            }
            Self::Suspected { by, target } => write!(f, "s{by} accuses s{target}"),
            Self::View { by, view } => {
                let members: Vec<_> = view.members.iter().map(incarnation).collect();
                write!(
                    f,
                    "s{by} is notified: view {} of {:x}: {}; voters {:?}",
                    view.number,
                    view.group,
                    members.join(" "),
                    view.voters
                )
            }
            Self::Delivered {
                by, placed, view, ..
            } => write!(
                f,
                "s{by} is notified: message {} at {} of view {view}",
                placed.message, placed.position
            ),
            Self::Stable { by, view, position } => {
                write!(
                    f,
                    "s{by} is notified: stable below {position} of view {view}"
                )
            }
            Self::StateWanted { by, to } => {
                write!(
                    f,
                    "s{by} is notified: {} requests the state",
                    incarnation(to)
                )
            }
            Self::State {
                by,
                last,
                delivered_to,
                ..
            } => {
                let word = if *last { "the last part" } else { "a part" };
                write!(
                    f,
                    "s{by} is notified: {word} of the state, with {delivered_to} of its own"
                )
            }
            Self::StateVoid { by } => write!(f, "s{by} is notified: the state is void"),
            Self::Stopped {
                by,
                why,
                undelivered,
            } => write!(
                f,
                "s{by} is notified: stopped, {why:?}; in doubt from its {undelivered} on"
            ),
            Self::Outcome { by, delivered_to } => {
                write!(
                    f,
                    "s{by} is notified: {delivered_to} of its former incarnation were delivered"
                )
            }
            Self::Leaves { by } => write!(f, "s{by} announces that it leaves"),
            Self::Left { by } => write!(f, "s{by} is notified: left"),
            Self::Died { membership } => write!(f, "s{membership} dies"),
            Self::Halted { membership, still } => {
                write!(
                    f,
                    "s{membership} {}",
                    if *still { "stalls" } else { "continues" }
                )
            }
            Self::Sated { membership, sated } => write!(
                f,
                "s{membership} takes {}",
                if *sated { "no events" } else { "events again" }
            ),
            Self::Node { node, runs } => write!(
                f,
                "node {} {}",
                node_name(*node),
                if *runs { "starts" } else { "dies" }
            ),
            Self::Cable { ends: [a, b], cut } => write!(
                f,
                "cable {}-{} is {}",
                node_name(*a),
                node_name(*b),
                if *cut { "cut" } else { "whole" }
            ),
            Self::Calm => f.write_str("calm"),
            Self::Idle => f.write_str("from now on only ticks occur"),
            Self::Rested { ticks } => write!(f, "{ticks} ticks passed"),
            Self::Over => f.write_str("the end"),
        }
    }
}

/// Formats an incarnation for display.
fn incarnation(contact: &Contact) -> String {
    format!(
        "{}/{:x}",
        node_name(contact.guid as usize - 1),
        contact.incarnation.0
    )
}
