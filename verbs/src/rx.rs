//! Receiving.

use std::{mem::ManuallyDrop, time::Instant};

use covalent_api::{
    request::PipeKind,
    rule::{Match, Spread},
    tap::TapFrames,
    tuning::PipeTuning,
};
use covalent_pipe::{app, nic::PipeCounters};

use crate::{
    device::Device,
    error::{Result, broken, foreign},
    pipe_id::PipeId,
    timeout::{Timeout, deadline},
};

/// A pipe that receives packets: whole Ethernet frames without FCS, each at the next multiple of 64
/// bytes, in contiguous memory.
///
/// Use the pipe and its batches only on its device's thread. Bytes are as they were on the wire
/// (network byte order). If the pipe is full, the lane drops further packets and counts them
/// (`counters().full`). A slow reader does not affect other pipes. Dropping the pipe returns it to
/// the daemon.
///
/// # Examples
/// ```no_run
/// use covalent::{Device, Match, Timeout};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut pipe = device.rx_pipe(2 << 20)?;
/// pipe.bind(&Match::EtherType { ethertype: 0x0806 })?;
/// loop {
///     let batch = pipe.recv(Timeout::FOREVER)?;
///     for packet in &batch {
///         println!("ARP, {} bytes", packet.len());
///     }
///     batch.free_all();
/// }
/// # Ok::<(), covalent::Error>(())
/// ```
#[derive(Debug)]
pub struct RxPipe<'d> {
    device: &'d Device,
    id: u32,
    page_bytes: u64,
    ring: app::RxPipe,
    /// The daemon incarnation that the ring belongs to.
    generation: u32,
}

impl<'d> RxPipe<'d> {
    pub(crate) fn open(
        device: &'d Device,
        capacity_bytes: u64,
        port: Option<&str>,
    ) -> Result<Self> {
        let opened = device.open_pipe(PipeKind::Rx, capacity_bytes, port)?;
        let ring = app::RxPipe::new(opened.memory).map_err(foreign)?;
        Ok(Self {
            device,
            id: opened.id,
            page_bytes: opened.page_bytes,
            ring,
            generation: device.generation(),
        })
    }

    /// Takes over the pipe's next memory after the daemon came back. Called if nothing is left in
    /// the current memory.
    fn follow(&mut self) -> Result<()> {
        let (generation, opened) = self.device.take_next_memory(self.id)?;
        let held = self.ring.held().count() as u64;
        self.device
            .count_carried(|carried| carried.frames_lost += held);
        self.ring = app::RxPipe::new(opened.memory).map_err(foreign)?;
        self.page_bytes = opened.page_bytes;
        self.generation = generation;
        Ok(())
    }

    /// Whether there are packets, of any incarnation.
    fn finds_packets(&mut self) -> Result<bool> {
        self.device.check_process()?;
        while !has_packets(&mut self.ring)? {
            if self.generation == self.device.generation() {
                return Ok(false);
            }
            self.follow()?;
        }
        Ok(true)
    }

    /// Whether packets lie there; looks after the daemon if not.
    pub(crate) fn has_packets(&mut self) -> Result<bool> {
        if self.finds_packets()? {
            return Ok(true);
        }
        self.device.check_or_reconnect()?;
        if self.generation != self.device.generation() && self.finds_packets()? {
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

    /// Size of the ring, in bytes; 64 less can be used. A packet takes its length rounded up to 64.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.ring.capacity_bytes()
    }

    /// Size of the pages that the packets lie in: 4096 or 2097152 bytes.
    #[must_use]
    pub const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Binds the pipe to the frames that `matches` describes. Several bindings add up, at most 4096
    /// in a session. Blocks for the daemon's reply.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if another pipe has the same match on the same
    /// port, or if the configuration gives it to the kernel.
    /// [`Error::LinkEtherType`](crate::Error::LinkEtherType) for the EtherType of the links, 0x88b5
    /// by default, if a port that the pipe receives from has a link.
    pub fn bind(&mut self, matches: &Match) -> Result<()> {
        self.device.bind(self.id, matches, None)
    }

    /// Binds the pipe to a share of the frames that `matches` describes. It shares them with every
    /// other pipe that is bound to the same match with the same `spread`: these pipes are a set.
    /// With [`Match::Any`] it is a fallback set, which receives the frames that no other match
    /// takes.
    ///
    /// The pipes may belong to several devices, in several threads or applications of one user, on
    /// the lane of the port. Pipes may join and leave while packets flow. If a pipe is unbound or
    /// dropped, or its application exits, the others take over its share. Under [`Spread::Hash`]
    /// only the flows of that pipe move then. If a pipe joins, only the flows that it takes over
    /// move.
    ///
    /// Packets already in a pipe stay there, so two pipes may hold packets of one flow at such a
    /// moment. A full pipe drops its share, which does not spill into the others.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) in these cases:
    /// - A pipe has the match alone.
    /// - The set has another spread, belongs to another user, or has 256 pipes.
    /// - This pipe is in the set already.
    /// - The configuration gives the match away.
    ///
    /// [`Error::LinkEtherType`](crate::Error::LinkEtherType) as for [`RxPipe::bind`].
    pub fn bind_spread(&mut self, matches: &Match, spread: Spread) -> Result<()> {
        self.device.bind(self.id, matches, Some(spread))
    }

    /// Removes a binding. Frames already in the pipe stay there.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if there is no such binding.
    pub fn unbind(&mut self, matches: &Match) -> Result<()> {
        self.device.unbind(self.id, matches)
    }

    /// Starts a capture: from now on the lane puts a record of each frame that it receives or sends
    /// on the pipe's port into the pipe. A record has up to `snap_bytes` (14 to 65535) bytes of the
    /// frame. [`TapHead::split`](crate::TapHead::split) reads it. The pipe must have
    /// been opened [on a port](Device::rx_pipe_on). The capture ends with the pipe. Blocks for the
    /// daemon's reply.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) unless this process runs as root or as the
    /// daemon's user, if the pipe has no port, and if the port is captured already.
    pub fn tap(&mut self, frames: TapFrames, snap_bytes: u32) -> Result<()> {
        self.device.tap(self.id, frames, snap_bytes)
    }

    /// Returns every packet in the pipe, `None` if there is none. Does not block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone) when there is no packet and will be none.
    pub fn try_recv(&mut self) -> Result<Option<RxBatch<'_>>> {
        if !self.has_packets()? {
            return Ok(None);
        }
        Ok(Some(self.batch()))
    }

    /// As [`RxPipe::try_recv`], but dropping the batch frees nothing: its packets are received
    /// again.
    ///
    /// # Errors
    /// As [`RxPipe::try_recv`].
    pub fn try_peek(&mut self) -> Result<Option<RxBatch<'_>>> {
        if !self.has_packets()? {
            return Ok(None);
        }
        Ok(self.ring.peek().map(|packets| RxBatch {
            device: self.device,
            id: self.id,
            generation: self.generation,
            packets: Some(packets),
            keep: true,
        }))
    }

    /// The packets that were [confirmed](RxBatch::confirm) and not freed, oldest first.
    #[must_use]
    pub fn held(&self) -> Packets<'_> {
        Packets(Some(self.ring.held()))
    }

    /// Frees the oldest `packets` of [`RxPipe::held`], or all if they are fewer.
    pub fn free_held(&mut self, packets: usize) {
        if self.device.is_own() && self.ring.free_held(packets) {
            self.device.owe_doorbell(self.id);
        }
    }

    /// Requests the pipe's next notification now, while the application works on other pipes, so
    /// that [`Device::next_rx_pipe`] finds it sooner. Freeing and receiving do not need this call,
    /// and nothing is lost without it. Does not block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone) if the lane sleeps and cannot be woken.
    pub fn prefetch(&mut self) -> Result<()> {
        self.device.ring(self.id)
    }

    /// Returns the pipe's counters without a request to the daemon. Each number is as recent as the
    /// lane's last round (its pass over all that it owns) that served this pipe.
    #[must_use]
    pub fn counters(&self) -> PipeCounters {
        self.ring.counters()
    }

    /// Sets where the lane writes the time of arrival in the pipe's packets. Packets already in the
    /// pipe do not change. Blocks for the daemon's reply.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if no packet is long enough for the stamp, or for
    /// a rate limit.
    pub fn tune(&mut self, tuning: &PipeTuning) -> Result<()> {
        self.device.tune(self.id, *tuning)
    }

    /// Waits for packets, then returns every packet in the pipe. The batch is never empty.
    ///
    /// # Errors
    /// [`Error::Deadline`](crate::Error::Deadline) after `timeout`,
    /// [`Error::DaemonGone`](crate::Error::DaemonGone).
    pub fn recv(&mut self, timeout: impl Into<Timeout>) -> Result<RxBatch<'_>> {
        self.recv_until(deadline(timeout))
    }

    fn recv_until(&mut self, deadline: Option<Instant>) -> Result<RxBatch<'_>> {
        while let Err(error) = self.wait_until(deadline) {
            self.device.survive(error)?;
        }
        Ok(self.batch())
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Result<()> {
        if self.finds_packets()? {
            return Ok(());
        }
        let Self {
            device, id, ring, ..
        } = self;
        device.wait("a packet arrived", deadline, || {
            let has_packets = has_packets(ring)?;
            if !has_packets && device.is_armed() && ring.wait_for_more() {
                device.ring(*id)?;
            }
            Ok(has_packets)
        })
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn device(&self) -> &'d Device {
        self.device
    }

    /// Returns the packets just found: packets do not leave a pipe on their own.
    pub(crate) fn batch(&mut self) -> RxBatch<'_> {
        RxBatch {
            device: self.device,
            id: self.id,
            generation: self.generation,
            packets: self.ring.recv(),
            keep: false,
        }
    }
}

impl Drop for RxPipe<'_> {
    fn drop(&mut self) {
        self.device.close_pipe(self.id);
    }
}

fn has_packets(ring: &mut app::RxPipe) -> Result<bool> {
    if ring.peek().is_some() {
        return Ok(true);
    }
    ring.violation()
        .map_or(Ok(false), |violation| Err(broken(violation)))
}

/// Packets in an [`RxPipe`]. Dropping the batch frees all of them, unless it was
/// [peeked](RxPipe::try_peek).
///
/// The batch borrows the pipe, so a freed byte cannot be read:
/// ```compile_fail,E0505
/// # fn main() -> Result<(), covalent::Error> {
/// # let device = covalent::Device::attach("/run/covalent/covalentd.sock", "example")?;
/// # let mut pipe = device.rx_pipe(2 << 20)?;
/// let batch = pipe.recv(Timeout::FOREVER)?;
/// let packet = batch.iter().next();
/// batch.free_all();
/// println!("{packet:?}"); // does not compile
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RxBatch<'p> {
    device: &'p Device,
    id: u32,
    /// The daemon incarnation that the packets belong to.
    generation: u32,
    packets: Option<app::RxBatch<'p>>,
    /// Dropping it frees nothing.
    keep: bool,
}

impl<'p> RxBatch<'p> {
    /// The packets, oldest first.
    #[must_use]
    pub fn iter(&self) -> Packets<'_> {
        Packets(self.packets.as_ref().map(app::RxBatch::iter))
    }

    /// Returns all bytes of the batch at once. Packets begin at multiples of 64, with unspecified
    /// bytes between them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.packets.as_ref().map_or(&[], app::RxBatch::bytes)
    }

    /// Frees all packets: `clear` in Ensō's vocabulary.
    pub fn free_all(mut self) {
        self.free_with(Remainder::None, app::RxBatch::free_all);
    }

    /// Frees the first `packets` packets. The others are received again.
    pub fn free(mut self, packets: usize) {
        self.free_with(Remainder::News, |batch| batch.free(packets));
    }

    /// Frees the packets before `position`. The others are received again. Prefer it in a loop that
    /// has walked over the packets and stopped before the end: [`RxBatch::free`] walks over them
    /// again to find that position.
    ///
    /// [`Packets::position`] returns the position, in this batch or in an earlier one of the same
    /// pipe. If the position is before this batch, nothing is freed. A position of another pipe may
    /// be inside a packet, and the next data received is then no packet.
    #[inline]
    pub fn free_to(mut self, position: Position) {
        if let Some(position) = position.0 {
            self.free_with(Remainder::News, |batch| batch.free_to(position));
        } else {
            self.free_with(Remainder::Seen, app::RxBatch::keep);
        }
    }

    /// Confirms the first `packets` packets without freeing them: they move to [`RxPipe::held`],
    /// and the others are received again. Packets are freed by age: if a later batch frees packets,
    /// the held packets before them are freed too.
    pub fn confirm(mut self, packets: usize) {
        self.free_with(Remainder::News, |batch| batch.confirm(packets));
    }

    /// Frees nothing: all packets are received again. They do not count as new:
    /// [`Device::next_rx_pipe`] returns this pipe when more packets arrive. No more packets join
    /// those from an earlier daemon. Take all of these to reach the packets from the next daemon.
    pub fn keep(mut self) {
        self.free_with(Remainder::Seen, app::RxBatch::keep);
    }

    fn free_with(&mut self, rest: Remainder, free: impl FnOnce(app::RxBatch<'p>) -> bool) {
        let Some(batch) = self.packets.take() else {
            return;
        };
        if !self.device.is_own() {
            // Its packets are the parent's to free.
            let _kept = ManuallyDrop::new(batch);
            return;
        }
        if free(batch) {
            self.device.owe_doorbell(self.id);
        }
        if rest != Remainder::Seen {
            let rest = rest == Remainder::News;
            self.device.gave_back(self.id, self.generation, rest);
        }
    }
}

/// The rest of a batch when it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remainder {
    /// Nothing.
    None,
    /// Packets, perhaps, and they are news.
    News,
    /// Packets that are no news any more.
    Seen,
}

impl Drop for RxBatch<'_> {
    fn drop(&mut self) {
        if self.keep {
            self.free_with(Remainder::Seen, app::RxBatch::keep);
        } else {
            self.free_with(Remainder::None, app::RxBatch::free_all);
        }
    }
}

impl<'b> IntoIterator for &'b RxBatch<'_> {
    type Item = &'b [u8];
    type IntoIter = Packets<'b>;

    fn into_iter(self) -> Packets<'b> {
        self.iter()
    }
}

/// The packets of an [`RxBatch`], oldest first. Each is one frame's bytes.
#[derive(Debug, Clone)]
pub struct Packets<'b>(Option<app::Packets<'b>>);

/// A position between two packets of a pipe, after those that were walked over. It borrows nothing
/// and may outlive its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position(pub(crate) Option<app::Position>);

impl Packets<'_> {
    /// The place behind the packets that were given so far, for [`RxBatch::free_to`].
    ///
    /// # Examples
    /// ```no_run
    /// # use covalent::Timeout;
    /// # fn main() -> Result<(), covalent::Error> {
    /// # let device = covalent::Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// # let mut pipe = device.rx_pipe(2 << 20)?;
    /// let batch = pipe.recv(Timeout::FOREVER)?;
    /// let mut packets = batch.iter();
    /// for packet in packets.by_ref().take(32) {
    ///     println!("{} bytes", packet.len());
    /// }
    /// let position = packets.position();
    /// batch.free_to(position);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[inline]
    pub fn position(&self) -> Position {
        Position(self.0.as_ref().map(app::Packets::position))
    }
}

impl<'b> Iterator for Packets<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        self.0.as_mut()?.next()
    }
}
