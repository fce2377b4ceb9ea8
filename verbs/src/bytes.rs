//! Receiving bytes without gaps.

use std::time::Instant;

use covalent_api::{
    request::PipeKind,
    rule::{Match, Spread},
};
use covalent_pipe::{
    app,
    framing::{Framing, Messages},
    nic::NicCounters as PipeCounters,
};

use crate::{
    device::{Device, PipeId, Stage, broken, foreign},
    error::{Error, Result},
};

/// A pipe that receives what the UDP datagrams carry that are bound to it: payload after payload, without headers and gaps, in the order of
/// arrival.
///
/// Where a message ends is told by a [`crate::framing`], not by the datagrams: a sender may put several into one. A datagram goes in whole or, when the
/// pipe is full, not at all, and is counted; so a sender that keeps messages within datagrams never tears one. Frames that carry no whole datagram (TCP, fragments) are
/// dropped and counted as `no_payload` in the daemon's status and on `/metrics`. Sources are not told apart: bind a pipe for each one whose messages must not mix.
///
/// Every call here, and on its batches, is for its device's thread alone. Bytes are as they were in the datagrams: no byte order is meant or changed. Dropping it gives it back to the daemon.
///
/// # Examples
/// ```no_run
/// use covalent_verbs::{Device, Match, Transport, framing::Delimited};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "logs")?;
/// let mut pipe = device.byte_pipe(16 << 20)?;
/// pipe.bind(&Match::Port { transport: Transport::Udp, dst_port: 514 })?;
/// let mut more_than_bytes = 0;
/// loop {
///     let batch = pipe.recv_more_than(more_than_bytes)?;
///     let mut lines = batch.messages(Delimited::new(b'\n', 64 << 10));
///     for line in lines.by_ref() {
///         println!("{}", String::from_utf8_lossy(line));
///     }
///     let consumed = lines.consumed_bytes();
///     // What is left is the beginning of a line: wait for more than that.
///     more_than_bytes = batch.bytes().len() - consumed;
///     batch.free(consumed);
/// }
/// # Ok::<(), covalent_verbs::Error>(())
/// ```
#[derive(Debug)]
pub struct BytePipe<'d> {
    device: &'d Device,
    id: u32,
    page_bytes: u64,
    ring: app::BytePipe,
    /// The device's life that the ring is of.
    life: u32,
    /// How many bytes the program saw when it looked last, if it has taken none of them since.
    looked_at: Option<usize>,
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
            life: device.life(),
            looked_at: None,
        })
    }

    /// Takes over the memory that the pipe had next when the daemon came back. Called when more is wanted than is left in the one that it has.
    fn follow(&mut self) -> Result<()> {
        let (life, opened) = self.device.take_again(self.id)?;
        let rest = self.ring.recv().map_or(0, |batch| batch.bytes().len());
        let lost = (rest + self.ring.held().len()) as u64;
        self.device
            .count_carried(|carried| carried.bytes_lost += lost);
        self.ring = app::BytePipe::new(opened.memory).map_err(foreign)?;
        self.page_bytes = opened.page_bytes;
        self.life = life;
        self.looked_at = None;
        Ok(())
    }

    /// Whether more than `bytes` lie there, in whichever life they came.
    fn finds_more_than(&mut self, bytes: usize) -> Result<bool> {
        self.device.check_own()?;
        while !has_more_than(&mut self.ring, bytes)? || self.is_given_up() {
            if self.life == self.device.life() {
                return Ok(false);
            }
            self.follow()?;
        }
        Ok(true)
    }

    /// Whether the program has looked at all that a former life left, and could take nothing of it, while there is something of a later one: it is the beginning of
    /// a message whose end never comes.
    fn is_given_up(&mut self) -> bool {
        self.life != self.device.life()
            && self.looked_at.is_some()
            && self.looked_at == self.ring.recv().map(|batch| batch.bytes().len())
            && self.device.waits_for(self.id)
    }

    /// Whether more than `bytes` lie there; looks after the daemon if not.
    fn has_more_than(&mut self, bytes: usize) -> Result<bool> {
        if self.finds_more_than(bytes)? {
            return Ok(true);
        }
        self.device.look_alive()?;
        if self.life == self.device.life() {
            return Ok(false);
        }
        self.finds_more_than(bytes)
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

    /// Asks for what the frames carry that `matches` describes, as [`RxPipe::bind`](crate::RxPipe::bind).
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

    /// Takes back a binding. Bytes that lie in the pipe stay there.
    ///
    /// # Errors
    /// As [`RxPipe::unbind`](crate::RxPipe::unbind).
    pub fn unbind(&mut self, matches: &Match) -> Result<()> {
        self.device.unbind(self.id, matches)
    }

    /// All bytes that have arrived and were neither confirmed nor freed; `None` when there are none. Does not block.
    ///
    /// Where the device [found its daemon again](Device::set_reconnect), what the daemon before left comes first and alone. Once it was received and nothing of it was
    /// taken, and bytes of the next daemon lie there, it is given up and counted as [`Carried::bytes_lost`](crate::Carried): the beginning of a message whose end never comes.
    ///
    /// # Errors
    /// [`Error::DaemonGone`] when there are none and will be none.
    pub fn recv(&mut self) -> Result<Option<ByteBatch<'_>>> {
        if !self.has_more_than(0)? {
            return Ok(None);
        }
        Ok(Some(self.batch()))
    }

    /// As [`BytePipe::recv`], if there are more than `bytes` bytes; `None` when there are not. Does not block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`] when there are not and will not be; [`Error::PipeTooSmall`] as for [`BytePipe::recv_more_than`].
    pub fn poll_more_than(&mut self, bytes: usize) -> Result<Option<ByteBatch<'_>>> {
        self.check_holds_more_than(bytes)?;
        if !self.has_more_than(bytes)? {
            return Ok(None);
        }
        Ok(Some(self.batch()))
    }

    /// Waits for bytes.
    ///
    /// # Errors
    /// [`Error::DaemonGone`].
    pub fn recv_blocking(&mut self) -> Result<ByteBatch<'_>> {
        self.recv_until(0, None)
    }

    /// Waits for bytes until `deadline`.
    ///
    /// # Errors
    /// [`Error::Deadline`], [`Error::DaemonGone`].
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<ByteBatch<'_>> {
        self.recv_until(0, Some(deadline))
    }

    /// Waits until more than `bytes` bytes lie there that were neither confirmed nor freed: for a reader that has looked at so many and found
    /// no whole message.
    ///
    /// A datagram goes in whole or not at all: ask for no more than the ring's size less 64 and a datagram's payload, or what is missing may never fit.
    /// So limit the framing accordingly.
    ///
    /// # Errors
    /// [`Error::DaemonGone`]; [`Error::PipeTooSmall`] when that is more than the pipe can hold.
    pub fn recv_more_than(&mut self, bytes: usize) -> Result<ByteBatch<'_>> {
        self.recv_until(bytes, None)
    }

    /// As [`BytePipe::recv_more_than`], until `deadline`.
    ///
    /// # Errors
    /// [`Error::Deadline`], [`Error::DaemonGone`], [`Error::PipeTooSmall`].
    pub fn recv_more_than_deadline(
        &mut self,
        bytes: usize,
        deadline: Instant,
    ) -> Result<ByteBatch<'_>> {
        self.recv_until(bytes, Some(deadline))
    }

    /// What [`BytePipe::recv`] told last, with what has arrived behind it since: for a program that let go of that batch and has the count of what it is done with. Never moves on to what
    /// the next daemon brings, and does not look whether there is one.
    pub fn received(&mut self) -> Option<ByteBatch<'_>> {
        let bytes = self.ring.recv()?;
        Some(ByteBatch {
            device: self.device,
            id: self.id,
            life: self.life,
            // As it was: what came since was not looked at.
            looked_at: &mut self.looked_at,
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

    /// What the pipe did so far, without asking the daemon: each number is as recent as the lane's last round
    /// (its pass over all that it owns) in which it served this pipe. Its packets are datagrams.
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
        device.wait("enough bytes arrived", deadline, |stage| {
            let enough = has_more_than(ring, bytes)?;
            if !enough && stage == Stage::BeforeSleep && ring.wait_for_more() {
                device.ring(*id)?;
            }
            Ok(enough)
        })
    }

    fn check_holds_more_than(&self, bytes: usize) -> Result<()> {
        let holds_bytes = self.ring.capacity_bytes() - 64 - self.ring.held().len() as u64;
        if bytes as u64 >= holds_bytes {
            return Err(Error::PipeTooSmall {
                wanted_bytes: (bytes as u64).saturating_add(1),
                holds_bytes,
            });
        }
        Ok(())
    }

    /// What was just seen: bytes do not leave a pipe on their own.
    fn batch(&mut self) -> ByteBatch<'_> {
        let bytes = self.ring.recv();
        self.looked_at = bytes.as_ref().map(|batch| batch.bytes().len());
        ByteBatch {
            device: self.device,
            id: self.id,
            life: self.life,
            looked_at: &mut self.looked_at,
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

/// Bytes that lie in a [`BytePipe`]. Dropping it keeps them: they are received again.
///
/// What was looked at and is left, for example the beginning of a message, is no news any more: [`Device::next_rx_pipe`] names the pipe when more
/// arrives.
///
/// The pipe is borrowed, so a freed byte cannot be read:
/// ```compile_fail,E0505
/// # fn main() -> Result<(), covalent_verbs::Error> {
/// # let device = covalent_verbs::Device::attach("/run/covalent/covalentd.sock", "example")?;
/// # let mut pipe = device.byte_pipe(2 << 20)?;
/// let batch = pipe.recv_blocking()?;
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
    /// The device's life that the bytes are of.
    life: u32,
    /// The pipe's, which forgets it when something is taken.
    looked_at: &'p mut Option<usize>,
    bytes: Option<app::ByteBatch<'p>>,
}

impl<'p> ByteBatch<'p> {
    /// The bytes, contiguous.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], app::ByteBatch::bytes)
    }

    /// The whole messages among them, as `framing` tells them apart. Free [`Messages::consumed_bytes`] when they are done with.
    #[must_use]
    pub fn messages<F: Framing>(&self, framing: F) -> Messages<'_, F> {
        Messages::new(self.bytes(), framing)
    }

    /// Frees all bytes: `clear` in Ensō's vocabulary.
    pub fn free_all(mut self) {
        *self.looked_at = None;
        self.free_with(app::ByteBatch::free_all);
    }

    /// Frees the first `bytes` bytes, or all if they are fewer. The others are received again.
    pub fn free(mut self, bytes: usize) {
        self.takes(bytes);
        self.free_with(|batch| batch.free(bytes));
    }

    /// Takes the first `bytes` bytes as received without freeing them: they move to [`BytePipe::held`], and the others are received again. Freeing goes by
    /// age: a later batch that frees bytes frees those held before it too.
    pub fn confirm(mut self, bytes: usize) {
        self.takes(bytes);
        self.free_with(|batch| batch.confirm(bytes));
    }

    const fn takes(&mut self, bytes: usize) {
        if bytes > 0 {
            *self.looked_at = None;
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
        // What is left is the beginning of a message, and no news.
        self.device.gave_back(self.id, self.life, false);
    }
}

impl Drop for ByteBatch<'_> {
    fn drop(&mut self) {
        self.free_with(app::ByteBatch::keep);
    }
}
