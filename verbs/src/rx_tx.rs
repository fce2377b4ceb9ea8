//! Receiving, and sending back from where the packets lie.

use std::{
    ops::{Deref, DerefMut},
    time::Instant,
};

use covalent_api::{
    request::PipeKind,
    rule::{Match, Spread},
    tuning::PipeTuning,
};
use covalent_pipe::{app, nic::NicCounters as PipeCounters};

use crate::{
    device::{Device, PipeId, Stage, broken, foreign},
    error::Result,
    rx::Position,
};

/// A pipe that receives packets from a port and sends them back on it after the application has changed them where they lie.
///
/// Every call here, and on its batches, is for its device's thread alone. Bytes are as they were on the wire (network byte order), and leave as they
/// lie. A packet's room is free again when the lane has copied it to the port, so a slow port fills the pipe, and what then arrives is dropped and
/// counted (`counters().full`). Dropping the pipe gives it back to the daemon; what was not on the wire by then may not
/// get there.
///
/// Of what [`RxPipe`](crate::RxPipe) has, it needs no `peek`: [`RxTxPipe::recv`] takes nothing until packets are sent or discarded. It has no `confirm` and `held`:
/// packets go back in the order in which they came, so one that is held holds up all behind it.
///
/// # Examples
/// ```no_run
/// use covalent_verbs::{Device, Match};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut pipe = device.rx_tx_pipe(2 << 20, "p0")?;
/// pipe.bind(&Match::Any)?;
/// loop {
///     let mut batch = pipe.recv_blocking()?;
///     while let Some(mut packet) = batch.next_packet() {
///         if packet.len() >= 12 {
///             packet[..12].rotate_left(6); // back to whoever sent it
///         }
///     }
///     batch.send_all()?;
/// }
/// # Ok::<(), covalent_verbs::Error>(())
/// ```
#[derive(Debug)]
pub struct RxTxPipe<'d> {
    device: &'d Device,
    id: u32,
    page_bytes: u64,
    ring: app::RxTxPipe,
    /// The device's life that the ring is of.
    life: u32,
}

impl<'d> RxTxPipe<'d> {
    pub(crate) fn open(device: &'d Device, capacity_bytes: u64, port: &str) -> Result<Self> {
        let opened = device.open_pipe(PipeKind::RxTx, capacity_bytes, Some(port))?;
        let ring = app::RxTxPipe::new(opened.memory).map_err(foreign)?;
        Ok(Self {
            device,
            id: opened.id,
            page_bytes: opened.page_bytes,
            ring,
            life: device.life(),
        })
    }

    /// Takes over the memory that the pipe had next when the daemon came back. Called when nothing is left to be received in the one that it has. What was to be sent back there
    /// nobody sends: it would have to lie in the next one, where others have arrived by now.
    fn follow(&mut self) -> Result<()> {
        let (life, opened) = self.device.take_again(self.id)?;
        let unsent = self.ring.unsent() as u64;
        self.device
            .count_carried(|carried| carried.frames_lost += unsent);
        self.ring = app::RxTxPipe::new(opened.memory).map_err(foreign)?;
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

    /// Asks for the frames that `matches` describes, as far as they arrive on the pipe's port. Several bindings add up.
    ///
    /// # Errors
    /// As [`RxPipe::bind`](crate::RxPipe::bind).
    pub fn bind(&mut self, matches: &Match) -> Result<()> {
        self.device.bind(self.id, matches, None)
    }

    /// Asks for a share of the frames that `matches` describes, as far as they arrive on the pipe's port: as
    /// [`RxPipe::bind_spread`](crate::RxPipe::bind_spread).
    ///
    /// # Errors
    /// As [`RxPipe::bind_spread`](crate::RxPipe::bind_spread).
    pub fn bind_spread(&mut self, matches: &Match, spread: Spread) -> Result<()> {
        self.device.bind(self.id, matches, Some(spread))
    }

    /// Takes back a binding. Frames that lie in the pipe stay there.
    ///
    /// # Errors
    /// As [`RxPipe::unbind`](crate::RxPipe::unbind).
    pub fn unbind(&mut self, matches: &Match) -> Result<()> {
        self.device.unbind(self.id, matches)
    }

    /// What the pipe did so far, without asking the daemon: each number is as recent as the lane's last round
    /// (its pass over all that it owns) in which it served this pipe.
    #[must_use]
    pub fn counters(&self) -> PipeCounters {
        self.ring.counters()
    }

    /// Sets how the pipe's packets are treated: how fast they are sent back, and where the lane writes the time of their arrival.
    /// Blocks for the daemon's answer.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if a number is out of range, or no packet is long enough for the stamp.
    pub fn tune(&mut self, tuning: &PipeTuning) -> Result<()> {
        self.device.tune(self.id, *tuning)
    }

    /// Asks for the pipe's next notification now, while other pipes are worked on, so that [`Device::next_rx_pipe`] finds it sooner: as
    /// [`RxPipe::prefetch`](crate::RxPipe::prefetch). Sending and receiving need no such call, and nothing is lost without it. Does not block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone) if the lane sleeps and cannot be woken.
    pub fn prefetch(&mut self) -> Result<()> {
        self.device.ring(self.id)
    }

    /// Every packet that arrived and was neither sent nor discarded, to look at, change, send or leave there; `None` when there is none. Does not block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone) when there is no packet and will be none.
    pub fn recv(&mut self) -> Result<Option<RxTxBatch<'_>>> {
        if !self.finds_packets()? {
            self.device.look_alive()?;
            if self.life == self.device.life() || !self.finds_packets()? {
                return Ok(None);
            }
        }
        Ok(Some(self.batch()))
    }

    /// Waits for packets. They are never none.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone).
    pub fn recv_blocking(&mut self) -> Result<RxTxBatch<'_>> {
        self.recv_until(None)
    }

    /// Waits for packets until `deadline`. They are never none.
    ///
    /// # Errors
    /// [`Error::Deadline`](crate::Error::Deadline), [`Error::DaemonGone`](crate::Error::DaemonGone).
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<RxTxBatch<'_>> {
        self.recv_until(Some(deadline))
    }

    fn recv_until(&mut self, deadline: Option<Instant>) -> Result<RxTxBatch<'_>> {
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
        device.wait("a packet arrived", deadline, |stage| {
            let has_packets = has_packets(ring)?;
            if !has_packets && stage == Stage::BeforeSleep && ring.wait_for_more() {
                device.ring(*id)?;
            }
            Ok(has_packets)
        })
    }

    fn batch(&mut self) -> RxTxBatch<'_> {
        // Packets do not leave a pipe on their own: those just seen are there.
        RxTxBatch {
            device: self.device,
            id: self.id,
            life: self.life,
            packets: self.ring.recv_mut(),
        }
    }
}

impl Drop for RxTxPipe<'_> {
    fn drop(&mut self) {
        self.device.close_pipe(self.id);
    }
}

fn has_packets(ring: &mut app::RxTxPipe) -> Result<bool> {
    if ring.recv_mut().is_some() {
        return Ok(true);
    }
    ring.violation()
        .map_or(Ok(false), |violation| Err(broken(violation)))
}

/// Packets that lie in an [`RxTxPipe`]. The pipe is borrowed, so a byte that was given back cannot be touched.
///
/// Dropping it sends nothing: the packets are received again.
#[derive(Debug)]
pub struct RxTxBatch<'p> {
    device: &'p Device,
    id: u32,
    /// The device's life that the packets are of.
    life: u32,
    packets: Option<app::RxTxBatch<'p>>,
}

impl<'p> RxTxBatch<'p> {
    /// The next packet, oldest first, to be read and changed in place; `None` after the last.
    pub fn next_packet(&mut self) -> Option<PacketMut<'_>> {
        self.packets.as_mut()?.next_packet().map(PacketMut)
    }

    /// Sends back every packet of the batch that was not discarded, looked at or not. Does not block.
    ///
    /// # Errors
    /// [`Error::Unintelligible`](crate::Error::Unintelligible), [`Error::System`](crate::Error::System).
    pub fn send_all(mut self) -> Result<()> {
        self.give(app::RxTxBatch::send_all)
    }

    /// Sends back every packet that [`RxTxBatch::next_packet`] gave and that was not discarded. The others are received again. Does not block.
    ///
    /// [`RxTxBatch::send`] finds the place by walking over the packets once more: prefer this one in a loop that stops before the end.
    ///
    /// # Errors
    /// As [`RxTxBatch::send_all`].
    #[inline]
    pub fn send_taken(mut self) -> Result<()> {
        self.give(app::RxTxBatch::send_taken)
    }

    /// The place behind the packets that [`RxTxBatch::next_packet`] gave so far, for [`RxTxBatch::send_before`] of a later batch.
    #[must_use]
    #[inline]
    pub fn position(&self) -> Position {
        Position(self.packets.as_ref().map(app::RxTxBatch::position))
    }

    /// Sends back every packet before `position` that was not discarded. The others are received again. Does not block.
    ///
    /// For a program that lets go of the batch between changing its packets and sending them; else [`RxTxBatch::send_taken`] does the same. The position is
    /// one that a batch of the same pipe gave: what went back since is not sent again. Of another pipe it may lie in the midst of a packet, and the daemon
    /// detaches who gives that back.
    ///
    /// # Errors
    /// As [`RxTxBatch::send_all`].
    #[inline]
    pub fn send_before(mut self, position: Position) -> Result<()> {
        match position.0 {
            Some(position) => self.give(|batch| batch.send_before(position)),
            None => Ok(()),
        }
    }

    /// Sends back the first `packets` packets that were not discarded. The others are received again.
    ///
    /// # Errors
    /// As [`RxTxBatch::send_all`].
    pub fn send(mut self, packets: usize) -> Result<()> {
        self.give(|batch| batch.send(packets))
    }

    /// Gives back the first `packets` packets without sending them. The others are received again. Of `usize::MAX` it gives back all of the batch:
    /// `clear` in Ensō's vocabulary.
    ///
    /// # Errors
    /// As [`RxTxBatch::send_all`].
    pub fn discard(mut self, packets: usize) -> Result<()> {
        self.give(|batch| batch.discard(packets))
    }

    fn give(&mut self, give: impl FnOnce(app::RxTxBatch<'p>) -> bool) -> Result<()> {
        self.device.check_own()?;
        let Some(batch) = self.packets.take() else {
            return Ok(());
        };
        let gave = give(batch);
        // Packets may be left, and they are news.
        self.device.gave_back(self.id, self.life, true);
        if gave {
            self.device.ring(self.id)
        } else {
            Ok(())
        }
    }
}

/// One packet of an [`RxTxBatch`]: its bytes can be changed, its length cannot.
///
/// The batch is borrowed, so a packet that was sent back cannot be touched:
/// ```compile_fail,E0505
/// # fn main() -> Result<(), covalent_verbs::Error> {
/// # let device = covalent_verbs::Device::attach("/run/covalent/covalentd.sock", "example")?;
/// # let mut pipe = device.rx_tx_pipe(2 << 20, "p0")?;
/// let mut batch = pipe.recv_blocking()?;
/// let mut packet = batch.next_packet().expect("it has a packet");
/// batch.send_all()?;
/// packet[0] = 0; // does not compile
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PacketMut<'b>(app::PacketMut<'b>);

impl PacketMut<'_> {
    /// The packet is given back with its batch, but not sent.
    pub fn discard(self) {
        self.0.discard();
    }
}

impl Deref for PacketMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for PacketMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
