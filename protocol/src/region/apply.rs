//! One verb on the memory of one region.

use super::memory::Memory;
use crate::verb::{MultiCommit, Reply, Status, Verb};

/// Executes `verb`, which was checked for this region, and writes its reply into `space`; gives the reply's length. `None`
/// if the memory does not take the access after all, or `space` not the reply.
pub(super) fn apply(
    memory: &mut impl Memory,
    offset: u64,
    verb: &Verb<'_>,
    space: &mut [u8],
) -> Option<usize> {
    let old = match verb {
        Verb::Read { len } => {
            return Reply::encode_read(space, *len as usize, |target| memory.read(offset, target));
        }
        Verb::Write { data } => {
            memory.write(offset, data)?;
            return Reply::ok(&[]).encode(space).ok();
        }
        Verb::CompareAndSwap { expected, new } => {
            match memory.compare_exchange(offset, *expected, *new)? {
                Ok(old) => old,
                Err(found) => return mismatch(0, found, space),
            }
        }
        Verb::MultiCommit(words) => {
            return match commit(memory, words)? {
                Ok(()) => Reply::ok(&[]).encode(space).ok(),
                Err((index, found)) => mismatch(index, found, space),
            };
        }
        Verb::Swap { new } => memory.swap(offset, *new)?,
        Verb::FetchAdd { delta } => memory.fetch_add(offset, *delta)?,
        Verb::FetchAnd { mask } => memory.fetch_and(offset, *mask)?,
        Verb::FetchOr { mask } => memory.fetch_or(offset, *mask)?,
        Verb::FetchXor { mask } => memory.fetch_xor(offset, *mask)?,
        Verb::Lookup { .. } => return None,
    };
    Reply::ok(&old.to_le_bytes()).encode(space).ok()
}

/// Checks every word, then changes every word. Inner error: the first word that was not as expected, and what it was.
fn commit(memory: &mut impl Memory, words: &MultiCommit<'_>) -> Option<Result<(), (u16, u64)>> {
    for (index, word) in (0..).zip(words.iter()) {
        let found = memory.load(word.offset)?;
        if found != word.expected {
            return Some(Err((index, found)));
        }
    }
    for (index, word) in (0_u16..).zip(words.iter()) {
        if let Err(found) = memory.compare_exchange(word.offset, word.expected, word.new)? {
            // The owner wrote meanwhile. What was changed is put back unless the owner wrote there too.
            for done in words.iter().take(usize::from(index)) {
                let _ = memory.compare_exchange(done.offset, done.new, done.expected)?;
            }
            return Some(Err((index, found)));
        }
    }
    Some(Ok(()))
}

fn mismatch(index: u16, found: u64, space: &mut [u8]) -> Option<usize> {
    let reply = Reply {
        status: Status::Mismatch,
        index,
        data: &found.to_le_bytes(),
    };
    reply.encode(space).ok()
}
