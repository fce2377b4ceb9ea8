//! Events of a world, as checkers and traces see them.

use std::fmt;

use covalent_protocol::{Answer, ExchangeId, LinkEvent, Mode, Outcome, Refusal};
use serde::Serialize;

use crate::{
    book::{Exchange, NodeIncarnation},
    cable::FrameOutcome,
    node_name, payload, records,
    region::REGION_WORDS,
};

/// A port at an end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The cable.
    pub cable: usize,
    /// Which of its two ends.
    pub end: usize,
    /// The node there.
    pub node: usize,
    /// The node's port.
    pub port: u16,
}

/// Topic of a fact, used as a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Submissions and outcomes of programs.
    Exchange,
    /// Operations on a node's region.
    Region,
    /// Links.
    Link,
    /// Faults and repairs.
    Fault,
    /// Single frames.
    Frame,
    /// Ticks.
    Pace,
    /// The run.
    Run,
}

/// One thing that happened.
#[derive(Debug)]
pub enum Fact<'a> {
    /// A node took an exchange.
    Requested { token: u64, exchange: Exchange },
    /// A request was admitted.
    Admitted {
        at: NodeIncarnation,
        id: &'a ExchangeId,
        /// How it is to be done.
        mode: Mode,
        payload: &'a [u8],
        wrote: bool,
    },
    /// A request was refused.
    Declined {
        at: NodeIncarnation,
        payload: &'a [u8],
        refusal: Refusal,
        wrote: bool,
    },
    /// An admitted request was executed.
    Executed {
        at: NodeIncarnation,
        id: &'a ExchangeId,
        payload: &'a [u8],
        reply: &'a [u8],
        /// Writes to the region before.
        writes_before: u64,
    },
    /// An admitted request was reversed.
    Reversed {
        at: NodeIncarnation,
        id: &'a ExchangeId,
        payload: &'a [u8],
        wrote: bool,
    },
    /// A program was notified of the outcome of its exchange.
    Reported {
        by: NodeIncarnation,
        token: u64,
        outcome: Outcome<'a>,
        clock: u64,
    },
    /// A program was notified that its exchange is in doubt.
    Doubted {
        by: NodeIncarnation,
        token: u64,
        /// Name for queries about it.
        name: &'a ExchangeId,
    },
    /// A program queries an exchange by its name.
    Queried {
        by: NodeIncarnation,
        /// The number of the question.
        question: u64,
        token: u64,
    },
    /// A node has no capacity for a query.
    QueryRefused {
        /// The number of the question.
        question: u64,
    },
    /// A program that queried by name was notified that no path leads to a reply.
    QueryDoubted {
        by: NodeIncarnation,
        /// The number of the question.
        question: u64,
    },
    /// A program that queried by name got a reply.
    Answered {
        by: NodeIncarnation,
        /// The number of the question.
        question: u64,
        token: u64,
        answer: Answer<'a>,
        clock: u64,
    },
    /// A program does not care any more.
    Canceled { token: u64 },
    /// A node gave a frame to a cable.
    Sent {
        from: Place,
        frame: &'a [u8],
        frame_outcome: FrameOutcome,
        /// Records of its epoch in flight in this direction, including this frame.
        in_flight: usize,
        /// The node had reported pending work.
        announced: bool,
    },
    /// A frame arrived.
    Received {
        at: Place,
        frame: &'a [u8],
        repeated: bool,
    },
    /// A node ticked.
    Ticked { node: usize },
    /// A node's lane received nothing for a while, and notifies the node.
    Quiet { node: usize },
    /// A link came up or went down.
    Link { at: Place, event: LinkEvent },
    /// A program was notified that a node is reached or lost.
    Path {
        by: NodeIncarnation,
        /// The GUID of the node.
        peer: u64,
        up: bool,
    },
    /// A cable loses everything from now on.
    Cut {
        cable: usize,
        towards: [bool; 2],
        /// Epochs of the frames in flight, if these are lost too.
        lost_epochs: Option<&'a [u32]>,
    },
    /// A cable is whole again.
    Healed { cable: usize },
    /// A port lost or found its carrier.
    Carrier { at: Place, up: bool },
    /// A port could not transmit.
    TransmitFailed { at: Place },
    /// A node stands still.
    NodeStalled { node: usize, events: u32 },
    /// A direction of a cable stands still.
    CableStalled {
        cable: usize,
        end: usize,
        events: u32,
    },
    /// A node lost its memory and starts anew.
    Crashed { node: usize, cables: &'a [usize] },
    /// A node with a journal starts again.
    Restarted {
        node: usize,
        cables: &'a [usize],
        /// Memory that its journal restored.
        words: &'a [u64; REGION_WORDS],
    },
    /// The disk of a node completed a write.
    Synced {
        node: usize,
        /// The last record that is on disk.
        durable: u64,
        last: u64,
    },
    /// Cables lead elsewhere.
    Moved {
        /// The nodes that each cable joins now.
        cables: &'a [[usize; 2]],
    },
    /// A port receives a forged frame in the next call. Its sender receives nothing from that port.
    Forged { at: Place },
    /// A port received random bytes.
    Noise { at: Place },
    /// A node's registers hold anything from now on.
    Scrambled { node: usize, cables: &'a [usize] },
    /// A frame that no node sent is in flight.
    Planted {
        /// The port that it goes to.
        at: Place,
        frame: &'a [u8],
    },
    /// A node passed a request to its program that no initiator sent.
    Invented {
        at: NodeIncarnation,
        what: &'static str,
        payload: &'a [u8],
    },
    /// The world converged from arbitrary state, or failed to.
    Converged {
        /// Number of ticks that it took.
        paces: u32,
        /// Number of ticks that it may take.
        paces_max: u32,
        /// Description of what did not complete.
        unfinished: Option<&'a str>,
    },
    /// From now on nothing fails.
    FaultsStopped,
    /// Everything completed, or failed to.
    Rested {
        /// Number of ticks that it took.
        paces: u32,
        /// Number of ticks that it may take.
        paces_max: u32,
        /// Description of what did not complete.
        unfinished: Option<&'a str>,
    },
}

impl Fact<'_> {
    /// Topic of the fact.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Requested { .. }
            | Self::Reported { .. }
            | Self::Doubted { .. }
            | Self::Queried { .. }
            | Self::QueryRefused { .. }
            | Self::QueryDoubted { .. }
            | Self::Answered { .. }
            | Self::Canceled { .. } => Subject::Exchange,
            Self::Admitted { .. }
            | Self::Declined { .. }
            | Self::Executed { .. }
            | Self::Reversed { .. }
            | Self::Synced { .. }
            | Self::Invented { .. } => Subject::Region,
            Self::Link { .. } | Self::Path { .. } => Subject::Link,
            Self::Cut { .. }
            | Self::Healed { .. }
            | Self::Carrier { .. }
            | Self::TransmitFailed { .. }
            | Self::NodeStalled { .. }
            | Self::CableStalled { .. }
            | Self::Crashed { .. }
            | Self::Restarted { .. }
            | Self::Moved { .. }
            | Self::Scrambled { .. }
            | Self::Planted { .. }
            | Self::Forged { .. }
            | Self::Noise { .. } => Subject::Fault,
            Self::Sent { .. } | Self::Received { .. } => Subject::Frame,
            Self::Ticked { .. } | Self::Quiet { .. } => Subject::Pace,
            Self::Converged { .. } | Self::FaultsStopped | Self::Rested { .. } => Subject::Run,
        }
    }
}

const fn phases(mode: Mode) -> &'static str {
    match mode {
        Mode::OnePhase => "1PC",
        Mode::TwoPhase => "2PC",
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{} (cable {})",
            node_name(self.node),
            self.port,
            self.cable
        )
    }
}

impl fmt::Display for NodeIncarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(node_name(self.node))?;
        match self.number {
            0 => Ok(()),
            number => write!(f, " in incarnation {}", number + 1),
        }
    }
}

impl fmt::Display for Fact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = |payload: &[u8]| payload::token_of(payload).unwrap_or(u64::MAX);
        match self {
            Self::Requested { token, exchange } => write!(
                f,
                "{} requests {} to {}: exchange {token}, {}",
                exchange.from,
                node_name(exchange.to.node),
                exchange.operation,
                phases(exchange.mode)
            ),
            Self::Admitted {
                at, payload, mode, ..
            } => {
                write!(
                    f,
                    "{at} admits exchange {}, {}",
                    token(payload),
                    phases(*mode)
                )
            }
            Self::Declined {
                at,
                payload,
                refusal,
                ..
            } => write!(f, "{at} refuses exchange {}: {refusal}", token(payload)),
            Self::Executed { at, payload, .. } => {
                write!(f, "{at} executes exchange {}", token(payload))
            }
            Self::Reversed { at, payload, .. } => {
                write!(f, "{at} reverses exchange {}", token(payload))
            }
            Self::Reported {
                by, token, outcome, ..
            } => match outcome {
                Outcome::Committed(_) => write!(f, "{by} is notified: exchange {token} is done"),
                Outcome::Refused(refusal) => {
                    write!(
                        f,
                        "{by} is notified: exchange {token} was refused, {refusal}"
                    )
                }
                Outcome::PeerRestarted => write!(
                    f,
                    "{by} is notified: the peer of exchange {token} forgot it, done at most once"
                ),
            },
            Self::Doubted { by, token, name } => {
                write!(
                    f,
                    "{by} is notified: exchange {token} is in doubt, no path for a query; it is \
                     number {} in slot {} of epoch {}",
                    name.sequence, name.slot, name.epoch
                )
            }
            Self::Queried {
                by,
                question,
                token,
            } => write!(f, "{by} queries exchange {token} by name: query {question}"),
            Self::QueryRefused { question } => write!(f, "there is no space for query {question}"),
            Self::QueryDoubted { by, question } => {
                write!(
                    f,
                    "{by} is notified: no path for a reply to query {question}"
                )
            }
            Self::Answered {
                by,
                question,
                token,
                answer,
                ..
            } => {
                let answer = match answer {
                    Answer::Committed(_) => "is done",
                    Answer::Refused(_) => "was refused",
                    Answer::Undone => "is undone",
                    Answer::NeverSeen => "was never seen",
                    Answer::Forgotten => "is forgotten",
                };
                write!(
                    f,
                    "{by} gets the reply to query {question}: exchange {token} {answer}"
                )
            }
            Self::Canceled { token } => write!(f, "exchange {token} is canceled"),
            Self::Sent {
                from,
                frame,
                frame_outcome,
                ..
            } => {
                let frame_outcome = match frame_outcome {
                    FrameOutcome::InFlight => "",
                    FrameOutcome::Lost => ", which is lost",
                    FrameOutcome::Corrupted => ", in which bits flip",
                };
                write!(
                    f,
                    "{from} sends {}{frame_outcome}",
                    records::describe(frame)
                )
            }
            Self::Received {
                at,
                frame,
                repeated,
            } => {
                let repeated = if *repeated { ", not the last time" } else { "" };
                write!(f, "{at} receives {}{repeated}", records::describe(frame))
            }
            Self::Ticked { node } => write!(f, "a tick of {} passes", node_name(*node)),
            Self::Quiet { node } => write!(f, "{} receives nothing", node_name(*node)),
            Self::Link { at, event } => match event {
                LinkEvent::Up { name, epoch, .. } => {
                    write!(f, "{at} is up with {name}, epoch {epoch}")
                }
                LinkEvent::Down { reason, open, .. } => {
                    write!(f, "{at} failed: {reason}; {open} exchanges open")
                }
                LinkEvent::Refused { why, .. } => write!(f, "{at} is refused: {why}"),
                LinkEvent::RefusalOver { .. } => write!(f, "{at} is refused no longer"),
            },
            Self::Path { by, peer, up } => {
                let what = if *up { "reached" } else { "lost" };
                write!(f, "{by} is notified: the node {peer:#x} is {what}")
            }
            Self::Cut {
                cable,
                towards,
                lost_epochs,
            } => {
                let direction = match towards {
                    [true, true] => "in both directions",
                    [true, false] => "towards its first end",
                    [false, _] => "towards its second end",
                };
                let loses = if lost_epochs.is_some() {
                    ", with the frames in flight"
                } else {
                    ""
                };
                write!(f, "cable {cable} is cut {direction}{loses}")
            }
            Self::Healed { cable } => write!(f, "cable {cable} is whole"),
            Self::Carrier { at, up } => {
                write!(
                    f,
                    "{at} {} its carrier",
                    if *up { "finds" } else { "loses" }
                )
            }
            Self::TransmitFailed { at } => write!(f, "{at} cannot transmit"),
            Self::NodeStalled { node, events } => {
                write!(f, "{} stalls for {events} events", node_name(*node))
            }
            Self::CableStalled { cable, end, events } => write!(
                f,
                "cable {cable} delivers nothing to its {} end for {events} events",
                if *end == 0 { "first" } else { "second" }
            ),
            Self::Crashed { node, .. } => {
                write!(f, "{} restarts without its memory", node_name(*node))
            }
            Self::Restarted { node, .. } => {
                write!(f, "{} restarts with its journal", node_name(*node))
            }
            Self::Synced {
                node,
                durable,
                last,
            } => write!(
                f,
                "{} has {durable} of {last} records on disk",
                node_name(*node)
            ),
            Self::Moved { cables } => {
                let pairs: Vec<_> = cables
                    .iter()
                    .map(|[a, b]| format!("{}-{}", node_name(*a), node_name(*b)))
                    .collect();
                write!(f, "cables are moved: {}", pairs.join(" "))
            }
            Self::Forged { at } => write!(f, "{at} receives a forged frame"),
            Self::Noise { at } => write!(f, "{at} receives noise"),
            Self::Scrambled { node, .. } => {
                write!(
                    f,
                    "the registers of {} take arbitrary values",
                    node_name(*node)
                )
            }
            Self::Planted { at, frame } => {
                write!(
                    f,
                    "{at} receives a planted frame {}",
                    records::describe(frame)
                )
            }
            Self::Invented { at, what, payload } => {
                write!(f, "{at} {what} {} bytes that no node sent", payload.len())
            }
            Self::Converged {
                paces, unfinished, ..
            } => match unfinished {
                None => write!(f, "converged after {paces} ticks"),
                Some(what) => write!(f, "not converged after {paces} ticks: {what}"),
            },
            Self::FaultsStopped => f.write_str("from now on nothing fails"),
            Self::Rested {
                paces, unfinished, ..
            } => match unfinished {
                None => write!(f, "everything has ended, after {paces} ticks"),
                Some(what) => write!(f, "no rest after {paces} ticks: {what}"),
            },
        }
    }
}
