//! The receive queue.

use std::{fmt, time::Instant};

use covalent_api::guid::Guid;
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{
    region::queue::{HEAD_AT, QUEUE_BYTES_MIN, QueueBroken, RING_AT, Received, Receiver},
    verb::{SEND_BYTES_MAX, envelope::ReportStamp},
};

use crate::{
    device::Device,
    error::{Error, Result},
    stamp::Stamp,
    timeout::{Timeout, deadline},
};

/// Smallest capacity of a [`ReceiveQueue`], in bytes: room for one message of 8 bytes.
pub const RECEIVE_QUEUE_BYTES_MIN: u64 = QUEUE_BYTES_MIN - RING_AT;

/// A queue of messages that verbs of any node [send](crate::Verbs::send) to this application.
///
/// Each message arrives exactly once and whole, when its verb is executed at this node. A message
/// of a reversed verb never arrives. Messages have the order of these executions. If a sender waits
/// for each of its verbs, its messages have the order in which it learned of their completion.
/// Verbs in flight at the same time have no guaranteed order. A full queue refuses the message,
/// which stays with its sender.
///
/// Receiving reads memory. It makes no system call unless it has to sleep. Use the queue only on
/// its device's thread. To serve several queues of a device, poll each of them:
/// [`ReceiveQueue::recv`] waits for one.
///
/// Other programs find the queue by its name, with
/// [`Verbs::open_region`](crate::Verbs::open_region), as any region. After this object is dropped,
/// the queue stays registered, and fills, until the device is dropped. To end it before, use
/// [`ReceiveQueue::withdraw`].
///
/// # Examples
/// ```no_run
/// use covalent::{Device, Timeout};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut orders = device.receive_queue("orders", 1 << 20)?;
/// loop {
///     let order = orders.recv(Timeout::FOREVER)?;
///     println!("{} orders {}", order.sender, String::from_utf8_lossy(order.data));
/// }
/// # Ok::<(), covalent::Error>(())
/// ```
pub struct ReceiveQueue<'d> {
    device: &'d Device,
    name: String,
    rkey: u32,
    memory: RegionMemory,
    receiver: Receiver,
    /// The daemon incarnation that the memory belongs to.
    generation: u32,
    /// The message that was taken last.
    data: Box<[u8; SEND_BYTES_MAX]>,
}

/// A message and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message<'a> {
    /// The node that sent it, which may be the local node.
    pub sender: Guid,
    /// When its verb was executed here. The sender receives the same stamp. It numbers no
    /// completion: [`Stamp::initiator_count`] is 0.
    pub stamp: Stamp,
    /// The message: 1 to [`SEND_BYTES_MAX`] bytes.
    pub data: &'a [u8],
}

impl<'d> ReceiveQueue<'d> {
    pub(crate) fn open(device: &'d Device, name: &str, capacity_bytes: u64) -> Result<Self> {
        let invalid = || {
            Error::Invalid(format!(
                "receive queue `{name}` of {capacity_bytes} bytes: expected \
                 {RECEIVE_QUEUE_BYTES_MIN} bytes at least"
            ))
        };
        let size_bytes = capacity_bytes.checked_add(RING_AT).ok_or_else(invalid)?;
        let receiver = Receiver::new(size_bytes).ok_or_else(invalid)?;
        let (rkey, memory) = device.register_queue(name, size_bytes)?;
        Ok(Self {
            device,
            name: name.to_owned(),
            rkey,
            memory,
            receiver,
            generation: device.generation(),
            data: Box::new([0; SEND_BYTES_MAX]),
        })
    }

    /// The name that it is registered under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key that verbs show. Others learn it by looking the name up.
    #[must_use]
    pub const fn rkey(&self) -> u32 {
        self.rkey
    }

    /// Bytes that messages which wait may have together.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.memory.size_bytes() - RING_AT
    }

    /// Withdraws the queue. Verbs on it are refused as
    /// [`Refusal::UnknownRegion`](crate::Refusal::UnknownRegion) from now on, its name is free, and
    /// messages that were not received are lost. Blocks for the daemon's reply, at most for the
    /// time of [`Device::set_request_timeout`].
    ///
    /// # Errors
    /// [`Error::DaemonGone`]: the queue went with the daemon. [`Error::Deadline`],
    /// [`Error::Forked`].
    ///
    /// # Examples
    /// ```no_run
    /// let device = covalent::Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let orders = device.receive_queue("orders", 1 << 20)?;
    /// orders.withdraw()?;
    /// // Senders of the first one are refused: each registration has a key of its own.
    /// let orders = device.receive_queue("orders", 1 << 20)?;
    /// # let _ = orders;
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn withdraw(self) -> Result<()> {
        self.device.withdraw(self.rkey)
    }

    /// Takes the oldest message, if there is one. Does not block.
    ///
    /// # Errors
    /// [`Error::Unintelligible`] if the queue holds data that no lane wrote. [`Error::DaemonGone`]
    /// if there is no message and none can arrive.
    pub fn try_recv(&mut self) -> Result<Option<Message<'_>>> {
        let taken = self.try_take()?;
        Ok(taken.map(|received| self.message(received)))
    }

    /// Takes the oldest message, for [`ReceiveQueue::message`]; looks after the daemon if there is
    /// none.
    pub(crate) fn try_take(&mut self) -> Result<Option<Received>> {
        let mut taken = self.take()?;
        if taken.is_none() {
            self.device.check_or_reconnect()?;
            if self.generation != self.device.generation() {
                taken = self.take()?;
            }
        }
        Ok(taken)
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn device(&self) -> &'d Device {
        self.device
    }

    /// Takes over the queue's next memory after the daemon came back. Called if the current memory
    /// holds no message.
    fn follow(&mut self) -> Result<()> {
        let (generation, memory) = self.device.take_next_queue_memory(self.rkey)?;
        let receiver = Receiver::new(memory.size_bytes());
        self.receiver = receiver
            .ok_or_else(|| Error::Unintelligible("a receive queue of another size".to_owned()))?;
        self.memory = memory;
        self.generation = generation;
        Ok(())
    }

    /// Waits for a message and takes it.
    ///
    /// # Errors
    /// As [`ReceiveQueue::try_recv`], and [`Error::Deadline`] after `timeout`.
    pub fn recv(&mut self, timeout: impl Into<Timeout>) -> Result<Message<'_>> {
        self.recv_until(deadline(timeout))
    }

    fn recv_until(&mut self, deadline: Option<Instant>) -> Result<Message<'_>> {
        let what = "a message arrived";
        let mut taken = None;
        let device = self.device;
        // The lane writes a message, then notifies. A waiter looks again after it announced its
        // sleep, so it misses none.
        while let Err(error) = device.wait(what, deadline, || {
            taken = self.take()?;
            Ok(taken.is_some())
        }) {
            device.survive(error)?;
        }
        let received = taken.ok_or_else(|| Error::Deadline { what: what.into() })?;
        Ok(self.message(received))
    }

    /// Moves the oldest message, of any incarnation, to `data` and frees its room.
    fn take(&mut self) -> Result<Option<Received>> {
        self.device.check_process()?;
        loop {
            let taken = self.take_here()?;
            if taken.is_some() || self.generation == self.device.generation() {
                return Ok(taken);
            }
            self.follow()?;
        }
    }

    fn take_here(&mut self) -> Result<Option<Received>> {
        let Self {
            memory,
            receiver,
            data,
            ..
        } = self;
        let broken = |error: QueueBroken| Error::Unintelligible(error.to_string());
        let read = |offset, target: &mut [u8]| memory.read(offset, target);
        let taken = receiver.take(read, data).map_err(broken)?;
        if taken.is_some() {
            memory
                .store(HEAD_AT, receiver.head())
                .ok_or(QueueBroken)
                .map_err(broken)?;
        }
        Ok(taken)
    }

    pub(crate) fn message(&self, received: Received) -> Message<'_> {
        let own = self.device.address();
        let report = ReportStamp {
            executor: own.bits(),
            count: 0,
            clock: 0,
        };
        Message {
            sender: Guid::new(received.sender).unwrap_or(own),
            stamp: Stamp::new(&report, Some(received.moment)),
            data: &self.data[..received.len],
        }
    }
}

impl fmt::Debug for ReceiveQueue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveQueue")
            .field("name", &self.name)
            .field("rkey", &self.rkey)
            .field("capacity_bytes", &self.capacity_bytes())
            .finish_non_exhaustive()
    }
}
