//! `covalent_receive_queue`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
    ptr,
};

use covalent_verbs::{Message, ReceiveQueue};

use crate::{
    argument::{Out, text},
    device::{covalent_device, device},
    handle::{Kind, Table, this_thread},
    held::Held,
    status::{Result, call},
    timeout::Timeout,
    verb::covalent_stamp,
};

/// A queue of messages that verbs of any node send to this application (covalent_send, COVALENT_SEND). Each comes exactly once and whole, when its verb is executed at
/// this node, and in the order of these executions; one of a verb that was undone never comes. Every call with it is for its device's thread only. Zero names nothing.
///
/// Receiving is reading memory: no system call, until one wants to sleep.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_receive_queue {
    /// Opaque.
    pub handle: u64,
}

/// A message, and where it came from.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_received {
    /// What was sent; good until the queue's next call. Null if there is no message.
    pub data: *const u8,
    /// How many bytes, 1 to COVALENT_MESSAGE_BYTES_MAX; 0 if there is no message.
    pub length_bytes: usize,
    /// The identity of the node that it came from, which may be the own one.
    pub sender_guid: u64,
    /// When its verb was executed here, as its sender is told it too. It numbers no completion.
    pub stamp: covalent_stamp,
}

impl covalent_received {
    const NONE: Self = Self {
        data: ptr::null(),
        length_bytes: 0,
        sender_guid: 0,
        stamp: covalent_stamp {
            executor: 0,
            executor_count: 0,
            initiator_count: 0,
            lamport: 0,
        },
    };
}

impl From<Message<'_>> for covalent_received {
    fn from(message: Message<'_>) -> Self {
        Self {
            data: message.data.as_ptr(),
            length_bytes: message.data.len(),
            sender_guid: message.sender.bits(),
            stamp: message.stamp.into(),
        }
    }
}

thread_local! {
    static QUEUES: RefCell<Table<Held<ReceiveQueue<'static>>>> = RefCell::new(Table::new(Kind::ReceiveQueue, this_thread()));
}

fn with<T>(
    queue: covalent_receive_queue,
    body: impl FnOnce(&mut ReceiveQueue<'static>) -> Result<T>,
) -> Result<T> {
    QUEUES.with_borrow_mut(|queues| body(queues.get(queue.handle)?.get()))
}

/// Registers a queue under a name that is unique on the node (1 to 32 bytes), by which covalent_verb_queue_open_region finds it. Messages that wait have
/// `capacity_bytes` together: a multiple of 8, 40 to 1 GiB less 128 bytes; each takes 32 bytes more than its length, up to the next multiple of 8. What does not fit is
/// refused to its sender (COVALENT_REFUSAL_QUEUE_FULL). It stays registered until the device is closed with all that was opened through it.
///
/// # Safety
/// `name` is text that ends in a zero; `queue` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_receive_queue_open(
    device: covalent_device,
    name: *const c_char,
    capacity_bytes: u64,
    queue: *mut covalent_receive_queue,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (name, mut out) = unsafe { (text(name, "name")?, Out::new(queue, "queue")?) };
        let device = self::device(device)?;
        let opened = Held::open(&device, |device| device.receive_queue(name, capacity_bytes))?;
        let handle = QUEUES.with_borrow_mut(|queues| queues.insert(opened))?;
        out.set(covalent_receive_queue { handle });
        Ok(())
    })
}

/// Closes this application's end of a queue. Messages go on coming, until the queue is full, as long as it is registered.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_receive_queue_close(queue: covalent_receive_queue) -> c_int {
    call(|| {
        let closed = QUEUES.with_borrow_mut(|queues| queues.remove(queue.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Tells the key that verbs show.
///
/// # Safety
/// `rkey` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_receive_queue_rkey(
    queue: covalent_receive_queue,
    rkey: *mut u32,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(rkey, "rkey")? };
        out.set(with(queue, |queue| Ok(queue.rkey()))?);
        Ok(())
    })
}

/// Takes the oldest message. `timeout_ns`: 0 does not wait, and then `length_bytes` may be 0 (and `data` null): there was none; negative waits for ever; else
/// COVALENT_DEADLINE when none came in time.
///
/// # Safety
/// `message` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_receive_queue_recv(
    queue: covalent_receive_queue,
    timeout_ns: i64,
    message: *mut covalent_received,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(message, "message")? };
        out.set(covalent_received::NONE);
        with(queue, |queue| {
            let message = match Timeout::new(timeout_ns) {
                Timeout::None => match queue.recv()? {
                    Some(message) => message,
                    None => return Ok(()),
                },
                Timeout::Until(deadline) => queue.recv_deadline(deadline)?,
                Timeout::Forever => queue.recv_blocking()?,
            };
            out.set(message.into());
            Ok(())
        })
    })
}
