//! A query for the outcome of an exchange, and its reply.
//!
//! A query names the initiator's port, the epoch, the slot and its sequence. The responder
//! *latches* its reply: an exchange reported as undone is never executed, even if its request is
//! still in flight on the failed link. A query may therefore be repeated over any link and needs no
//! slot of its own. Where no link leads to the peer, a neighbor relays the query
//! ([`super::super::resolver`]).
//!
//! ```text
//!  question  ├ port u16 ┼ commit u8 ┼ 0 ┼ epoch u32 ┤
//!  answer    ├ port u16 ┼ ending u8 ┼ refusal u8 ┼ sequence the slot stands at, u32 ┼ reply… ┤
//! ```

use crate::{
    latch::{LatchSet, Standing, Verdict},
    wire::record::Header,
};

pub(in crate::node) const QUESTION_BYTES: usize = 8;
pub(in crate::node) const ANSWER_BYTES: usize = 8;

/// How an exchange ended, on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(in crate::node) enum Ending {
    /// Reversed: nothing was executed and nothing will be.
    Undone = 0,
    /// Executed; the reply follows.
    Committed = 1,
    /// Refused at message 1.
    Refused = 2,
    /// The responder no longer knows, or holds another exchange for the slot.
    Forgotten = 3,
    /// The request never arrived: nothing was executed and nothing will be.
    NeverSeen = 4,
    /// The queried neighbor has no path to the responder now, or the responder does not know the
    /// initiator yet. Gives no information about the exchange.
    NoPath = 5,
}

impl Ending {
    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Undone,
            1 => Self::Committed,
            2 => Self::Refused,
            3 => Self::Forgotten,
            4 => Self::NeverSeen,
            5 => Self::NoPath,
            _ => return None,
        })
    }
}

/// A query about an exchange of a known initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::node) struct Question {
    /// The exchange.
    pub verdict: Verdict,
    /// The initiator received message 2: the responder must commit the request if it still holds
    /// it.
    pub commit: bool,
}

impl Question {
    /// The payload of [`Kind::Resolve`](crate::wire::slice::Kind::Resolve): everything besides slot
    /// and sequence.
    pub const fn to_bytes(self) -> [u8; QUESTION_BYTES] {
        let [low, high] = self.verdict.port.to_le_bytes();
        let [e0, e1, e2, e3] = self.verdict.epoch.to_le_bytes();
        [low, high, self.commit as u8, 0, e0, e1, e2, e3]
    }

    /// Reads it from a message. `None` for bytes that no node sends.
    pub fn read(header: &Header, payload: &[u8]) -> Option<Self> {
        let &[port_low, port_high, commit, _, ref epoch @ ..] = payload else {
            return None;
        };
        Some(Self {
            verdict: Verdict {
                port: u16::from_le_bytes([port_low, port_high]),
                epoch: u32::from_le_bytes(epoch.try_into().ok()?),
                slot: header.slot,
                sequence: header.slot_sequence,
            },
            commit: commit != 0,
        })
    }
}

/// An answer as it arrived.
#[derive(Debug, Clone, Copy)]
pub(in crate::node) struct ReceivedAnswer<'a> {
    pub port: u16,
    pub ending: Ending,
    pub refusal: u8,
    /// The sequence that the slot stands at.
    pub current: u32,
    pub reply: &'a [u8],
}

impl<'a> ReceivedAnswer<'a> {
    /// `None` for bytes that no node sends, or a reply of more than `reply_bytes_max`.
    pub fn read(payload: &'a [u8], reply_bytes_max: usize) -> Option<Self> {
        let (&[port_low, port_high, ending, refusal, ref current @ ..], reply) =
            payload.split_first_chunk::<ANSWER_BYTES>()?;
        let answer = Self {
            port: u16::from_le_bytes([port_low, port_high]),
            ending: Ending::from_byte(ending)?,
            refusal,
            current: u32::from_le_bytes(*current),
            reply,
        };
        (reply.len() <= reply_bytes_max).then_some(answer)
    }
}

/// The header of the reply to a query, and the reply of the exchange.
pub(in crate::node) fn answer(
    set: Option<&LatchSet>,
    verdict: Verdict,
) -> ([u8; ANSWER_BYTES], &[u8]) {
    let latch = set.and_then(|set| set.latches.get(usize::from(verdict.slot)));
    let (ending, refusal) = match latch {
        Some(latch) if latch.is_of(&verdict) => match latch.standing {
            Standing::NeverSeen => (Ending::NeverSeen, 0),
            Standing::Undone => (Ending::Undone, 0),
            Standing::Committed { .. } => (Ending::Committed, 0),
            Standing::Refused(refusal) => (Ending::Refused, refusal.to_byte()),
            Standing::Empty
            | Standing::Forgotten
            | Standing::ForgottenUntil
            | Standing::Tentative => (Ending::Forgotten, 0),
        },
        _ => (Ending::Forgotten, 0),
    };
    let current = latch
        .filter(|latch| !latch.is_blank())
        .map_or(verdict.sequence, |latch| latch.sequence);
    let reply = match (ending, set) {
        (Ending::Committed, Some(set)) => set.bytes(verdict.slot),
        _ => &[],
    };
    (answer_header(verdict.port, ending, refusal, current), reply)
}

pub(in crate::node) const fn answer_header(
    port: u16,
    ending: Ending,
    refusal: u8,
    current: u32,
) -> [u8; ANSWER_BYTES] {
    let [low, high] = port.to_le_bytes();
    let [c0, c1, c2, c3] = current.to_le_bytes();
    [low, high, ending as u8, refusal, c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reads_as_it_was_written_up_to_the_limit() {
        for ending in 0..=5 {
            let ending = Ending::from_byte(ending).expect("there are six");
            let mut payload = answer_header(0x8003, ending, 4, 77).to_vec();
            payload.extend([1, 2, 3]);
            let read = ReceivedAnswer::read(&payload, 3).expect("it was written here");
            assert_eq!(
                (
                    read.port,
                    read.ending,
                    read.refusal,
                    read.current,
                    read.reply
                ),
                (0x8003, ending, 4, 77, &[1, 2, 3][..])
            );
            assert!(ReceivedAnswer::read(&payload, 2).is_none(), "too long");
            payload[2] = 6;
            assert!(ReceivedAnswer::read(&payload, 3).is_none(), "no ending");
        }
    }
}
