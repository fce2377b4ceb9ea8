//! The calls that wait, one for each verb.

use std::ffi::c_int;

use covalent::{Error, Mode, Outcome, Verb};

use crate::{
    argument::{Out, bytes_mut, values},
    remote_region::{covalent_remote_region, remote},
    status::{Result, call, call_with_status, covalent_status},
    timeout::waiting,
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
    with(queue, |verbs| {
        let executed = verbs.execute(&region, verb, Mode::TwoPhase, waiting(timeout_ns))?;
        Ok(executed.outcome)
    })
}

/// Executes a verb that returns the previous value of its word.
///
/// # Safety
/// `region` points to a covalent_remote_region. `old` is valid for writes.
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

/// As [`word`], for a verb whose arguments are checked first.
///
/// # Safety
/// `region` points to a covalent_remote_region. `old` is valid for writes.
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

/// Adds to a word in two phases, wrapping, and returns its previous value in `old`. Waits for
/// completion.
///
/// A negative `timeout_ns` waits forever. Returns COVALENT_DEADLINE if the verb could not be posted
/// in time. Returns COVALENT_IN_DOUBT if it was posted and did not complete in time. If an open
/// exchange holds the word, the verb is refused, and the call posts it again until the timeout
/// passes. It then returns COVALENT_VERB_REFUSED. The calls that follow behave in the same way.
///
/// # Safety
/// `region` points to a covalent_remote_region. `old` is valid for writes.
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

/// Performs a bitwise AND of a word with a mask and returns the word's previous value in `old`.
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

/// Performs a bitwise OR of a word with a mask and returns the word's previous value in `old`.
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

/// Performs a bitwise XOR of a word with a mask and returns the word's previous value in `old`.
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

/// Writes a word and returns its previous value in `old`.
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

/// Writes `desired` if the word holds `expected`. Otherwise returns COVALENT_MISMATCH. `found`
/// receives the word's previous value in both cases.
///
/// # Safety
/// `region` points to a covalent_remote_region. `found` is valid for writes.
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

/// Sets a word to the minimum of the word and `operand` and returns its previous value in `old`.
/// `order` (COVALENT_UNSIGNED, COVALENT_SIGNED) selects the comparison.
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

/// Sets a word to the maximum of the word and `operand` and returns its previous value in `old`.
/// `order` selects the comparison.
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

/// Applies the update `kind` (COVALENT_WRITE, COVALENT_SWAP, COVALENT_FETCH_ADD…) with `operand` to
/// a word if the word meets a condition. Otherwise returns COVALENT_MISMATCH.
///
/// The condition compares the word with `comparand`. `comparison` (COVALENT_IF_EQUAL…) selects the
/// operator, and `order` a signed or unsigned comparison. `found` receives the word's previous
/// value in both cases.
///
/// # Safety
/// `region` points to a covalent_remote_region. `found` is valid for writes.
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

/// Compares 1 to COVALENT_COMMIT_WORDS_MAX words and sets all of them only if each holds its
/// expected value. Otherwise returns COVALENT_MISMATCH, and `index` and `found` receive the first
/// word that differs and its value. Either may be null.
///
/// # Safety
/// `region` points to a covalent_remote_region, and `words` to `words_count` words. `index` and
/// `found` are null or valid for writes.
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
/// `region` points to such; `data` may be written `length_bytes` times and is initialized.
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
        // SAFETY: the caller's word, for both.
        let (target, region) = unsafe {
            (
                bytes_mut(data, length_bytes as usize, "data")?,
                remote(region)?,
            )
        };
        with(queue, |verbs| {
            Ok(verbs.read(&region, offset_bytes, target, waiting(timeout_ns))?)
        })
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

/// Sends a message of 1 to COVALENT_MESSAGE_BYTES_MAX bytes to a receive queue. If the call returns
/// COVALENT_OK, the message is in the queue. The call does not wait for a full queue: it returns
/// COVALENT_FULL, and the message was not sent.
///
/// # Safety
/// `region` points to a covalent_remote_region, and `data` to `length_bytes` bytes.
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
