//! What happens in a world, as checkers and traces are shown it.

use std::fmt;

use covalent_protocol::group::{BadEnvelope, Contact, End, Life, Stop, View};
use serde::Serialize;

use super::{
    book::{Digest, Placed, StayId},
    said::Said,
};
use crate::node_name;

/// Something that happened.
#[derive(Debug)]
pub enum Fact<'a> {
    /// An application began a stay. Its number is the next one.
    Began {
        /// On this node.
        node: usize,
        /// It is reached here.
        contact: &'a Contact,
        /// Members with which it founds; 0 if it only joins, or begins with a view.
        founders: u8,
        /// The stay before it on this node, of whose messages it asks.
        former: Option<Life>,
    },
    /// A multicast was taken in.
    Asked {
        /// By whom.
        by: StayId,
        /// Its number among those of the stay.
        sequence: u64,
        /// Its number among all.
        message: u64,
        /// Its length.
        bytes: usize,
    },
    /// A multicast was refused for want of room.
    Full {
        /// Who asked.
        by: StayId,
    },
    /// An envelope was posted.
    Said {
        /// By whom.
        by: StayId,
        /// To whom.
        to: &'a Contact,
        /// What it says.
        said: &'a Said,
    },
    /// What was posted cannot be read.
    Garbled {
        /// By whom.
        by: StayId,
        /// Why.
        why: &'a str,
    },
    /// An envelope was taken out of a receive queue.
    Heard {
        /// By whom.
        by: StayId,
        /// Whose.
        from: StayId,
        /// What it says.
        said: &'a Said,
        /// What came of it.
        result: Result<(), BadEnvelope>,
    },
    /// An envelope that a stranger forged was taken out of a receive queue.
    Forged {
        /// By whom.
        by: StayId,
        /// The node of the stranger.
        node: usize,
        /// Its kind, as far as it has one.
        kind: u8,
        /// What came of it.
        result: Result<(), BadEnvelope>,
        /// The receiver is not as it was before.
        moved: bool,
    },
    /// An envelope ended for its sender.
    Ended {
        /// Whose.
        by: StayId,
        /// To whom.
        to: &'a Contact,
        /// How.
        how: End,
    },
    /// Bytes of envelopes with numbers in a receive queue, behind one more envelope.
    Queued {
        /// Whose queue.
        at: StayId,
        /// How many.
        bytes: usize,
    },
    /// What a machine holds behind a turn.
    Holds {
        /// Whose.
        by: StayId,
        /// Bytes of multicasts and envelopes.
        bytes: usize,
    },
    /// The link layer said something of the way to a node.
    Path {
        /// To whom.
        at: StayId,
        /// Of which node.
        about: usize,
        /// That there is one.
        up: bool,
    },
    /// An application said of a member that it should go.
    Suspected {
        /// Which application.
        by: StayId,
        /// Whom.
        whom: StayId,
    },
    /// An application was told a view.
    View {
        /// Which application.
        by: StayId,
        /// The view.
        view: &'a View,
    },
    /// An application was told a message.
    Delivered {
        /// Which application.
        by: StayId,
        /// Which message, and where it lies.
        placed: &'a Placed,
        /// The view that it was told to belong to.
        view: u64,
        /// Its bytes are those that were asked for.
        whole: bool,
    },
    /// An application was told what all have.
    Stable {
        /// Which application.
        by: StayId,
        /// In this view.
        view: u64,
        /// Everything below this position.
        position: u64,
    },
    /// An application is asked for its state.
    StateWanted {
        /// Which application.
        by: StayId,
        /// For whom.
        to: &'a Contact,
    },
    /// An application got a part of the state.
    State {
        /// Which application.
        by: StayId,
        /// The last one.
        last: bool,
        /// What it has from it, if it was the last one: `None` for what is no state.
        digest: Option<Digest>,
        /// Own messages that are in it.
        delivered_to: u64,
    },
    /// What came of the state is void.
    StateVoid {
        /// For this application.
        by: StayId,
    },
    /// An application was told that nothing is delivered any more.
    Stopped {
        /// Which application.
        by: StayId,
        /// Why.
        why: Stop,
        /// Own messages from this number on are in doubt.
        undelivered: u64,
    },
    /// An application was told what became of the messages of its former stay.
    Fate {
        /// Which application.
        by: StayId,
        /// So many were delivered.
        delivered_to: u64,
    },
    /// An application said that it leaves.
    Leaves {
        /// Which.
        by: StayId,
    },
    /// An application left.
    Left {
        /// Which.
        by: StayId,
    },
    /// An application died, alone or with its node.
    Died {
        /// Which.
        stay: StayId,
    },
    /// An application stands still, or goes on.
    Halted {
        /// Which.
        stay: StayId,
        /// It stands still.
        still: bool,
    },
    /// An application takes no events, or takes them again.
    Sated {
        /// Which.
        stay: StayId,
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
    /// Nothing was done to the world for so long that everything has come to rest that can.
    Calm,
    /// From now on nothing happens but paces.
    Idle,
    /// So many paces later.
    Rested {
        /// Paces.
        paces: u64,
    },
    /// All faults are over, and everything has come to its end, or had the time for it.
    Over,
}

/// What a line of a trace is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// What applications ask and are told.
    Application,
    /// Envelopes.
    Envelope,
    /// What the link layer says.
    Path,
    /// What was done to the world.
    Fault,
    /// The run itself.
    Run,
}

impl Fact<'_> {
    /// What it is about.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Said { .. }
            | Self::Garbled { .. }
            | Self::Heard { .. }
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
                write!(f, "{} begins a stay: {}", node_name(*node), life(contact))?;
                if *founders > 0 {
                    write!(f, ", to found with {founders}")?;
                }
                Ok(())
            }
            Self::Asked {
                by,
                sequence,
                message,
                bytes,
            } => write!(
                f,
                "s{by} asks for message {message}: its {sequence}, {bytes} B"
            ),
            Self::Full { by } => write!(f, "s{by} is refused: no room"),
            Self::Said { by, to, said } => write!(f, "s{by} says to {}: {said}", life(to)),
            Self::Garbled { by, why } => write!(f, "s{by} says what cannot be read: {why}"),
            Self::Heard {
                by,
                from,
                said,
                result,
            } => match result {
                Ok(()) => write!(f, "s{by} hears of s{from}: {said}"),
                Err(error) => write!(f, "s{by} hears of s{from}: {said}: {error:?}"),
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
                    "and is moved"
                } else {
                    "and stays as it is"
                };
                write!(
                    f,
                    "s{by} hears a stranger of {node}, kind {kind}: {result:?}, {word}"
                )
            }
            Self::Ended { by, to, how } => {
                write!(f, "s{by}: an envelope to {} ended: {how:?}", life(to))
            }
            Self::Queued { at, bytes } => write!(f, "s{at} has {bytes} B in its queue"),
            Self::Holds { by, bytes } => write!(f, "s{by} holds {bytes} B"),
            Self::Path { at, about, up } => {
                let word = if *up { "is there" } else { "is lost" };
                write!(f, "s{at} is told: the way to {} {word}", node_name(*about))
            }
            Self::Suspected { by, whom } => write!(f, "s{by} says that s{whom} should go"),
            Self::View { by, view } => {
                let members: Vec<_> = view.members.iter().map(life).collect();
                write!(
                    f,
                    "s{by} is told: view {} of {:x}: {}; voters {:?}",
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
                "s{by} is told: message {} at {} of view {view}",
                placed.message, placed.position
            ),
            Self::Stable { by, view, position } => {
                write!(f, "s{by} is told: stable below {position} of view {view}")
            }
            Self::StateWanted { by, to } => {
                write!(f, "s{by} is told: {} wants the state", life(to))
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
                    "s{by} is told: {word} of the state, with {delivered_to} of its own"
                )
            }
            Self::StateVoid { by } => write!(f, "s{by} is told: the state is void"),
            Self::Stopped {
                by,
                why,
                undelivered,
            } => write!(
                f,
                "s{by} is told: stopped, {why:?}; in doubt from its {undelivered} on"
            ),
            Self::Fate { by, delivered_to } => {
                write!(
                    f,
                    "s{by} is told: {delivered_to} of its former stay were delivered"
                )
            }
            Self::Leaves { by } => write!(f, "s{by} says that it leaves"),
            Self::Left { by } => write!(f, "s{by} is told: left"),
            Self::Died { stay } => write!(f, "s{stay} dies"),
            Self::Halted { stay, still } => {
                write!(
                    f,
                    "s{stay} {}",
                    if *still { "stands still" } else { "goes on" }
                )
            }
            Self::Sated { stay, sated } => write!(
                f,
                "s{stay} takes {}",
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
            Self::Idle => f.write_str("from now on nothing happens but paces"),
            Self::Rested { paces } => write!(f, "{paces} paces went by"),
            Self::Over => f.write_str("the end"),
        }
    }
}

/// A stay, for people: its life.
fn life(contact: &Contact) -> String {
    format!(
        "{}/{:x}",
        node_name(contact.guid as usize - 1),
        contact.life.0
    )
}
