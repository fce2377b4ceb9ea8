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
use covalent_pipe::{app, nic::PipeCounters};

use crate::{
    device::Device,
    error::{Result, broken, foreign},
    pipe_id::PipeId,
    rx::Position,
    timeout::{Timeout, deadline, of_pipe},
};

/// A pipe that receives packets from a port. The application changes them in place, and the pipe
/// sends them back on the port.
///
/// Use the pipe and its batches only on its device's thread. Bytes are as they were on the wire
/// (network byte order), and are sent unchanged. A packet's room is free after the lane has copied
/// the packet to the port. A slow port therefore fills the pipe. The lane then drops arriving
/// packets and counts them (`counters().full`). Dropping the pipe returns it to the daemon. Packets
/// that are not with the port by then may be lost: [`RxTxPipe::flush`] waits for them.
///
/// Unlike [`RxPipe`](crate::RxPipe), it needs no `try_peek`: [`RxTxPipe::try_recv`] takes nothing
/// until packets are sent or discarded. It has no `confirm` and `held`: packets are sent back in
/// the order of arrival, so a held packet would block all packets behind it.
///
/// # Examples
/// ```no_run
/// use covalent::{Device, Match, Timeout};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut pipe = device.rx_tx_pipe(2 << 20, "p0")?;
/// pipe.bind(&Match::Any)?;
/// loop {
///     let mut batch = pipe.recv(Timeout::FOREVER)?;
///     while let Some(mut packet) = batch.next_packet() {
///         if packet.len() >= 12 {
///             packet[..12].rotate_left(6); // back to its sender
///         }
///     }
///     batch.send_all()?;
/// }
/// # Ok::<(), covalent::Error>(())
/// ```
#[derive(Debug)]
pub struct RxTxPipe<'d> {
    device: &'d Device,
    id: u32,
    /// The port's name, for errors.
    port: Box<str>,
    page_bytes: u64,
    ring: app::RxTxPipe,
    /// The daemon incarnation that the ring belongs to.
    generation: u32,
}

impl<'d> RxTxPipe<'d> {
    pub(crate) fn open(device: &'d Device, capacity_bytes: u64, port: &str) -> Result<Self> {
        let opened = device.open_pipe(PipeKind::RxTx, capacity_bytes, Some(port))?;
        let ring = app::RxTxPipe::new(opened.memory).map_err(foreign)?;
        Ok(Self {
            device,
            id: opened.id,
            port: port.into(),
            page_bytes: opened.page_bytes,
            ring,
            generation: device.generation(),
        })
    }

    /// Takes over the pipe's next memory after the daemon came back. Called if the current memory
    /// holds nothing more to receive. Unsent packets in it are lost: they would have to be in the
    /// next memory, where others have arrived.
    fn follow(&mut self) -> Result<()> {
        let (generation, opened) = self.device.take_next_memory(self.id)?;
        let unsent = self.ring.unsent() as u64;
        self.device
            .count_carried(|carried| carried.frames_lost += unsent);
        self.ring = app::RxTxPipe::new(opened.memory).map_err(foreign)?;
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

    /// Binds the pipe to the frames that `matches` describes and that arrive on the pipe's port.
    /// Several bindings add up.
    ///
    /// # Errors
    /// As [`RxPipe::bind`](crate::RxPipe::bind).
    pub fn bind(&mut self, matches: &Match) -> Result<()> {
        self.device.bind(self.id, matches, None)
    }

    /// Binds the pipe to a share of the frames that `matches` describes and that arrive on the
    /// pipe's port, as [`RxPipe::bind_spread`](crate::RxPipe::bind_spread).
    ///
    /// # Errors
    /// As [`RxPipe::bind_spread`](crate::RxPipe::bind_spread).
    pub fn bind_spread(&mut self, matches: &Match, spread: Spread) -> Result<()> {
        self.device.bind(self.id, matches, Some(spread))
    }

    /// Removes a binding. Frames already in the pipe stay there.
    ///
    /// # Errors
    /// As [`RxPipe::unbind`](crate::RxPipe::unbind).
    pub fn unbind(&mut self, matches: &Match) -> Result<()> {
        self.device.unbind(self.id, matches)
    }

    /// Returns the pipe's counters without a request to the daemon. Each number is as recent as the
    /// lane's last round (its pass over all that it owns) that served this pipe.
    #[must_use]
    pub fn counters(&self) -> PipeCounters {
        self.ring.counters()
    }

    /// Sets how fast the pipe's packets are sent back, and where the lane writes the time of their
    /// arrival. Blocks for the daemon's reply.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) if a number is out of range, or if no packet is
    /// long enough for the stamp.
    pub fn tune(&mut self, tuning: &PipeTuning) -> Result<()> {
        self.device.tune(self.id, *tuning)
    }

    /// Requests the pipe's next notification now, while the application works on other pipes, so
    /// that [`Device::next_rx_pipe`] finds it sooner, as
    /// [`RxPipe::prefetch`](crate::RxPipe::prefetch). Sending and receiving do not need this call,
    /// and nothing is lost without it. Does not block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone) if the lane sleeps and cannot be woken.
    pub fn prefetch(&mut self) -> Result<()> {
        self.device.ring(self.id)
    }

    /// Returns every packet that arrived and was neither sent nor discarded, to read, change, send
    /// or leave in place. `None` if there is none. Does not block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone) if there is no packet and none can arrive.
    pub fn try_recv(&mut self) -> Result<Option<RxTxBatch<'_>>> {
        if !self.has_packets()? {
            return Ok(None);
        }
        Ok(Some(self.batch()))
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

    #[cfg(feature = "tokio")]
    pub(crate) const fn device(&self) -> &'d Device {
        self.device
    }

    /// Waits for packets, then returns them as [`RxTxPipe::try_recv`] does. The batch is never
    /// empty.
    ///
    /// # Errors
    /// [`Error::Deadline`](crate::Error::Deadline) after `timeout`,
    /// [`Error::DaemonGone`](crate::Error::DaemonGone).
    pub fn recv(&mut self, timeout: impl Into<Timeout>) -> Result<RxTxBatch<'_>> {
        self.recv_until(deadline(timeout))
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
        device.wait("a packet arrived", deadline, || {
            let has_packets = has_packets(ring)?;
            if !has_packets && device.is_armed() && ring.wait_for_more() {
                device.ring(*id)?;
            }
            Ok(has_packets)
        })
    }

    /// Whether every packet that was sent back is with the port. Discarded packets count too, and
    /// packets that were neither sent back nor discarded do not. Does not block. After
    /// [`Device::arm`] and in [`Device::until`], `false` also requests the wake-up.
    ///
    /// # Errors
    /// As [`RxTxPipe::flush`], without [`Error::Deadline`](crate::Error::Deadline).
    ///
    /// # Examples
    /// ```no_run
    /// use covalent::{Device, Timeout};
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut pipe = device.rx_tx_pipe(2 << 20, "p0")?;
    /// pipe.recv(Timeout::FOREVER)?.send_all()?;
    /// if !pipe.try_flush()? {
    ///     println!("the port has not taken all frames yet");
    /// }
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn try_flush(&mut self) -> Result<bool> {
        self.device.check_process()?;
        if self.is_flushed()? {
            return Ok(true);
        }
        self.device.check_or_reconnect()?;
        if self.device.is_armed() && self.ring.want_taken() {
            self.device.ring(self.id)?;
        }
        self.is_flushed()
    }

    /// Waits until every packet that was sent back is with the port, as
    /// [`TxPipe::flush`](crate::TxPipe::flush). Discarded packets count too, and packets that were
    /// neither sent back nor discarded do not. [`Device::next_rx_pipe`] may then return the pipe
    /// although no packet arrived.
    ///
    /// The device of the port may still lose frames that it accepted, as with any Ethernet sender:
    /// for example when its cable is cut (`tx_dropped_by_device` of the port).
    ///
    /// If the device [reconnects](Device::set_reconnect), packets that the old daemon had not taken
    /// are lost ([`Carried::frames_lost`](crate::Carried::frames_lost)), and the call does not wait
    /// for them.
    ///
    /// # Errors
    /// [`Error::Deadline`](crate::Error::Deadline) after `timeout`,
    /// [`Error::DaemonGone`](crate::Error::DaemonGone).
    pub fn flush(&mut self, timeout: impl Into<Timeout>) -> Result<()> {
        let deadline = deadline(timeout);
        while let Err(error) = self.flush_until(deadline) {
            let error = of_pipe(error, self.id, &self.port, "had all frames taken");
            self.device.survive(error)?;
        }
        Ok(())
    }

    fn flush_until(&mut self, deadline: Option<Instant>) -> Result<()> {
        self.device.check_process()?;
        if self.is_flushed()? {
            return Ok(());
        }
        let Self {
            device, id, ring, ..
        } = self;
        device.wait("all packets sent back were taken", deadline, || {
            let all_taken = all_taken(ring)?;
            if !all_taken && device.is_armed() && ring.want_taken() {
                device.ring(*id)?;
            }
            Ok(all_taken)
        })
    }

    /// Nothing that the current daemon could take is left.
    fn is_flushed(&self) -> Result<bool> {
        Ok(self.generation != self.device.generation() || all_taken(&self.ring)?)
    }

    /// Returns the packets just found: packets do not leave a pipe on their own.
    pub(crate) fn batch(&mut self) -> RxTxBatch<'_> {
        RxTxBatch {
            device: self.device,
            id: self.id,
            generation: self.generation,
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

fn all_taken(ring: &app::RxTxPipe) -> Result<bool> {
    ring.violation()
        .map_or_else(|| Ok(ring.all_taken()), |violation| Err(broken(violation)))
}

/// Packets in an [`RxTxPipe`]. The batch borrows the pipe, so a byte that was given back cannot be
/// accessed.
///
/// Dropping the batch sends nothing: the packets are received again.
#[derive(Debug)]
pub struct RxTxBatch<'p> {
    device: &'p Device,
    id: u32,
    /// The daemon incarnation that the packets belong to.
    generation: u32,
    packets: Option<app::RxTxBatch<'p>>,
}

impl<'p> RxTxBatch<'p> {
    /// The next packet, oldest first, to be read and changed in place; `None` after the last.
    pub fn next_packet(&mut self) -> Option<PacketMut<'_>> {
        self.packets.as_mut()?.next_packet().map(PacketMut)
    }

    /// Sends back every packet of the batch that was not discarded, whether
    /// [`RxTxBatch::next_packet`] returned it or not. Does not block.
    ///
    /// # Errors
    /// [`Error::Unintelligible`](crate::Error::Unintelligible),
    /// [`Error::System`](crate::Error::System).
    pub fn send_all(mut self) -> Result<()> {
        self.give(app::RxTxBatch::send_all)
    }

    /// Sends back every packet that [`RxTxBatch::next_packet`] returned and that was not discarded.
    /// The others are received again. Does not block.
    ///
    /// Prefer it in a loop that stops before the end: [`RxTxBatch::send`] walks over the packets
    /// again to find the position.
    ///
    /// # Errors
    /// As [`RxTxBatch::send_all`].
    #[inline]
    pub fn send_taken(mut self) -> Result<()> {
        self.give(app::RxTxBatch::send_taken)
    }

    /// Returns the position after the packets that [`RxTxBatch::next_packet`] returned so far, for
    /// [`RxTxBatch::send_before`] of a later batch.
    #[must_use]
    #[inline]
    pub fn position(&self) -> Position {
        Position(self.packets.as_ref().map(app::RxTxBatch::position))
    }

    /// Sends back every packet before `position` that was not discarded. The others are received
    /// again. Does not block.
    ///
    /// For a program that drops the batch between changing its packets and sending them. Otherwise
    /// [`RxTxBatch::send_taken`] does the same. The position comes from a batch of the same pipe.
    /// Packets sent back since are not sent again. A position of another pipe may be inside a
    /// packet, and the daemon detaches an application that gives it back.
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

    /// Sends back the first `packets` packets that were not discarded. The others are received
    /// again.
    ///
    /// # Errors
    /// As [`RxTxBatch::send_all`].
    pub fn send(mut self, packets: usize) -> Result<()> {
        self.give(|batch| batch.send(packets))
    }

    /// Gives back the first `packets` packets without sending them. The others are received again.
    /// `usize::MAX` gives back the whole batch (`clear` in Ensō).
    ///
    /// # Errors
    /// As [`RxTxBatch::send_all`].
    pub fn discard(mut self, packets: usize) -> Result<()> {
        self.give(|batch| batch.discard(packets))
    }

    fn give(&mut self, give: impl FnOnce(app::RxTxBatch<'p>) -> bool) -> Result<()> {
        self.device.check_process()?;
        let Some(batch) = self.packets.take() else {
            return Ok(());
        };
        let gave = give(batch);
        // Packets may be left, and they are news.
        self.device.gave_back(self.id, self.generation, true);
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
/// # fn main() -> Result<(), covalent::Error> {
/// # let device = covalent::Device::attach("/run/covalent/covalentd.sock", "example")?;
/// # let mut pipe = device.rx_tx_pipe(2 << 20, "p0")?;
/// let mut batch = pipe.recv(Timeout::FOREVER)?;
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
