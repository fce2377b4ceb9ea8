//! The calls that wait, one for each verb.

use std::ffi::c_int;

use covalent_verbs::{Error, Mode, Outcome, Verb};

use crate::{
    argument::{Out, bytes_mut, values},
    remote_region::{covalent_remote_region, remote},
    status::{Result, call, call_with_status, covalent_status},
    timeout::deadline,
    verb::{commit_words, condition, covalent_commit_word, order, update},
    verb_queue::{covalent_verb_queue, with},
};

/// Executes a verb in two phases.
///
/// # Safety
/// `region` points to such.
unsafe fn execute(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    verb: Verb<'_>,
    timeout_ns: i64,
) -> Result<Outcome> {
    // SAFETY: the caller's word.
    let region = unsafe { remote(region)? };
    with(queue, |verbs| match deadline(timeout_ns) {
        Some(deadline) => Ok(verbs.execute_deadline(&region, verb, Mode::TwoPhase, deadline)?),
        None => Ok(verbs.execute(&region, verb, Mode::TwoPhase)?),
    })
}

/// A verb that tells what its word held.
///
/// # Safety
/// `region` points to such; `old` may be written.
unsafe fn word(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    verb: Verb<'_>,
    timeout_ns: i64,
    old: *mut u64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { word_of(queue, region, timeout_ns, old, || Ok(verb)) }
}

/// As [`word`], of a verb whose arguments are looked at first.
///
/// # Safety
/// `region` points to such; `old` may be written.
unsafe fn word_of<'a>(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    timeout_ns: i64,
    old: *mut u64,
    verb: impl FnOnce() -> Result<Verb<'a>>,
) -> c_int {
    call_with_status(|| {
        // SAFETY: the caller's word, for both.
        let (mut out, outcome) = unsafe {
            (
                Out::new(old, "old")?,
                execute(queue, region, verb()?, timeout_ns)?,
            )
        };
        match outcome {
            Outcome::Old(old) => {
                out.set(old);
                Ok(covalent_status::COVALENT_OK)
            }
            Outcome::Mismatch { found, .. } => {
                out.set(found);
                Ok(covalent_status::COVALENT_MISMATCH)
            }
            outcome => Err(unexpected(&outcome)),
        }
    })
}

fn unexpected(outcome: &Outcome) -> crate::status::Failure {
    Error::Unintelligible(format!("{outcome:?} in answer to a verb")).into()
}

/// Adds to a word, wrapping, in two phases; tells what it held. Waits for it: `timeout_ns` negative for ever; COVALENT_DEADLINE when the verb could not be posted
/// in time, COVALENT_IN_DOUBT when it was posted and has not ended in time. Refused because an exchange that is still open holds its word, it is posted again and
/// again; COVALENT_VERB_REFUSED when that was so to the end. So do all that follow.
///
/// # Safety
/// `region` points to such; `old` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_fetch_add(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    delta: u64,
    timeout_ns: i64,
    old: *mut u64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        word(
            queue,
            region,
            Verb::FetchAdd {
                offset_bytes,
                delta,
            },
            timeout_ns,
            old,
        )
    }
}

/// Ands a word with a mask; tells what it held.
///
/// # Safety
/// As covalent_fetch_add.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_fetch_and(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    mask: u64,
    timeout_ns: i64,
    old: *mut u64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        word(
            queue,
            region,
            Verb::FetchAnd { offset_bytes, mask },
            timeout_ns,
            old,
        )
    }
}

/// Ors a word with a mask; tells what it held.
///
/// # Safety
/// As covalent_fetch_add.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_fetch_or(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    mask: u64,
    timeout_ns: i64,
    old: *mut u64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        word(
            queue,
            region,
            Verb::FetchOr { offset_bytes, mask },
            timeout_ns,
            old,
        )
    }
}

/// Exclusive-ors a word with a mask; tells what it held.
///
/// # Safety
/// As covalent_fetch_add.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_fetch_xor(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    mask: u64,
    timeout_ns: i64,
    old: *mut u64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        word(
            queue,
            region,
            Verb::FetchXor { offset_bytes, mask },
            timeout_ns,
            old,
        )
    }
}

/// Writes a word; tells what it held.
///
/// # Safety
/// As covalent_fetch_add.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_swap(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    desired: u64,
    timeout_ns: i64,
    old: *mut u64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        word(
            queue,
            region,
            Verb::Swap {
                offset_bytes,
                new: desired,
            },
            timeout_ns,
            old,
        )
    }
}

/// Writes `desired` if the word holds `expected`, else COVALENT_MISMATCH; tells what it held either way.
///
/// # Safety
/// `region` points to such; `found` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_compare_and_swap(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    expected: u64,
    desired: u64,
    timeout_ns: i64,
    found: *mut u64,
) -> c_int {
    let verb = Verb::CompareAndSwap {
        offset_bytes,
        expected,
        new: desired,
    };
    // SAFETY: the caller's word.
    unsafe { word(queue, region, verb, timeout_ns, found) }
}

/// Puts the smaller of a word and `operand` in the word, compared as `order` (COVALENT_UNSIGNED, COVALENT_SIGNED) says; tells what it held.
///
/// # Safety
/// As covalent_fetch_add.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_fetch_min(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    operand: u64,
    order: u32,
    timeout_ns: i64,
    old: *mut u64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        word_of(queue, region, timeout_ns, old, || {
            Ok(Verb::FetchMin {
                offset_bytes,
                operand,
                order: self::order(order)?,
            })
        })
    }
}

/// Puts the greater of a word and `operand` in the word, compared as `order` says; tells what it held.
///
/// # Safety
/// As covalent_fetch_add.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_fetch_max(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    operand: u64,
    order: u32,
    timeout_ns: i64,
    old: *mut u64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        word_of(queue, region, timeout_ns, old, || {
            Ok(Verb::FetchMax {
                offset_bytes,
                operand,
                order: self::order(order)?,
            })
        })
    }
}

/// Applies the change `kind` (COVALENT_WRITE, COVALENT_SWAP, COVALENT_FETCH_ADD…) with `operand` to a word if the word compares with `comparand` as
/// `comparison` (COVALENT_IF_EQUAL…) says, signed or unsigned as `order` says; else COVALENT_MISMATCH. `found` gets what the word held either way.
///
/// # Safety
/// `region` points to such; `found` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_update_if(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    comparison: u32,
    comparand: u64,
    order: u32,
    kind: u32,
    operand: u64,
    timeout_ns: i64,
    found: *mut u64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        word_of(queue, region, timeout_ns, found, || {
            Ok(Verb::Conditional {
                offset_bytes,
                condition: condition(comparison, comparand, order)?,
                update: update(kind, operand)?,
            })
        })
    }
}

/// Compares 1 to COVALENT_COMMIT_WORDS_MAX words and sets them all only if all hold what is expected, else COVALENT_MISMATCH; then `index` and `found` tell the
/// first that did not (either may be null).
///
/// # Safety
/// `region` points to such, `words` to `words_count` words; `index` and `found` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_multi_commit(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    words: *const covalent_commit_word,
    words_count: usize,
    timeout_ns: i64,
    index: *mut u32,
    found: *mut u64,
) -> c_int {
    call_with_status(|| {
        // SAFETY: the caller's word, for all.
        let (index_out, found_out, words) = unsafe {
            (
                Out::optional(index, "index")?,
                Out::optional(found, "found")?,
                commit_words(words, words_count)?,
            )
        };
        // SAFETY: as above.
        match unsafe { execute(queue, region, Verb::MultiCommit { words }, timeout_ns)? } {
            Outcome::Done => Ok(covalent_status::COVALENT_OK),
            Outcome::Mismatch { index, found } => {
                if let Some(mut out) = index_out {
                    out.set(u32::from(index));
                }
                if let Some(mut out) = found_out {
                    out.set(found);
                }
                Ok(covalent_status::COVALENT_MISMATCH)
            }
            outcome => Err(unexpected(&outcome)),
        }
    })
}

/// Reads 1 to COVALENT_DATA_BYTES_MAX bytes.
///
/// # Safety
/// `region` points to such; `data` may be written `length_bytes` times and is initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_read(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    data: *mut u8,
    length_bytes: u32,
    timeout_ns: i64,
) -> c_int {
    call(|| {
        let verb = Verb::Read {
            offset_bytes,
            len_bytes: length_bytes,
        };
        // SAFETY: the caller's word, for both.
        let (out, outcome) = unsafe {
            (
                bytes_mut(data, length_bytes as usize, "data")?,
                execute(queue, region, verb, timeout_ns)?,
            )
        };
        match outcome {
            Outcome::Data(data) if data.len() == out.len() => {
                out.copy_from_slice(&data);
                Ok(())
            }
            outcome => Err(unexpected(&outcome)),
        }
    })
}

/// Writes 1 to COVALENT_DATA_BYTES_MAX bytes.
///
/// # Safety
/// `region` points to such, `data` to `length_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_write(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    offset_bytes: u64,
    data: *const u8,
    length_bytes: u32,
    timeout_ns: i64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        bytes_out(queue, region, data, length_bytes, timeout_ns, |data| {
            Verb::Write { offset_bytes, data }
        })
    }
}

/// Sends a message of 1 to COVALENT_MESSAGE_BYTES_MAX bytes to a receive queue. It is there when this returns COVALENT_OK. A full queue is not waited for:
/// COVALENT_FULL, and the message is still the caller's.
///
/// # Safety
/// `region` points to such, `data` to `length_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_send(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    data: *const u8,
    length_bytes: u32,
    timeout_ns: i64,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        bytes_out(queue, region, data, length_bytes, timeout_ns, |data| {
            Verb::Send { data }
        })
    }
}

/// A verb that brings bytes and answers nothing.
///
/// # Safety
/// `region` points to such, `data` to `length_bytes` bytes.
unsafe fn bytes_out(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    data: *const u8,
    length_bytes: u32,
    timeout_ns: i64,
    verb: impl FnOnce(&[u8]) -> Verb<'_>,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let outcome = unsafe {
            let data = values(data, length_bytes as usize, "data")?;
            execute(queue, region, verb(data), timeout_ns)?
        };
        match outcome {
            Outcome::Done => Ok(()),
            outcome => Err(unexpected(&outcome)),
        }
    })
}
