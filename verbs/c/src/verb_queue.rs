//! `covalent_verb_queue`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
};

use covalent::{Batch, Completion, Guid, InDoubtId, Outcome, Target, VerbId, Verbs};

use crate::{
    argument::{Out, Outs, flag, optional_text, text, value, values},
    device::{covalent_device, device},
    handle::{Kind, Table, this_thread},
    held::Held,
    remote_region::{covalent_remote_region, remote},
    status::{Result, call, call_with_status, covalent_status, invalid},
    timeout::{timeout, waiting},
    verb::{covalent_completion, covalent_in_doubt_id, covalent_stamp, covalent_verb, mode, verb},
};

/// A queue of verbs. Post verbs with a number of your own (`user_data`), and take completions that
/// carry it. Or use the blocking calls. Use it only on its device's thread. Words are in the
/// machine's byte order. Read and written as bytes, they are little-endian. A zero handle is
/// invalid.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_verb_queue {
    /// Opaque.
    pub handle: u64,
}

/// A queue, and a buffer for completions to be converted to C.
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

/// Opens a verb queue with room for `depth` verbs in flight, 1 to 16384. A device may have several.
/// Each has completions of its own, and verbs that wait for an unreachable node do not hold up
/// those of another queue. The queues of a device together have at most 512 verbs in flight at
/// other nodes, and one of several at most 256. Further verbs wait in their queues. Returns
/// COVALENT_REFUSED if the session has as many pipes as the configuration allows: a queue is two
/// pipes.
///
/// # Safety
/// `queue` is valid for writes.
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

/// Closes a queue. Verbs in flight still complete at the other node, but their outcome is not
/// reported.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_verb_queue_close(queue: covalent_verb_queue) -> c_int {
    call(|| {
        let closed = QUEUES.with_borrow_mut(|queues| queues.remove(queue.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Returns the number of verbs in flight, including those whose completion waits to be taken.
///
/// # Safety
/// `outstanding` is valid for writes.
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

/// Returns how many verbs may be in flight.
///
/// # Safety
/// `depth` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_depth(
    queue: covalent_verb_queue,
    depth: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(depth, "depth")? };
        out.set(with(queue, |verbs| Ok(verbs.depth()))?);
        Ok(())
    })
}

/// Returns in `has_room` whether a verb of any length can be posted now, 1 or 0. If not, take
/// completions first, or let the lane take verbs.
///
/// # Safety
/// `has_room` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_has_room(
    queue: covalent_verb_queue,
    has_room: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(has_room, "has_room")? };
        out.set(with(queue, |verbs| Ok(c_int::from(verbs.has_room())))?);
        Ok(())
    })
}

/// Returns the stamp of the completion that was returned last. After a blocking call this is the
/// stamp of its verb.
///
/// # Safety
/// `stamp` is valid for writes.
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

/// Looks up a region by its name on a node: the neighbor, the local lane, or the node reached over
/// others that is named `node`, or the device's lane if `node` is null. A negative `timeout_ns`
/// waits forever. Returns COVALENT_DEADLINE if no reply arrives in time.
///
/// # Safety
/// `node` is null or a NUL-terminated string. `name` is a NUL-terminated string. `region` is valid
/// for writes.
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
        let region = with(queue, |verbs| {
            Ok(verbs.open_region(target, name, waiting(timeout_ns))?)
        })?;
        out.set(region.into());
        Ok(())
    })
}

/// Posts the lookup of a region or receive queue by its name on the node `node_guid`, or on the
/// device's lane if that is 0. `id` receives its id and may be null. Completes with
/// COVALENT_OUTCOME_REGION, or refused with COVALENT_REFUSAL_UNKNOWN_REGION if there is none. A
/// lookup changes nothing: it may be repeated after any other outcome. Does not wait: returns
/// COVALENT_FULL as for posting. covalent_device_find_node returns the address of a named node.
///
/// # Safety
/// `name` is a NUL-terminated string. `id` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_post_lookup(
    queue: covalent_verb_queue,
    node_guid: u64,
    name: *const c_char,
    user_data: u64,
    id: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (name, out) = unsafe { (text(name, "name")?, Out::optional(id, "id")?) };
        let node = Guid::new(node_guid);
        let posted = with(queue, |verbs| Ok(verbs.post_lookup(node, name, user_data)?))?;
        if let Some(mut out) = out {
            out.set(posted.number());
        }
        Ok(())
    })
}

/// Posts a watch of the path to the node `node_guid`, which the program knows as reachable
/// (`known_up` is 1) or not (0). `id` receives its id and may be null. Completes with
/// COVALENT_OUTCOME_PATH once the node's reachability differs from that, at once if it does
/// already, or never. Until then it counts as a verb in flight. A session has 64 watches, a lane
/// 256: it refuses others with COVALENT_REFUSAL_NO_RESOURCES. Does not wait: returns COVALENT_FULL
/// as for posting.
///
/// # Safety
/// `id` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_post_watch(
    queue: covalent_verb_queue,
    node_guid: u64,
    known_up: c_int,
    user_data: u64,
    id: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let out = unsafe { Out::optional(id, "id")? };
        let node = Guid::new(node_guid).ok_or_else(|| invalid("node_guid is 0"))?;
        let known_up = flag(known_up, "known_up")?;
        let posted = with(queue, |verbs| {
            Ok(verbs.post_watch(node, known_up, user_data)?)
        })?;
        if let Some(mut out) = out {
            out.set(posted.number());
        }
        Ok(())
    })
}

/// Posts a verb and returns its id in `id`, which may be null. `mode` is COVALENT_ONE_PHASE or
/// COVALENT_TWO_PHASE. The completions carry `user_data`. The call copies the data that the verb
/// points to. Does not wait: if no more verbs can be in flight, it returns COVALENT_FULL. Take
/// completions then.
///
/// # Safety
/// `region` points to a covalent_remote_region, and `verb` to a covalent_verb whose `struct_bytes`
/// is set. The verb's pointers point to memory of the length that it states. `id` is null or valid
/// for writes.
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
        let (region, verb) = unsafe { (remote(region)?, self::verb(verb)?) };
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
    /// The operation on that region.
    pub verb: *const covalent_verb,
    /// Comes back in its completions.
    pub user_data: u64,
    /// COVALENT_ONE_PHASE or COVALENT_TWO_PHASE.
    pub mode: u32,
}

/// Posts `count` verbs in order and notifies the lane of all of them with one doorbell. `posted`
/// receives the number of posted verbs: all, or those before the first that could not be posted. If
/// the first one could not be posted, the call returns the same status as covalent_verb_queue_post.
/// `ids` is null or receives the id of each posted verb.
///
/// # Safety
/// `posts` points to `count` elements, and each element to the same objects as for
/// covalent_verb_queue_post. `ids` is null or valid for writes of `count` elements. `posted` is
/// valid for writes.
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
/// `post` points to the same objects as for covalent_verb_queue_post.
unsafe fn put(batch: &mut Batch<'_, '_>, post: &covalent_post) -> Result<VerbId> {
    // SAFETY: the caller's word, for both.
    let (region, verb) = unsafe { (remote(post.region)?, self::verb(post.verb)?) };
    Ok(batch.post(&region, verb, self::mode(post.mode)?, post.user_data)?)
}

/// Queries the outcome of a verb in doubt by the in-doubt id from its completion. Another program
/// of the same user may have posted the verb. `id` receives the id of the query and may be null.
/// Wait for the query or poll it as a verb.
///
/// The completion has the outcome that the verb's completion would have. Otherwise it reports that
/// the verb was reversed or never seen, or is forgotten. Reversed and never seen mean that it was
/// not executed. Does not wait: returns COVALENT_FULL as for posting.
///
/// # Safety
/// `in_doubt` points to a covalent_in_doubt_id. `id` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_query_in_doubt(
    queue: covalent_verb_queue,
    in_doubt: *const covalent_in_doubt_id,
    user_data: u64,
    id: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (in_doubt, out) = unsafe { (value(in_doubt, "in_doubt")?, Out::optional(id, "id")?) };
        let in_doubt = InDoubtId::from_bytes(&in_doubt.bytes);
        let query_id = with(queue, |verbs| {
            Ok(verbs.query_in_doubt(&in_doubt, user_data)?)
        })?;
        if let Some(mut out) = out {
            out.set(query_id.number());
        }
        Ok(())
    })
}

/// Takes completions, up to `capacity` of them. `timeout_ns`: 0 does not wait, and `count` may then
/// be 0. `count` is also 0 if no verb is in flight. A negative value waits forever. Otherwise the
/// call returns COVALENT_DEADLINE if there is no completion in time. After a completion with
/// COVALENT_OUTCOME_IN_DOUBT, another one for the same verb follows.
///
/// # Safety
/// `completions` is valid for writes of `capacity` elements, and `count` for writes.
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
            let mut written = 0;
            while written < out.capacity() {
                let room = completions.len().min(out.capacity() - written);
                let room = &mut completions[..room];
                let taken = match timeout(timeout_ns) {
                    // The call waits only for the first burst.
                    Some(timeout) if written == 0 => verbs.get().poll(room, timeout)?,
                    _ => verbs.get().try_poll(room)?,
                };
                for completion in &room[..taken] {
                    out.set(
                        written,
                        covalent_completion::new(completion, verbs.get().data(completion.id)),
                    );
                    written += 1;
                }
                // Update `count` after each burst, so that completions already taken are not lost
                // if the next burst fails.
                count.set(written);
                if taken < room.len() {
                    break;
                }
            }
            Ok(())
        })
    })
}

/// Waits until one verb completes and takes its final completion. Completions of other verbs are
/// kept for covalent_verb_queue_poll. Returns COVALENT_IN_DOUBT if the verb does not complete in
/// time: it is still in flight.
///
/// # Safety
/// `completion` is valid for writes.
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
        with(queue, |verbs| {
            let completion = verbs.wait(id, waiting(timeout_ns))?;
            out.set(covalent_completion::new(
                &completion,
                verbs.data(completion.id),
            ));
            Ok(())
        })
    })
}

/// Posts a verb, waiting for room if necessary, and waits until it completes. `completion` is that
/// of an executed verb; its `user_data` is 0. `mode` is COVALENT_ONE_PHASE or COVALENT_TWO_PHASE.
/// Returns COVALENT_MISMATCH if the verb was executed and changed nothing. covalent_fetch_add and
/// similar calls are this call, in two phases.
///
/// # Safety
/// As covalent_verb_queue_post. `completion` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_verb_queue_execute(
    queue: covalent_verb_queue,
    region: *const covalent_remote_region,
    verb: *const covalent_verb,
    mode: u32,
    timeout_ns: i64,
    completion: *mut covalent_completion,
) -> c_int {
    call_with_status(|| {
        // SAFETY: the caller's word, for all three.
        let (region, verb, mut out) = unsafe {
            (
                remote(region)?,
                self::verb(verb)?,
                Out::new(completion, "completion")?,
            )
        };
        let mode = self::mode(mode)?;
        with(queue, |verbs| {
            let executed = verbs.execute(&region, verb, mode, waiting(timeout_ns))?;
            out.set(covalent_completion::new(&executed, verbs.data(executed.id)));
            Ok(match executed.outcome {
                Outcome::Mismatch { .. } => covalent_status::COVALENT_MISMATCH,
                _ => covalent_status::COVALENT_OK,
            })
        })
    })
}
