//! `covalent_verb_queue`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
};

use covalent_verbs::{Batch, Completion, InDoubtId, Target, VerbId, Verbs};

use crate::{
    argument::{Out, Outs, optional_text, text, value, values},
    device::{covalent_device, device},
    handle::{Kind, Table, this_thread},
    held::Held,
    remote_region::{covalent_remote_region, remote},
    status::{Result, call},
    timeout::{Timeout, deadline},
    verb::{covalent_completion, covalent_exchange, covalent_stamp, covalent_verb, mode, verb},
};

/// A queue of verbs: post them with a number of one's own, and take completions that bear it; or use the calls that wait. Every call with it is for its device's thread only.
/// Words are in the machine's byte order; read and written as bytes they are little-endian. Zero names nothing.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_verb_queue {
    /// Opaque.
    pub handle: u64,
}

/// A queue, and room for completions on their way to C.
struct Queue {
    verbs: Held<Verbs<'static>>,
    completions: Vec<Completion>,
}

/// Completions taken at a time.
const BURST: usize = 64;

thread_local! {
    static QUEUES: RefCell<Table<Queue>> = RefCell::new(Table::new(Kind::Verbs, this_thread()));
}

pub(crate) fn with<T>(
    queue: covalent_verb_queue,
    body: impl FnOnce(&mut Verbs<'static>) -> Result<T>,
) -> Result<T> {
    QUEUES.with_borrow_mut(|queues| body(queues.get(queue.handle)?.verbs.get()))
}

/// Opens the device's verb queue with room for `depth` verbs under way, 1 to 16384. One at a time in each device.
///
/// # Safety
/// `queue` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_open(
    device: covalent_device,
    depth: u32,
    queue: *mut covalent_verb_queue,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(queue, "queue")? };
        let device = self::device(device)?;
        let verbs = Held::open(&device, |device| device.verbs_with_depth(depth))?;
        let opened = Queue {
            verbs,
            completions: vec![Completion::default(); BURST],
        };
        let handle = QUEUES.with_borrow_mut(|queues| queues.insert(opened))?;
        out.set(covalent_verb_queue { handle });
        Ok(())
    })
}

/// Closes a queue. Verbs under way still end at the other node, but nobody is told how.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_verb_queue_close(queue: covalent_verb_queue) -> c_int {
    call(|| {
        let closed = QUEUES.with_borrow_mut(|queues| queues.remove(queue.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Tells how many verbs are under way, those included whose completion waits to be taken.
///
/// # Safety
/// `outstanding` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_outstanding(
    queue: covalent_verb_queue,
    outstanding: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(outstanding, "outstanding")? };
        out.set(with(queue, |verbs| Ok(verbs.outstanding()))?);
        Ok(())
    })
}

/// Tells the stamp of the completion that was handed out last; after a blocking call that of its verb.
///
/// # Safety
/// `stamp` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_last_stamp(
    queue: covalent_verb_queue,
    stamp: *mut covalent_stamp,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(stamp, "stamp")? };
        out.set(with(queue, |verbs| Ok(verbs.last_stamp()))?.into());
        Ok(())
    })
}

/// Looks a region up by its name on a node: the neighbour or own node named `node`, or the own one if `node` is null. `timeout_ns`: negative waits for ever;
/// COVALENT_DEADLINE when there was no answer in time.
///
/// # Safety
/// `node` is null or text that ends in a zero, `name` such text; `region` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_open_region(
    queue: covalent_verb_queue,
    node: *const c_char,
    name: *const c_char,
    timeout_ns: i64,
    region: *mut covalent_remote_region,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all three.
        let (node, name, mut out) = unsafe {
            (
                optional_text(node, "node")?,
                text(name, "name")?,
                Out::new(region, "region")?,
            )
        };
        let target = node.map_or(Target::Local, Target::Name);
        let region = with(queue, |verbs| match deadline(timeout_ns) {
            Some(deadline) => Ok(verbs.open_region_deadline(target, name, deadline)?),
            None => Ok(verbs.open_region(target, name)?),
        })?;
        out.set(region.into());
        Ok(())
    })
}

/// Posts a verb and tells its id (`id` may be null). `mode` is COVALENT_ONE_PHASE or COVALENT_TWO_PHASE; `user_data` comes back in the completions. What the verb
/// points to is copied. Does not wait: COVALENT_FULL when no more can be under way; take completions then.
///
/// # Safety
/// `region` and `verb` point to such, and what the verb points to is as long as it says; `id` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_post(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    verb: *const covalent_verb,
    mode: u32,
    user_data: u64,
    id: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (region, verb) = unsafe { (remote(region)?, self::verb(value(verb, "verb")?)?) };
        // SAFETY: the caller's word.
        let out = unsafe { Out::optional(id, "id")? };
        let mode = self::mode(mode)?;
        let posted = with(queue, |verbs| {
            Ok(verbs.post(&region, verb, mode, user_data)?)
        })?;
        if let Some(mut out) = out {
            out.set(posted.number());
        }
        Ok(())
    })
}

/// One verb of a batch.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_post {
    /// The region that it is for.
    pub region: *const covalent_remote_region,
    /// What to do there.
    pub verb: *const covalent_verb,
    /// Comes back in its completions.
    pub user_data: u64,
    /// COVALENT_ONE_PHASE or COVALENT_TWO_PHASE.
    pub mode: u32,
}

/// Posts `count` verbs, in order, and tells the lane of all of them at once, by one doorbell. `posted` tells how many were posted: all, or those before the first
/// that could not be; if not even the first could be, the status says why, as that of covalent_verb_queue_post. `ids` is null or gets the id of each that was.
///
/// # Safety
/// `posts` points to `count` of them, and each to what covalent_verb_queue_post wants; `ids` is null or may be written `count` times, `posted` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_post_batch(
    queue: covalent_verb_queue,
    posts: *const covalent_post,
    count: usize,
    ids: *mut u64,
    posted: *mut usize,
) -> c_int {
    call(|| {
        let ids_count = if ids.is_null() { 0 } else { count };
        // SAFETY: the caller's word, for all three.
        let (posts, mut ids, mut out) = unsafe {
            (
                values(posts, count, "posts")?,
                Outs::new(ids, ids_count, "ids")?,
                Out::new(posted, "posted")?,
            )
        };
        out.set(0);
        with(queue, |verbs| {
            let mut batch = verbs.batch();
            let mut done = 0;
            for post in posts {
                // SAFETY: the caller's word.
                match unsafe { put(&mut batch, post) } {
                    Ok(id) => ids.set(done, id.number()),
                    Err(failure) if done == 0 => return Err(failure),
                    Err(_) => break,
                }
                done += 1;
            }
            out.set(done);
            Ok(batch.ring()?)
        })
    })
}

/// Posts one verb of a batch.
///
/// # Safety
/// It points to what covalent_verb_queue_post wants.
unsafe fn put(batch: &mut Batch<'_, '_>, post: &covalent_post) -> Result<VerbId> {
    // SAFETY: the caller's word, for both.
    let (region, verb) = unsafe { (remote(post.region)?, self::verb(value(post.verb, "verb")?)?) };
    Ok(batch.post(&region, verb, self::mode(post.mode)?, post.user_data)?)
}

/// Asks what became of a verb that was in doubt, by the name in its completion, also of one that another program of the same user posted, and tells the id of the
/// asking (`id` may be null), with which it is waited for or polled as a verb is. The completion says what that of the verb would have, or that the verb was undone or
/// never seen, which both mean that it was not executed, or that it is forgotten. Does not wait: COVALENT_FULL as when posting.
///
/// # Safety
/// `name` points to a name; `id` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_ask(
    queue: covalent_verb_queue,
    name: *const covalent_exchange,
    user_data: u64,
    id: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (name, out) = unsafe { (value(name, "name")?, Out::optional(id, "id")?) };
        let name = InDoubtId::from_bytes(&name.bytes);
        let asked = with(queue, |verbs| Ok(verbs.ask(&name, user_data)?))?;
        if let Some(mut out) = out {
            out.set(asked.number());
        }
        Ok(())
    })
}

/// Takes completions, up to `capacity` of them. `timeout_ns`: 0 does not wait, and then `count` may be 0, as it is when nothing is under way; negative waits
/// for ever; else COVALENT_DEADLINE when there was none in time. A completion with COVALENT_OUTCOME_IN_DOUBT is followed by another one for the same verb.
///
/// # Safety
/// `completions` may be written `capacity` times, `count` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_poll(
    queue: covalent_verb_queue,
    timeout_ns: i64,
    completions: *mut covalent_completion,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (mut out, mut count) = unsafe {
            (
                Outs::new(completions, capacity, "completions")?,
                Out::new(count, "count")?,
            )
        };
        count.set(0);
        QUEUES.with_borrow_mut(|queues| {
            let Queue { verbs, completions } = queues.get(queue.handle)?;
            let mut told = 0;
            while told < out.capacity() {
                let room = completions.len().min(out.capacity() - told);
                let room = &mut completions[..room];
                let taken = match Timeout::new(timeout_ns) {
                    // Only the first burst is waited for.
                    _ if told > 0 => verbs.get().poll(room)?,
                    Timeout::None => verbs.get().poll(room)?,
                    Timeout::Until(deadline) => verbs.get().poll_deadline(room, deadline)?,
                    Timeout::Forever => verbs.get().poll_blocking(room)?,
                };
                for completion in &room[..taken] {
                    out.set(told, covalent_completion::new(completion));
                    told += 1;
                }
                // Told as it stands, so that nothing taken is lost if the next burst fails.
                count.set(told);
                if taken < room.len() {
                    break;
                }
            }
            Ok(())
        })
    })
}

/// Waits for the end of one verb and takes its final completion; those of others are kept for covalent_verb_queue_poll. COVALENT_IN_DOUBT when it has not ended in time: it
/// is still under way.
///
/// # Safety
/// `completion` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_wait(
    queue: covalent_verb_queue,
    id: u64,
    timeout_ns: i64,
    completion: *mut covalent_completion,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(completion, "completion")? };
        let id = VerbId::from_number(id);
        let completion = with(queue, |verbs| match deadline(timeout_ns) {
            Some(deadline) => Ok(verbs.wait_deadline(id, deadline)?),
            None => Ok(verbs.wait(id)?),
        })?;
        out.set(covalent_completion::new(&completion));
        Ok(())
    })
}
