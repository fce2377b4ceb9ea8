//! A verb as a request on the wire, and a completion as the lane wrote it. The reply of another
//! node is checked here: it ends its own verb at most.

use covalent_api::{guid::Guid, request::Rights};
use covalent_pipe::region::REGION_BYTES_MAX;
use covalent_protocol::{
    Moment,
    verb::{
        self as codec, DecodeError, MULTI_COMMIT_WORDS_MAX, READ_BYTES_MAX, Status,
        envelope::CompletionOutcome,
    },
};

use crate::{
    error::{Error, Result},
    in_doubt::InDoubtId,
    outstanding::Answer,
    remote::RemoteRegion,
    verb::{CommitWord, Outcome, Refusal, Verb},
};

/// Calls `use_it` with the verb as on the wire.
pub(crate) fn with_request<T>(
    rkey: u32,
    verb: Verb<'_>,
    use_it: impl FnOnce(&codec::Request<'_>) -> T,
) -> Result<T> {
    let (offset, verb) = match verb {
        Verb::MultiCommit { words } => return with_commit(rkey, words, use_it),
        Verb::Read {
            offset_bytes,
            len_bytes,
        } => (offset_bytes, codec::Verb::Read { len: len_bytes }),
        Verb::Write { offset_bytes, data } => (offset_bytes, codec::Verb::Write { data }),
        Verb::Swap { offset_bytes, new } => (offset_bytes, codec::Verb::Swap { new }),
        Verb::CompareAndSwap {
            offset_bytes,
            expected,
            new,
        } => (offset_bytes, codec::Verb::CompareAndSwap { expected, new }),
        Verb::FetchAdd {
            offset_bytes,
            delta,
        } => (offset_bytes, codec::Verb::FetchAdd { delta }),
        Verb::FetchAnd { offset_bytes, mask } => (offset_bytes, codec::Verb::FetchAnd { mask }),
        Verb::FetchOr { offset_bytes, mask } => (offset_bytes, codec::Verb::FetchOr { mask }),
        Verb::FetchXor { offset_bytes, mask } => (offset_bytes, codec::Verb::FetchXor { mask }),
        Verb::FetchMin {
            offset_bytes,
            operand,
            order,
        } => (offset_bytes, codec::Verb::FetchMin { operand, order }),
        Verb::FetchMax {
            offset_bytes,
            operand,
            order,
        } => (offset_bytes, codec::Verb::FetchMax { operand, order }),
        Verb::Conditional {
            offset_bytes,
            condition,
            update,
        } => (offset_bytes, codec::Verb::Conditional { condition, update }),
        Verb::Send { data } => (0, codec::Verb::Send { data }),
    };
    let offset = wire_offset(offset)?;
    Ok(use_it(&codec::Request { rkey, offset, verb }))
}

/// As [`with_request`], for a multi-commit: the only verb whose operands are assembled here.
fn with_commit<T>(
    rkey: u32,
    wanted: &[CommitWord],
    use_it: impl FnOnce(&codec::Request<'_>) -> T,
) -> Result<T> {
    let mut words = [codec::Word {
        offset: 0,
        expected: 0,
        new: 0,
    }; MULTI_COMMIT_WORDS_MAX];
    let room = words.get_mut(..wanted.len());
    let words = room.filter(|room| !room.is_empty()).ok_or_else(|| {
        Error::Invalid(format!(
            "{} words to commit: expected 1 to {MULTI_COMMIT_WORDS_MAX}",
            wanted.len()
        ))
    })?;
    for (word, wanted) in words.iter_mut().zip(wanted) {
        *word = codec::Word {
            offset: wire_offset(wanted.offset_bytes)?,
            expected: wanted.expected,
            new: wanted.new,
        };
    }
    let words = codec::MultiCommit::new(words)
        .map_err(|error| Error::Invalid(format!("words to commit: {error}")))?;
    Ok(use_it(&codec::Request {
        rkey,
        offset: 0,
        verb: codec::Verb::MultiCommit(words),
    }))
}

fn wire_offset(offset_bytes: u64) -> Result<u32> {
    u32::try_from(offset_bytes).map_err(|_| {
        Error::Invalid(format!(
            "offset {offset_bytes}: no region is longer than {REGION_BYTES_MAX} bytes"
        ))
    })
}

pub(crate) const fn answer(verb: &codec::Verb<'_>) -> Answer {
    match verb {
        codec::Verb::Read { .. } => Answer::Data,
        codec::Verb::Lookup { .. } => Answer::Region,
        codec::Verb::Write { .. } | codec::Verb::Send { .. } => Answer::Nothing,
        codec::Verb::MultiCommit(words) => Answer::Commit {
            words: words.len() as u8,
        },
        _ => Answer::Word,
    }
}

/// A completion as the daemon wrote it.
pub(crate) struct Decoded<'a> {
    pub(crate) outcome: Outcome,
    /// When the verb was executed.
    pub(crate) moment: Option<Moment>,
    /// The bytes that it read.
    pub(crate) data: Option<&'a [u8]>,
}

/// Reads the completion of a verb for `node`; `None` for the own node.
pub(crate) fn decode<'a>(
    outcome: &CompletionOutcome<'a>,
    answer: Answer,
    node: Option<Guid>,
) -> Result<Decoded<'a>> {
    let outcome = match outcome {
        CompletionOutcome::Committed(_) if answer == Answer::Path => {
            return Err(Error::Unintelligible("a reply to a watch".to_owned()));
        }
        // The other node's words. They concern this verb only.
        CompletionOutcome::Committed(reply) => {
            return Ok(decode_reply(reply, answer, node).unwrap_or(Decoded {
                outcome: Outcome::BadReply,
                moment: None,
                data: None,
            }));
        }
        CompletionOutcome::Refused(refusal) => Outcome::Refused(*refusal),
        CompletionOutcome::PeerRestarted => Outcome::PeerRestarted,
        CompletionOutcome::NoSuchPeer => Outcome::NoSuchPeer,
        CompletionOutcome::InDoubt(id) => Outcome::InDoubt(InDoubtId::new(*id, answer.note())),
        CompletionOutcome::Undone => Outcome::Undone,
        CompletionOutcome::NeverSeen => Outcome::NeverSeen,
        CompletionOutcome::Forgotten => Outcome::Forgotten,
        CompletionOutcome::Malformed => Outcome::Malformed,
        CompletionOutcome::Path { up } if answer == Answer::Path => Outcome::Path { up: *up },
        CompletionOutcome::Path { .. } => {
            return Err(Error::Unintelligible(
                "word of a path in answer to a verb".to_owned(),
            ));
        }
    };
    Ok(Decoded {
        outcome,
        moment: None,
        data: None,
    })
}

/// The reply of `node`. `None` if the verb cannot have it.
fn decode_reply(reply: &[u8], answer: Answer, node: Option<Guid>) -> Option<Decoded<'_>> {
    let reply = codec::Reply::decode(reply).ok()?;
    let mut data = None;
    let outcome = match (reply.status, answer) {
        (Status::Gone, _) => Outcome::Refused(Refusal::UnknownRegion),
        (Status::Contended, _) => Outcome::Refused(Refusal::Busy),
        (Status::Mismatch, _) => {
            // Programs use it as an index of their words.
            if reply.index >= answer.words() {
                return None;
            }
            Outcome::Mismatch {
                index: reply.index,
                found: reply.value()?,
            }
        }
        (Status::Ok, Answer::Nothing | Answer::Commit { .. }) => Outcome::Done,
        (Status::Ok, Answer::Word) => Outcome::Old(reply.value()?),
        (Status::Ok, Answer::Data) => {
            if reply.data.len() > READ_BYTES_MAX {
                return None;
            }
            data = Some(reply.data);
            Outcome::Data {
                len_bytes: reply.data.len() as u32,
            }
        }
        (Status::Ok, Answer::Region) => {
            let info = reply.region()?;
            let rights = Rights {
                read: info.rights & 1 != 0,
                write: info.rights & 2 != 0,
                atomic: info.rights & 4 != 0,
                send: info.rights & 8 != 0,
            };
            Outcome::Region(RemoteRegion::from_key(
                node,
                info.rkey,
                info.size_bytes,
                rights,
            ))
        }
        (Status::Ok, Answer::Path) => return None,
    };
    Some(Decoded {
        outcome,
        moment: Some(reply.moment),
        data,
    })
}

/// The error for a verb that no peer would take.
pub(crate) fn invalid(verb: &codec::Verb<'_>, error: DecodeError) -> Error {
    let name = verb.name();
    Error::Invalid(match (error, verb.length_bytes()) {
        (DecodeError::Length, Some((len, max))) => {
            format!("{name}: {len} bytes; expected 1 to {max}")
        }
        (error, _) => format!("{name}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_that_is_too_long_is_refused_with_both_lengths() {
        let data = [0; codec::WRITE_BYTES_MAX + 1];
        let request = codec::Request {
            rkey: 1,
            offset: 0,
            verb: codec::Verb::Write { data: &data },
        };
        let error = request.check().expect_err("too long");
        assert_eq!(
            invalid(&request.verb, error).to_string(),
            format!(
                "write: {} bytes; expected 1 to {}",
                data.len(),
                data.len() - 1
            )
        );
    }
}
