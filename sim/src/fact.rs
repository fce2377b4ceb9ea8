//! What happens in a world, as the checkers and the trace are shown it.

use std::fmt;

use covalent_protocol::{Answer, ExchangeId, LinkEvent, Mode, Outcome, Refusal};
use serde::Serialize;

use crate::{
    book::{Exchange, Life},
    cable::Fate,
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

/// What a fact is about, for those who look for some only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// What programs ask for and are told.
    Exchange,
    /// What a node's region takes part in.
    Region,
    /// Links.
    Link,
    /// Faults and repairs.
    Fault,
    /// Single frames.
    Frame,
    /// Paces.
    Pace,
    /// The run.
    Run,
}

/// One thing that happened.
#[derive(Debug)]
pub enum Fact<'a> {
    /// A node took an exchange.
    Asked {
        /// Its token.
        token: u64,
        /// What it is.
        exchange: Exchange,
    },
    /// A request was admitted.
    Admitted {
        /// Where.
        at: Life,
        /// Its name there.
        id: &'a ExchangeId,
        /// How it is to be done.
        mode: Mode,
        /// The request.
        payload: &'a [u8],
        /// Something was written meanwhile.
        wrote: bool,
    },
    /// A request was refused.
    Declined {
        /// Where.
        at: Life,
        /// The request.
        payload: &'a [u8],
        /// Why.
        refusal: Refusal,
        /// Something was written meanwhile.
        wrote: bool,
    },
    /// An admitted request was executed.
    Executed {
        /// Where.
        at: Life,
        /// Its name there.
        id: &'a ExchangeId,
        /// The request.
        payload: &'a [u8],
        /// The reply.
        reply: &'a [u8],
        /// Writes to the region before.
        writes_before: u64,
    },
    /// An admitted request was reversed.
    Reversed {
        /// Where.
        at: Life,
        /// Its name there.
        id: &'a ExchangeId,
        /// The request.
        payload: &'a [u8],
        /// Something was written meanwhile.
        wrote: bool,
    },
    /// A program was told how its exchange ended.
    Told {
        /// Who.
        by: Life,
        /// Which.
        token: u64,
        /// How.
        outcome: Outcome<'a>,
        /// Its node's clock.
        clock: u64,
    },
    /// A program was told that its exchange is in doubt.
    Doubted {
        /// Who.
        by: Life,
        /// Which.
        token: u64,
        /// By what name it may be asked for.
        name: &'a ExchangeId,
    },
    /// A program asks for an exchange by its name.
    AskedAgain {
        /// Who.
        by: Life,
        /// The number of the question.
        question: u64,
        /// About which exchange.
        token: u64,
    },
    /// A node has no room for a question.
    NotAsked {
        /// The number of the question.
        question: u64,
    },
    /// A program that asked by name was told that there is no path to the answer.
    DoubtedAgain {
        /// Who.
        by: Life,
        /// The number of the question.
        question: u64,
    },
    /// A program that asked by name was told.
    Answered {
        /// Who.
        by: Life,
        /// The number of the question.
        question: u64,
        /// About which exchange.
        token: u64,
        /// What.
        answer: Answer<'a>,
        /// Its node's clock.
        clock: u64,
    },
    /// A program does not care any more.
    Cancelled {
        /// About which exchange.
        token: u64,
    },
    /// A node gave a frame to a cable.
    Sent {
        /// The sending port.
        from: Place,
        /// The frame.
        frame: &'a [u8],
        /// What became of it.
        fate: Fate,
        /// Records of its epoch that are under way in this direction with it.
        under_way: usize,
        /// The node had said that it had something to send.
        announced: bool,
    },
    /// A frame arrived.
    Heard {
        /// The receiving port.
        at: Place,
        /// The frame.
        frame: &'a [u8],
        /// It will arrive again.
        again: bool,
    },
    /// A node's pace passed.
    Ticked {
        /// The node.
        node: usize,
    },
    /// A node's lane heard nothing for a while, and tells it.
    Quiet {
        /// The node.
        node: usize,
    },
    /// A link came up or went down.
    Link {
        /// Where.
        at: Place,
        /// What.
        event: LinkEvent,
    },
    /// A program was told that a node is reached, or lost.
    Path {
        /// Who.
        by: Life,
        /// The GUID of the node.
        peer: u64,
        /// It is reached.
        up: bool,
    },
    /// A cable loses everything from now on.
    Cut {
        /// The cable.
        cable: usize,
        /// Directions, by receiving end.
        towards: [bool; 2],
        /// The epochs of what was under way, if that is lost too.
        lost_epochs: Option<&'a [u32]>,
    },
    /// A cable is whole again.
    Healed {
        /// The cable.
        cable: usize,
    },
    /// A port lost or found its carrier.
    Carrier {
        /// The port.
        at: Place,
        /// It found it.
        up: bool,
    },
    /// A port could not transmit.
    TransmitFailed {
        /// The port.
        at: Place,
    },
    /// A node stands still.
    NodeStalled {
        /// The node.
        node: usize,
        /// For so many events.
        events: u32,
    },
    /// A direction of a cable stands still.
    CableStalled {
        /// The cable.
        cable: usize,
        /// Its receiving end.
        end: usize,
        /// For so many events.
        events: u32,
    },
    /// A node lost its memory and starts anew.
    Crashed {
        /// The node.
        node: usize,
        /// The cables at it.
        cables: &'a [usize],
    },
    /// A node with a journal starts again.
    Restarted {
        /// The node.
        node: usize,
        /// The cables at it.
        cables: &'a [usize],
        /// What its journal makes of its memory.
        words: &'a [u64; REGION_WORDS],
    },
    /// The disk of a node has finished what it wrote.
    Synced {
        /// The node.
        node: usize,
        /// The last record that is on disk.
        durable: u64,
        /// The last record.
        last: u64,
    },
    /// Cables lead elsewhere.
    Moved {
        /// The nodes that each cable joins now.
        cables: &'a [[usize; 2]],
    },
    /// A port hears a frame of somebody who hears nothing there, in the call that comes next.
    Forged {
        /// The port.
        at: Place,
    },
    /// A port heard random bytes.
    Noise {
        /// The port.
        at: Place,
    },
    /// A node's registers hold anything from now on.
    Scrambled {
        /// The node.
        node: usize,
        /// The cables at it.
        cables: &'a [usize],
    },
    /// A frame is under way that nobody sent.
    Planted {
        /// The port that it goes to.
        at: Place,
        /// The frame.
        frame: &'a [u8],
    },
    /// A node gave its program something that nobody asked for.
    Invented {
        /// Where.
        at: Life,
        /// What was to be done with it.
        what: &'static str,
        /// The bytes.
        payload: &'a [u8],
    },
    /// Everything came to its end behind what was arbitrary, or not.
    Converged {
        /// Paces that it took.
        paces: u32,
        /// Paces that it may take.
        paces_max: u32,
        /// What did not come to its end.
        unfinished: Option<&'a str>,
    },
    /// From now on nothing fails.
    FaultsStopped,
    /// Everything came to its end, or not.
    Rested {
        /// Paces that it took.
        paces: u32,
        /// Paces that it may take.
        paces_max: u32,
        /// What did not come to its end.
        unfinished: Option<&'a str>,
    },
}

impl Fact<'_> {
    /// What it is about.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Asked { .. }
            | Self::Told { .. }
            | Self::Doubted { .. }
            | Self::AskedAgain { .. }
            | Self::NotAsked { .. }
            | Self::DoubtedAgain { .. }
            | Self::Answered { .. }
            | Self::Cancelled { .. } => Subject::Exchange,
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
            Self::Sent { .. } | Self::Heard { .. } => Subject::Frame,
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

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(node_name(self.node))?;
        match self.number {
            0 => Ok(()),
            number => write!(f, " in life {}", number + 1),
        }
    }
}

impl fmt::Display for Fact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = |payload: &[u8]| payload::token_of(payload).unwrap_or(u64::MAX);
        match self {
            Self::Asked { token, exchange } => write!(
                f,
                "{} asks {} to {}: exchange {token}, {}",
                exchange.from,
                node_name(exchange.to.node),
                exchange.ask,
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
            Self::Told {
                by, token, outcome, ..
            } => match outcome {
                Outcome::Committed(_) => write!(f, "{by} is told: exchange {token} is done"),
                Outcome::Refused(refusal) => {
                    write!(f, "{by} is told: exchange {token} was refused, {refusal}")
                }
                Outcome::PeerRestarted => write!(
                    f,
                    "{by} is told: the peer of exchange {token} forgot it, done at most once"
                ),
            },
            Self::Doubted { by, token, name } => {
                write!(
                    f,
                    "{by} is told: exchange {token} is in doubt, no path to ask; it is number {} in slot {} of epoch {}",
                    name.sequence, name.slot, name.epoch
                )
            }
            Self::AskedAgain {
                by,
                question,
                token,
            } => write!(
                f,
                "{by} asks by name for exchange {token}: question {question}"
            ),
            Self::NotAsked { question } => write!(f, "there is no room for question {question}"),
            Self::DoubtedAgain { by, question } => {
                write!(
                    f,
                    "{by} is told: no path to an answer to question {question}"
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
                    "{by} is answered question {question}: exchange {token} {answer}"
                )
            }
            Self::Cancelled { token } => write!(f, "nobody cares about exchange {token} any more"),
            Self::Sent {
                from, frame, fate, ..
            } => {
                let fate = match fate {
                    Fate::UnderWay => "",
                    Fate::Lost => ", which is lost",
                    Fate::Corrupted => ", in which bits flip",
                };
                write!(f, "{from} sends {}{fate}", records::describe(frame))
            }
            Self::Heard { at, frame, again } => {
                let again = if *again { ", not the last time" } else { "" };
                write!(f, "{at} hears {}{again}", records::describe(frame))
            }
            Self::Ticked { node } => write!(f, "a pace of {} passes", node_name(*node)),
            Self::Quiet { node } => write!(f, "{} hears nothing", node_name(*node)),
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
                write!(f, "{by} is told: the node {peer:#x} is {what}")
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
                    ", with what was under way"
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
                write!(f, "{} stands still for {events} events", node_name(*node))
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
            Self::Forged { at } => write!(f, "{at} hears a forged frame"),
            Self::Noise { at } => write!(f, "{at} hears noise"),
            Self::Scrambled { node, .. } => {
                write!(f, "the registers of {} hold anything", node_name(*node))
            }
            Self::Planted { at, frame } => {
                write!(f, "to {at} comes from nowhere {}", records::describe(frame))
            }
            Self::Invented { at, what, payload } => {
                write!(f, "{at} {what} {} bytes of nobody", payload.len())
            }
            Self::Converged {
                paces, unfinished, ..
            } => match unfinished {
                None => write!(f, "all is well again, after {paces} paces"),
                Some(what) => write!(f, "not well again after {paces} paces: {what}"),
            },
            Self::FaultsStopped => f.write_str("from now on nothing fails"),
            Self::Rested {
                paces, unfinished, ..
            } => match unfinished {
                None => write!(f, "everything has ended, after {paces} paces"),
                Some(what) => write!(f, "no rest after {paces} paces: {what}"),
            },
        }
    }
}
