//! Receiving bytes without gaps.

use std::time::Instant;

use covalent_api::{
    request::PipeKind,
    rule::{Match, Spread},
};
use covalent_pipe::{
    app,
    framing::{Framing, Messages},
    nic::PipeCounters,
};

use crate::{
    device::Device,
    error::{Error, Result, broken, foreign},
    pipe_id::PipeId,
    timeout::{Timeout, deadline},
};

/// A pipe that receives the payloads of the UDP datagrams that are bound to it, concatenated in the
/// order of arrival, without headers and gaps.
///
/// A [`framing`](crate::framing) finds the end of a message, not the datagrams: a sender may put
/// several messages into one datagram. A datagram enters the pipe whole. If the pipe is full, the
/// lane drops the datagram and counts it. A sender that keeps each message within one datagram
/// therefore never has a message torn. The lane drops frames that carry no whole datagram (TCP,
/// fragments). It counts them as `no_payload` in the daemon's status and on `/metrics`. The pipe
/// does not separate sources: bind one pipe for each source whose messages must not mix.
///
/// Use the pipe and its batches only on its device's thread. Bytes are as in the datagrams, in no
/// particular byte order. Dropping the pipe returns it to the daemon.
///
/// # Examples
/// ```no_run
/// use covalent::{Device, Match, Timeout, Transport, framing::Delimited};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "logs")?;
/// let mut pipe = device.byte_pipe(16 << 20)?;
/// pipe.bind(&Match::Port { transport: Transport::Udp, dst_port: 514 })?;
/// let mut more_than_bytes = 0;
/// loop {
///     let batch = pipe.recv_more_than(more_than_bytes, Timeout::FOREVER)?;
///     let mut lines = batch.messages(Delimited::new(b'\n', 64 << 10));
///     for line in lines.by_ref() {
///         println!("{}", String::from_utf8_lossy(line));
///     }
///     let consumed = lines.consumed_bytes();
///     // What is left is the beginning of a line: wait for more than that.
///     more_than_bytes = batch.bytes().len() - consumed;
///     batch.free(consumed);
/// }
/// # Ok::<(), covalent::Error>(())
/// ```
#[derive(Debug)]
pub struct BytePipe<'d> {
    device: &'d Device,
    id: u32,
    page_bytes: u64,
    ring: app::BytePipe,
    /// The daemon incarnation that the ring belongs to.
    generation: u32,
    /// How many bytes the program saw when it looked last, if it has taken none of them since.
    seen_bytes: Option<usize>,
}

impl<'d> BytePipe<'d> {
    pub(crate) fn open(
        device: &'d Device,
        capacity_bytes: u64,
        port: Option<&str>,
    ) -> Result<Self> {
        let opened = device.open_pipe(PipeKind::RxBytes, capacity_bytes, port)?;
        let ring = app::BytePipe::new(opened.memory).map_err(foreign)?;
        Ok(Self {
            device,
            id: opened.id,
            page_bytes: opened.page_bytes,
            ring,
            generation: device.generation(),
            seen_bytes: None,
        })
    }

    /// Takes over the pipe's next memory after the daemon came back. Called if the reader needs
    /// more than the current memory holds.
    fn follow(&mut self) -> Result<()> {
        let (generation, opened) = self.device.take_next_memory(self.id)?;
        let rest = self.ring.recv().map_or(0, |batch| batch.bytes().len());
        let lost = (rest + self.ring.held().len()) as u64;
        self.device
            .count_carried(|carried| carried.bytes_lost += lost);
        self.ring = app::BytePipe::new(opened.memory).map_err(foreign)?;
        self.page_bytes = opened.page_bytes;
        self.generation = generation;
        self.seen_bytes = None;
        Ok(())
    }

    /// Whether there are more than `bytes` bytes, of any incarnation.
    fn finds_more_than(&mut self, bytes: usize) -> Result<bool> {
        self.device.check_process()?;
        while !has_more_than(&mut self.ring, bytes)? || self.is_given_up() {
            if self.generation == self.device.generation() {
                return Ok(false);
            }
            self.follow()?;
        }
        Ok(true)
    }

    /// Whether the program has examined all bytes of an earlier incarnation and consumed none,
    /// while bytes of a later one are present. They are the start of a message whose end never
    /// arrives.
    fn is_given_up(&mut self) -> bool {
        self.generation != self.device.generation()
            && self.seen_bytes.is_some()
            && self.seen_bytes == self.ring.recv().map(|batch| batch.bytes().len())
            && self.device.waits_for(self.id)
    }

    /// Whether more than `bytes` lie there; looks after the daemon if not.
    pub(crate) fn has_more_than(&mut self, bytes: usize) -> Result<bool> {
        if self.finds_more_than(bytes)? {
            return Ok(true);
        }
        self.device.check_or_reconnect()?;
        if self.generation != self.device.generation() && self.finds_more_than(bytes)? {
            return Ok(true);
        }
        if self.device.is_armed() && self.ring.wait_for_more() {
            self.device.ring(self.id)?;
        }
        Ok(false)
    }

    /// The pipe's number.
    #[must_use]
    pub const fn id(&self) -> PipeId {
        PipeId(self.id)
    }

    /// Size of the ring, in bytes; 64 less can be used, and no message can be longer than that.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.ring.capacity_bytes()
    }

    /// Size of the pages that the bytes lie in: 4096 or 2097152 bytes.
    #[must_use]
    pub const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Binds the pipe to the payloads of the frames that `matches` describes, as
    /// [`RxPipe::bind`](crate::RxPipe::bind).
    ///
    /// # Errors
    /// As [`RxPipe::bind`](crate::RxPipe::bind).
    pub fn bind(&mut self, matches: &Match) -> Result<()> {
        self.device.bind(self.id, matches, None)
    }

    /// As [`RxPipe::bind_spread`](crate::RxPipe::bind_spread).
    ///
    /// # Errors
    /// As [`RxPipe::bind_spread`](crate::RxPipe::bind_spread).
    pub fn bind_spread(&mut self, matches: &Match, spread: Spread) -> Result<()> {
        self.device.bind(self.id, matches, Some(spread))
    }

    /// Removes a binding. Bytes already in the pipe stay there.
    ///
    /// # Errors
    /// As [`RxPipe::unbind`](crate::RxPipe::unbind).
    pub fn unbind(&mut self, matches: &Match) -> Result<()> {
        self.device.unbind(self.id, matches)
    }

    /// Returns all bytes that arrived and were neither confirmed nor freed. `None` if there are
    /// none. Does not block.
    ///
    /// If the device [reconnected](Device::set_reconnect), the bytes from the previous daemon come
    /// first and alone. If they were received, none of them was consumed, and bytes from the next
    /// daemon are present, they are discarded. They are counted as
    /// [`Carried::bytes_lost`](crate::Carried). They are the start of a message whose end never
    /// arrives.
    ///
    /// # Errors
    /// [`Error::DaemonGone`] if there are none and none can arrive.
    pub fn try_recv(&mut self) -> Result<Option<ByteBatch<'_>>> {
        if !self.has_more_than(0)? {
            return Ok(None);
        }
        Ok(Some(self.batch()))
    }

    /// As [`BytePipe::try_recv`], if there are more than `bytes` bytes, otherwise `None`. Does not
    /// block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`] if there are not and no more can arrive. [`Error::PipeTooSmall`] as
    /// for [`BytePipe::recv_more_than`].
    pub fn try_recv_more_than(&mut self, bytes: usize) -> Result<Option<ByteBatch<'_>>> {
        self.check_holds_more_than(bytes)?;
        if !self.has_more_than(bytes)? {
            return Ok(None);
        }
        Ok(Some(self.batch()))
    }

    /// Waits for bytes, then returns them as [`BytePipe::try_recv`] does.
    ///
    /// # Errors
    /// [`Error::Deadline`] after `timeout`, [`Error::DaemonGone`].
    pub fn recv(&mut self, timeout: impl Into<Timeout>) -> Result<ByteBatch<'_>> {
        self.recv_until(0, deadline(timeout))
    }

    /// Waits until there are more than `bytes` bytes that were neither confirmed nor freed. Use it
    /// after examining that many bytes without finding a whole message.
    ///
    /// A datagram enters the pipe whole or not at all. Request at most the ring's size less 64
    /// bytes and less a datagram's payload. Otherwise the rest of a message may never fit. Limit
    /// the framing accordingly.
    ///
    /// # Errors
    /// [`Error::Deadline`] after `timeout`, [`Error::DaemonGone`]. [`Error::PipeTooSmall`] if the
    /// pipe cannot hold more than `bytes` bytes.
    pub fn recv_more_than(
        &mut self,
        bytes: usize,
        timeout: impl Into<Timeout>,
    ) -> Result<ByteBatch<'_>> {
        self.recv_until(bytes, deadline(timeout))
    }

    /// Returns the bytes that [`BytePipe::recv`] returned last, with those that arrived behind them
    /// since. For a program that dropped that batch and kept the number of bytes that it consumed.
    /// Never moves on to the bytes of the next daemon, and does not check whether there is one.
    pub fn received(&mut self) -> Option<ByteBatch<'_>> {
        let bytes = self.ring.recv()?;
        Some(ByteBatch {
            device: self.device,
            id: self.id,
            generation: self.generation,
            // Unchanged: the program has not examined the bytes that arrived since.
            seen_bytes: &mut self.seen_bytes,
            bytes: Some(bytes),
        })
    }

    /// The bytes that were [confirmed](ByteBatch::confirm) and not freed.
    #[must_use]
    pub fn held(&self) -> &[u8] {
        self.ring.held()
    }

    /// Frees the oldest `bytes` of [`BytePipe::held`], or all if they are fewer.
    pub fn free_held(&mut self, bytes: usize) {
        if self.device.is_own() && self.ring.free_held(bytes) {
            self.device.owe_doorbell(self.id);
        }
    }

    /// As [`RxPipe::prefetch`](crate::RxPipe::prefetch).
    ///
    /// # Errors
    /// As [`RxPipe::prefetch`](crate::RxPipe::prefetch).
    pub fn prefetch(&mut self) -> Result<()> {
        self.device.ring(self.id)
    }

    /// Returns the pipe's counters without a request to the daemon. Each number is as recent as the
    /// lane's last round (its pass over all that it owns) that served this pipe. The packets are
    /// datagrams.
    #[must_use]
    pub fn counters(&self) -> PipeCounters {
        self.ring.counters()
    }

    fn recv_until(&mut self, bytes: usize, deadline: Option<Instant>) -> Result<ByteBatch<'_>> {
        self.check_holds_more_than(bytes)?;
        while let Err(error) = self.wait_until(bytes, deadline) {
            self.device.survive(error)?;
        }
        Ok(self.batch())
    }

    fn wait_until(&mut self, bytes: usize, deadline: Option<Instant>) -> Result<()> {
        if self.finds_more_than(bytes)? {
            return Ok(());
        }
        let Self {
            device, id, ring, ..
        } = self;
        device.wait("enough bytes arrived", deadline, || {
            let enough = has_more_than(ring, bytes)?;
            if !enough && device.is_armed() && ring.wait_for_more() {
                device.ring(*id)?;
            }
            Ok(enough)
        })
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn device(&self) -> &'d Device {
        self.device
    }

    pub(crate) fn check_holds_more_than(&self, bytes: usize) -> Result<()> {
        let holds_bytes = self.ring.capacity_bytes() - 64 - self.ring.held().len() as u64;
        if bytes as u64 >= holds_bytes {
            return Err(Error::PipeTooSmall {
                wanted_bytes: (bytes as u64).saturating_add(1),
                holds_bytes,
            });
        }
        Ok(())
    }

    /// Returns the bytes just found: bytes do not leave a pipe on their own.
    pub(crate) fn batch(&mut self) -> ByteBatch<'_> {
        let bytes = self.ring.recv();
        self.seen_bytes = bytes.as_ref().map(|batch| batch.bytes().len());
        ByteBatch {
            device: self.device,
            id: self.id,
            generation: self.generation,
            seen_bytes: &mut self.seen_bytes,
            bytes,
        }
    }
}

impl Drop for BytePipe<'_> {
    fn drop(&mut self) {
        self.device.close_pipe(self.id);
    }
}

fn has_more_than(ring: &mut app::BytePipe, bytes: usize) -> Result<bool> {
    if let Some(batch) = ring.recv() {
        return Ok(batch.bytes().len() > bytes);
    }
    ring.violation()
        .map_or(Ok(false), |violation| Err(broken(violation)))
}

/// Bytes in a [`BytePipe`]. Dropping the batch keeps them: they are received again.
///
/// Bytes that were examined and left, for example the start of a message, do not count as new:
/// [`Device::next_rx_pipe`] returns the pipe when more bytes arrive.
///
/// The batch borrows the pipe, so a freed byte cannot be read:
/// ```compile_fail,E0505
/// # fn main() -> Result<(), covalent::Error> {
/// # let device = covalent::Device::attach("/run/covalent/covalentd.sock", "example")?;
/// # let mut pipe = device.byte_pipe(2 << 20)?;
/// let batch = pipe.recv(Timeout::FOREVER)?;
/// let bytes = batch.bytes();
/// batch.free_all();
/// println!("{bytes:?}"); // does not compile
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ByteBatch<'p> {
    device: &'p Device,
    id: u32,
    /// The daemon incarnation that the bytes belong to.
    generation: u32,
    /// The pipe's, which forgets it when something is taken.
    seen_bytes: &'p mut Option<usize>,
    bytes: Option<app::ByteBatch<'p>>,
}

impl<'p> ByteBatch<'p> {
    /// The bytes, contiguous.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], app::ByteBatch::bytes)
    }

    /// Returns the whole messages among the bytes, as delimited by `framing`. Free
    /// [`Messages::consumed_bytes`] after processing them.
    #[must_use]
    pub fn messages<F: Framing>(&self, framing: F) -> Messages<'_, F> {
        Messages::new(self.bytes(), framing)
    }

    /// Frees all bytes: `clear` in Ensō's vocabulary.
    pub fn free_all(mut self) {
        *self.seen_bytes = None;
        self.free_with(app::ByteBatch::free_all);
    }

    /// Frees the first `bytes` bytes, or all if they are fewer. The others are received again.
    pub fn free(mut self, bytes: usize) {
        self.takes(bytes);
        self.free_with(|batch| batch.free(bytes));
    }

    /// Confirms the first `bytes` bytes without freeing them: they move to [`BytePipe::held`], and
    /// the others are received again. Bytes are freed by age: if a later batch frees bytes, the
    /// held bytes before them are freed too.
    pub fn confirm(mut self, bytes: usize) {
        self.takes(bytes);
        self.free_with(|batch| batch.confirm(bytes));
    }

    const fn takes(&mut self, bytes: usize) {
        if bytes > 0 {
            *self.seen_bytes = None;
        }
    }

    fn free_with(&mut self, free: impl FnOnce(app::ByteBatch<'p>) -> bool) {
        // In a forked process its bytes are the parent's to free.
        let Some(batch) = self.bytes.take().filter(|_| self.device.is_own()) else {
            return;
        };
        if free(batch) {
            self.device.owe_doorbell(self.id);
        }
        // The rest is the start of a message and does not count as new.
        self.device.gave_back(self.id, self.generation, false);
    }
}

impl Drop for ByteBatch<'_> {
    fn drop(&mut self) {
        self.free_with(app::ByteBatch::keep);
    }
}
