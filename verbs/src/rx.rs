//! Receiving.

use std::{mem::ManuallyDrop, time::Instant};

use covalent_api::{
    request::PipeKind,
    rule::{Match, Spread},
    tap::TapFrames,
    tuning::PipeTuning,
};
use covalent_pipe::{app, nic::NicCounters as PipeCounters};

use crate::{
    device::{Device, PipeId, Stage, broken, foreign},
    error::Result,
};

/// A pipe that receives packets: whole Ethernet frames without FCS, each at the next multiple of 64 bytes, in contiguous memory.
///
/// Every call here, and on its batches, is for its device's thread alone. Bytes are as they were on the wire (network byte order). When it is
/// full, further packets are dropped and counted (`counters().full`); a slow reader disturbs nobody else. Dropping it gives it back to the daemon.
///
/// # Examples
/// ```no_run
/// use covalent_verbs::{Device, Match};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut pipe = device.rx_pipe(2 << 20)?;
/// pipe.bind(&Match::EtherType { ethertype: 0x0806 })?;
/// loop {
///     let batch = pipe.recv_blocking()?;
///     for packet in &batch {
///         println!("ARP, {} bytes", packet.len());
///     }
///     batch.free_all();
/// }
/// # Ok::<(), covalent_verbs::Error>(())
/// ```
#[derive(Debug)]
pub struct RxPipe<'d> {
    device: &'d Device,
    id: u32,
    page_bytes: u64,
    ring: app::RxPipe,
    /// The device's life that the ring is of.
    life: u32,
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
            life: device.life(),
        })
    }

    /// Takes over the memory that the pipe had next when the daemon came back. Called when nothing is left in the one that it has.
    fn follow(&mut self) -> Result<()> {
        let (life, opened) = self.device.take_again(self.id)?;
        let held = self.ring.held().count() as u64;
        self.device
            .count_carried(|carried| carried.frames_lost += held);
        self.ring = app::RxPipe::new(opened.memory).map_err(foreign)?;
        self.page_bytes = opened.page_bytes;
        self.life = life;
        Ok(())
    }

    /// Whether packets lie there, in whichever life they came.
    fn finds_packets(&mut self) -> Result<bool> {
        self.device.check_own()?;
        while !has_packets(&mut self.ring)? {
            if self.life == self.device.life() {
                return Ok(false);
            }
            self.follow()?;
        }
        Ok(true)
    }

    /// Whether packets lie there; looks after the daemon if not.
    fn has_packets(&mut self) -> Result<bool> {
        if self.finds_packets()? {
            return Ok(true);
        }
        self.device.look_alive()?;
        if self.life == self.device.life() {
            return Ok(false);
        }
        self.finds_packets()
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

    /// Asks for the frames that `matches` describes. Several bindings add up, at most 4096 in a session. Blocks for the daemon's
    /// answer.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) when another pipe has the same match on the same port, or the configuration gives it to the kernel.
    pub fn bind(&mut self, matches: &Match) -> Result<()> {
        self.device.bind(self.id, matches, None)
    }

    /// Asks for a share of the frames that `matches` describes, beside every other pipe that is bound to the same match with the same
    /// `spread`: a set of pipes. With [`Match::Any`] it is a fallback set, which gets what nothing else matches.
    ///
    /// The pipes may belong to several devices, in several threads or applications of one user, on the lane of the port. Pipes
    /// may come and go while packets flow: when one is unbound, dropped or its application ends, the others take its share.
    /// Under [`Spread::Hash`] only its own flows move then, and when one joins only the flows that it takes over. What lies in a
    /// pipe already stays there, so around such a moment two pipes may hold packets of one flow. A pipe that is full
    /// drops its share; it does not spill into the others.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) when a pipe has the match alone, when its set has another spread or belongs to another user or
    /// has 256 pipes, when this pipe is in it already, or when the configuration gives the match away.
    pub fn bind_spread(&mut self, matches: &Match, spread: Spread) -> Result<()> {
        self.device.bind(self.id, matches, Some(spread))
    }

    /// Takes back a binding. Frames that lie in the pipe stay there.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) when there is no such binding.
    pub fn unbind(&mut self, matches: &Match) -> Result<()> {
        self.device.unbind(self.id, matches)
    }

    /// Has a record of each frame that the lane receives or sends on the pipe's port put into it from now on, with up to `snap_bytes` (14 to 65535)
    /// bytes of the frame: [`TapHead::split`](covalent_api::tap::TapHead::split) reads one. The pipe must have been opened
    /// [on a port](Device::rx_pipe_on). Ends with the pipe. Blocks for the daemon's answer.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) unless this process is root's or the daemon's user's, when the pipe names no port, and when the port is
    /// captured already.
    pub fn tap(&mut self, frames: TapFrames, snap_bytes: u32) -> Result<()> {
        self.device.tap(self.id, frames, snap_bytes)
    }

    /// Every packet that lies in the pipe; `None` when there is none. Does not block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone) when there is no packet and will be none.
    pub fn recv(&mut self) -> Result<Option<RxBatch<'_>>> {
        if !self.has_packets()? {
            return Ok(None);
        }
        Ok(self.batch())
    }

    /// As [`RxPipe::recv`], but dropping the batch frees nothing: its packets are received again.
    ///
    /// # Errors
    /// As [`RxPipe::recv`].
    pub fn peek(&mut self) -> Result<Option<RxBatch<'_>>> {
        if !self.has_packets()? {
            return Ok(None);
        }
        Ok(self.ring.peek().map(|packets| RxBatch {
            device: self.device,
            id: self.id,
            life: self.life,
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

    /// Asks for the pipe's next notification now, while other pipes are worked on, so that [`Device::next_rx_pipe`] finds it sooner. Freeing and
    /// receiving need no such call, and nothing is lost without it. Does not block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone) if the lane sleeps and cannot be woken.
    pub fn prefetch(&mut self) -> Result<()> {
        self.device.ring(self.id)
    }

    /// What the pipe did so far, without asking the daemon: each number is as recent as the lane's last round (its pass over all
    /// that it owns) in which it served this pipe.
    #[must_use]
    pub fn counters(&self) -> PipeCounters {
        self.ring.counters()
    }

    /// Sets how the pipe's packets are treated: where the lane writes the time of their arrival. Packets that lie in the pipe stay as they
    /// are. Blocks for the daemon's answer.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if no packet is long enough for the stamp, or for a rate limit.
    pub fn tune(&mut self, tuning: &PipeTuning) -> Result<()> {
        self.device.tune(self.id, *tuning)
    }

    /// Waits for packets. They are never none.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone).
    pub fn recv_blocking(&mut self) -> Result<RxBatch<'_>> {
        self.recv_until(None)
    }

    /// Waits for packets until `deadline`. They are never none.
    ///
    /// # Errors
    /// [`Error::Deadline`](crate::Error::Deadline), [`Error::DaemonGone`](crate::Error::DaemonGone).
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<RxBatch<'_>> {
        self.recv_until(Some(deadline))
    }

    fn recv_until(&mut self, deadline: Option<Instant>) -> Result<RxBatch<'_>> {
        while let Err(error) = self.wait_until(deadline) {
            self.device.survive(error)?;
        }
        // Packets do not leave a pipe on their own: those just seen are there.
        Ok(RxBatch {
            device: self.device,
            id: self.id,
            life: self.life,
            packets: self.ring.recv(),
            keep: false,
        })
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Result<()> {
        if self.finds_packets()? {
            return Ok(());
        }
        let Self {
            device, id, ring, ..
        } = self;
        device.wait("a packet arrived", deadline, |stage| {
            let has_packets = has_packets(ring)?;
            if !has_packets && stage == Stage::BeforeSleep && ring.wait_for_more() {
                device.ring(*id)?;
            }
            Ok(has_packets)
        })
    }

    fn batch(&mut self) -> Option<RxBatch<'_>> {
        let packets = self.ring.recv()?;
        Some(RxBatch {
            device: self.device,
            id: self.id,
            life: self.life,
            packets: Some(packets),
            keep: false,
        })
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

/// Packets that lie in an [`RxPipe`]. Dropping it frees all of them, unless they were [peeked](RxPipe::peek) at.
///
/// The pipe is borrowed, so a freed byte cannot be read:
/// ```compile_fail,E0505
/// # fn main() -> Result<(), covalent_verbs::Error> {
/// # let device = covalent_verbs::Device::attach("/run/covalent/covalentd.sock", "example")?;
/// # let mut pipe = device.rx_pipe(2 << 20)?;
/// let batch = pipe.recv_blocking()?;
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
    /// The device's life that the packets are of.
    life: u32,
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

    /// All bytes of the batch at once: packets begin at multiples of 64, with unspecified bytes between.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.packets.as_ref().map_or(&[], app::RxBatch::bytes)
    }

    /// Frees all packets: `clear` in Ensō's vocabulary.
    pub fn free_all(mut self) {
        self.free_with(Rest::None, app::RxBatch::free_all);
    }

    /// Frees the first `packets` packets. The others are received again.
    pub fn free(mut self, packets: usize) {
        self.free_with(Rest::News, |batch| batch.free(packets));
    }

    /// Frees the packets before `position`; the others are received again. [`RxBatch::free`] finds that place by walking over the packets once
    /// more: prefer this one where a loop has walked over them already and stopped before the end.
    ///
    /// The position is one that [`Packets::position`] gave in this batch or in an earlier one of the same pipe: where that lies before this batch nothing is
    /// freed. Of another pipe it may lie in the midst of a packet, and what is received next is no packet then.
    #[inline]
    pub fn free_to(mut self, position: Position) {
        if let Some(position) = position.0 {
            self.free_with(Rest::News, |batch| batch.free_to(position));
        } else {
            self.free_with(Rest::Seen, app::RxBatch::keep);
        }
    }

    /// Takes the first `packets` packets as received without freeing them: they move to [`RxPipe::held`], and the others are received
    /// again. Freeing goes by age: a later batch that frees packets frees those held before it too.
    pub fn confirm(mut self, packets: usize) {
        self.free_with(Rest::News, |batch| batch.confirm(packets));
    }

    /// Frees nothing: all packets are received again. They are no news any more: [`Device::next_rx_pipe`] names this pipe when more arrives. What a daemon before left is never joined by
    /// more: take all of it to get to what the next one brings.
    pub fn keep(mut self) {
        self.free_with(Rest::Seen, app::RxBatch::keep);
    }

    fn free_with(&mut self, rest: Rest, free: impl FnOnce(app::RxBatch<'p>) -> bool) {
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
        if rest != Rest::Seen {
            let rest = rest == Rest::News;
            self.device.gave_back(self.id, self.life, rest);
        }
    }
}

/// What is left of a batch when it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
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
            self.free_with(Rest::Seen, app::RxBatch::keep);
        } else {
            self.free_with(Rest::None, app::RxBatch::free_all);
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

/// A place between two packets of a pipe, behind those that were walked over. It borrows nothing and may outlive its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position(pub(crate) Option<app::Position>);

impl Packets<'_> {
    /// The place behind the packets that were given so far, for [`RxBatch::free_to`].
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), covalent_verbs::Error> {
    /// # let device = covalent_verbs::Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// # let mut pipe = device.rx_pipe(2 << 20)?;
    /// let batch = pipe.recv_blocking()?;
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
