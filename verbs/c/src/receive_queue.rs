//! `covalent_receive_queue`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
    ptr,
};

use covalent::{Message, ReceiveQueue};

use crate::{
    argument::{Out, text},
    device::{covalent_device, device},
    handle::{Kind, Table, this_thread},
    held::Held,
    name::covalent_name,
    status::{Result, call},
    timeout::timeout,
    verb::covalent_stamp,
};

/// A queue of messages that verbs of any node send to this application (covalent_send,
/// COVALENT_SEND). Each message arrives exactly once and whole, when its verb is executed at this
/// node. Messages have the order of these executions. A message of a reversed verb never arrives.
/// Use the queue only on its device's thread. A zero handle is invalid.
///
/// Receiving reads memory. It makes no system call unless it has to sleep.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_receive_queue {
    /// Opaque.
    pub handle: u64,
}

/// A message and its origin.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_received {
    /// The message's bytes, valid until the queue's next call. Null if there is no message.
    pub data: *const u8,
    /// How many bytes, 1 to COVALENT_MESSAGE_BYTES_MAX; 0 if there is no message.
    pub length_bytes: usize,
    /// Identity of the node that sent it, which may be the local node.
    pub sender_guid: u64,
    /// When its verb was executed here. The sender receives the same stamp. It numbers no
    /// completion.
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
    static QUEUES: RefCell<Table<Held<ReceiveQueue<'static>>>> = RefCell::new(
        Table::new(Kind::ReceiveQueue, this_thread()),
    );
}

fn with<T>(
    queue: covalent_receive_queue,
    body: impl FnOnce(&mut ReceiveQueue<'static>) -> Result<T>,
) -> Result<T> {
    QUEUES.with_borrow_mut(|queues| body(queues.get(queue.handle)?.get()))
}

/// Registers a queue under a name that is unique on the node (1 to 32 bytes).
/// covalent_verb_queue_open_region finds it by this name. It stays registered until the device and
/// everything opened through it are closed.
///
/// `capacity_bytes` limits the messages that wait together. It is a multiple of 8, 40 to 1 GiB less
/// 128 bytes. Each message takes 32 bytes more than its length, rounded up to a multiple of 8. A
/// message that does not fit is refused, and its sender receives COVALENT_REFUSAL_QUEUE_FULL.
///
/// # Safety
/// `name` is a NUL-terminated string. `queue` is valid for writes.
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

/// Closes this application's end of a queue. While the queue is registered, messages still arrive
/// until it is full.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_receive_queue_close(queue: covalent_receive_queue) -> c_int {
    call(|| {
        let closed = QUEUES.with_borrow_mut(|queues| queues.remove(queue.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Withdraws a queue and closes it: verbs on it are refused as COVALENT_REFUSAL_UNKNOWN_REGION from
/// now on, its name is free, and messages that were not received are lost. Waits for the daemon's
/// reply. The handle is closed even if the call fails.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_receive_queue_withdraw(queue: covalent_receive_queue) -> c_int {
    call(|| {
        let closed = QUEUES.with_borrow_mut(|queues| queues.remove(queue.handle))?;
        closed.try_map(ReceiveQueue::withdraw)?;
        Ok(())
    })
}

/// Returns the key that verbs present.
///
/// # Safety
/// `rkey` is valid for writes.
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

/// Returns how many bytes messages that wait may have together.
///
/// # Safety
/// `capacity_bytes` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_receive_queue_capacity_bytes(
    queue: covalent_receive_queue,
    capacity_bytes: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(capacity_bytes, "capacity_bytes")? };
        out.set(with(queue, |queue| Ok(queue.capacity_bytes()))?);
        Ok(())
    })
}

/// Returns the name that the queue is registered under.
///
/// # Safety
/// `name` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_receive_queue_name(
    queue: covalent_receive_queue,
    name: *mut covalent_name,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(name, "name")? };
        out.set(with(queue, |queue| Ok(covalent_name::new(queue.name())))?);
        Ok(())
    })
}

/// Takes the oldest message. `timeout_ns`: 0 does not wait, and `length_bytes` may then be 0 and
/// `data` null. A negative value waits forever. Otherwise the call returns COVALENT_DEADLINE if no
/// message arrives in time.
///
/// # Safety
/// `message` is valid for writes.
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
            let message = match timeout(timeout_ns) {
                None => match queue.try_recv()? {
                    Some(message) => message,
                    None => return Ok(()),
                },
                Some(timeout) => queue.recv(timeout)?,
            };
            out.set(message.into());
            Ok(())
        })
    })
}
