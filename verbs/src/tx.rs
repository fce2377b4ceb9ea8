//! Sending.

use std::{
    ops::{Deref, DerefMut},
    time::Instant,
};

use covalent_api::{request::PipeKind, tuning::PipeTuning};
use covalent_pipe::{app, nic::PipeCounters};

use crate::{
    device::Device,
    error::{Error, Result, broken, foreign},
    link_frames::LinkFrames,
    pipe_id::PipeId,
    timeout::{Timeout, deadline, of_pipe},
};

/// Shortest frame that is sent, in bytes: an Ethernet header.
pub const FRAME_BYTES_MIN: usize = 14;

/// A pipe that sends packets on a port: whole Ethernet frames without FCS, in network byte order,
/// exactly as given.
///
/// Use it only on its device's thread. Packets are sent in the order in which they were put in. If
/// the port is slow, the pipe fills, and sending is refused with [`Error::PipeFull`], or waits in
/// the calls that wait. Nothing is queued elsewhere. Dropping the pipe returns it to the daemon.
/// Packets that are not on the wire by then may be lost.
///
/// # Examples
/// ```no_run
/// use covalent::Device;
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut pipe = device.tx_pipe(1 << 20, "p0")?;
/// let frame = [0x5a; 64];
/// for _ in 0..32 {
///     pipe.push(&frame)?; // copied into the pipe
/// }
/// pipe.publish()?; // one doorbell for all of them
/// # Ok::<(), covalent::Error>(())
/// ```
#[derive(Debug)]
pub struct TxPipe<'d> {
    device: &'d Device,
    id: u32,
    /// The port's name, for errors.
    port: Box<str>,
    page_bytes: u64,
    ring: app::TxPipe,
    /// Frames that the port keeps for its link.
    link_frames: LinkFrames,
    /// The daemon incarnation that the ring belongs to.
    generation: u32,
}

impl<'d> TxPipe<'d> {
    pub(crate) fn open(device: &'d Device, capacity_bytes: u64, port: &str) -> Result<Self> {
        let opened = device.open_pipe(PipeKind::Tx, capacity_bytes, Some(port))?;
        let mut ring = app::TxPipe::new(opened.memory).map_err(foreign)?;
        ring.set_frame_bytes_max(opened.frame_bytes_max as usize);
        Ok(Self {
            device,
            id: opened.id,
            port: port.into(),
            page_bytes: opened.page_bytes,
            ring,
            link_frames: LinkFrames::new(opened.link_ethertype),
            generation: device.generation(),
        })
    }

    /// Takes over the pipe's memory after the daemon came back, with the packets that the old
    /// daemon had not taken.
    fn follow(&mut self) -> Result<()> {
        while self.generation != self.device.generation() {
            self.take_over()?;
            if self.ring.publish()
                && let Err(error) = self.device.ring(self.id)
            {
                // The daemon is gone once more. Packets that were put in are still there.
                self.device.survive(error)?;
            }
        }
        Ok(())
    }

    fn take_over(&mut self) -> Result<()> {
        let (generation, opened) = self.device.take_next_memory(self.id)?;
        let mut ring = app::TxPipe::new(opened.memory).map_err(foreign)?;
        ring.set_frame_bytes_max(opened.frame_bytes_max as usize);
        let link_frames = LinkFrames::new(opened.link_ethertype);
        let mut frames = 0;
        for frame in self.ring.unsent() {
            // The rings are of one size. A port may take shorter frames than before, and links may
            // have another EtherType.
            if link_frames.find(frame).is_none() && ring.send(frame).is_ok() {
                frames += 1;
            } else {
                self.device
                    .count_carried(|carried| carried.frames_lost += 1);
            }
        }
        self.device
            .count_carried(|carried| carried.frames += frames);
        self.ring = ring;
        self.link_frames = link_frames;
        self.page_bytes = opened.page_bytes;
        self.generation = generation;
        Ok(())
    }

    /// Handles the `error` of a call: continues if the daemon is back.
    #[cold]
    fn survive(&mut self, error: Error) -> Result<()> {
        self.device.survive(error)?;
        self.follow()
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

    /// Longest frame that the port carries, in bytes.
    #[must_use]
    pub const fn frame_bytes_max(&self) -> usize {
        self.ring.frame_bytes_max()
    }

    /// Bytes in the pipe that the lane has not sent yet, each packet rounded up to 64.
    #[must_use]
    pub fn in_flight_bytes(&mut self) -> u64 {
        self.ring.in_flight_bytes()
    }

    /// Returns the pipe's counters without a request to the daemon. Each number is as recent as the
    /// lane's last round (its pass over all that it owns) that served this pipe.
    #[must_use]
    pub fn counters(&self) -> PipeCounters {
        self.ring.counters()
    }

    /// Sets how fast the pipe's packets are sent, and where the lane writes the time of sending.
    /// Applies to packets already in the pipe too. Blocks for the daemon's reply.
    ///
    /// # Errors
    /// [`Error::Refused`] if a number is out of range, or if no packet is
    /// long enough for the stamp.
    pub fn tune(&mut self, tuning: &PipeTuning) -> Result<()> {
        self.device.tune(self.id, *tuning)
    }

    /// Copies a packet into the pipe. The lane sees it after [`TxPipe::publish`]: push a burst,
    /// then publish once. Does not block.
    ///
    /// # Errors
    /// - [`Error::PipeFull`] if there is no room now.
    /// - [`Error::FrameTooLong`] if the packet is longer than the port carries,
    ///   [`Error::FrameTooShort`] if it is shorter than [`FRAME_BYTES_MIN`].
    /// - [`Error::LinkEtherType`] if the port has a link and the packet has the EtherType of links,
    ///   also behind one or two VLAN tags.
    /// - [`Error::DaemonGone`] if the pipe is full and will stay full.
    #[inline]
    pub fn push(&mut self, packet: &[u8]) -> Result<()> {
        self.check_min(packet.len())?;
        if let Some(ethertype) = self.link_frames.find(packet) {
            self.ring.count_link_type();
            return Err(of_links(self.id, ethertype));
        }
        match self.ring.send(packet) {
            Ok(()) => Ok(()),
            Err(refusal) => Err(self.refused(refusal, packet.len())),
        }
    }

    /// Reserves room in the pipe for a packet of `len_bytes`. The application writes the packet in
    /// place, without a copy. The lane copies it to the port. Nothing is sent before
    /// [`TxReservation::commit`] and then [`TxPipe::publish`]. Does not block. The initial contents
    /// of the room are unspecified.
    ///
    /// # Errors
    /// As [`TxPipe::push`]. The EtherType is checked by [`TxReservation::commit`].
    pub fn reserve(&mut self, len_bytes: usize) -> Result<TxReservation<'_>> {
        self.check_min(len_bytes)?;
        if let Err(refusal) = self.ring.admit(len_bytes) {
            return Err(self.refused(refusal, len_bytes));
        }
        match self.ring.reserve(len_bytes) {
            Ok(packet) => Ok(TxReservation {
                packet,
                pipe: self.id,
                link_frames: self.link_frames,
            }),
            Err(refusal) => Err(refusal_of(self.id, refusal, len_bytes)),
        }
    }

    /// Publishes all pushed packets to the lane, which sends them. Does not block.
    ///
    /// # Errors
    /// [`Error::DaemonGone`],
    /// [`Error::Unintelligible`].
    pub fn publish(&mut self) -> Result<()> {
        self.device.check_process()?;
        let shown = if self.ring.publish() {
            self.device.ring(self.id)
        } else {
            Ok(())
        };
        // Check here: an application that only sends would otherwise detect a lost daemon only when
        // the pipe is full.
        match shown.and_then(|()| self.device.check_connection_if_due()) {
            Ok(()) if self.device.reconnects() => self.follow(),
            Ok(()) => Ok(()),
            Err(error) => self.survive(error),
        }
    }

    /// Sends one packet: [`TxPipe::push`], then [`TxPipe::publish`]. Does not block.
    ///
    /// # Errors
    /// As those two.
    pub fn try_send(&mut self, packet: &[u8]) -> Result<()> {
        self.push(packet)?;
        self.publish()
    }

    /// Sends one packet, waiting for room if necessary.
    ///
    /// # Errors
    /// [`Error::FrameTooLong`], [`Error::FrameTooShort`] or [`Error::LinkEtherType`] if the packet
    /// can never be sent. [`Error::Deadline`] after `timeout`: the packet was not sent.
    /// [`Error::DaemonGone`].
    pub fn send(&mut self, packet: &[u8], timeout: impl Into<Timeout>) -> Result<()> {
        self.send_until(packet, deadline(timeout))
    }

    fn send_until(&mut self, packet: &[u8], deadline: Option<Instant>) -> Result<()> {
        match self.push(packet) {
            Ok(()) => return self.publish(),
            Err(Error::PipeFull { .. }) => {}
            Err(error) => return Err(error),
        }
        self.wait_for_room(packet.len() as u64, deadline)?;
        self.push(packet)?;
        self.publish()
    }

    /// Waits until everything pushed is with the port: the pipe is empty.
    ///
    /// The device of the port may still lose frames that it accepted, as with any Ethernet sender:
    /// for example when its cable is cut (`tx_dropped_by_device` of the port).
    ///
    /// # Errors
    /// [`Error::Deadline`] after `timeout`, [`Error::DaemonGone`].
    pub fn flush(&mut self, timeout: impl Into<Timeout>) -> Result<()> {
        self.wait_for_room(u64::MAX, deadline(timeout))
    }

    /// Whether everything pushed is with the port: the pipe is empty. Publishes everything pushed.
    /// Does not block. After [`Device::arm`] and in [`Device::until`], `false` also requests the
    /// wake-up.
    ///
    /// # Errors
    /// As [`TxPipe::publish`].
    pub fn try_flush(&mut self) -> Result<bool> {
        self.has_room(u64::MAX)
    }

    /// Waits until `bytes` fit, or until the pipe is empty if it cannot hold so many.
    fn wait_for_room(&mut self, bytes: u64, deadline: Option<Instant>) -> Result<()> {
        // Unpublished packets are never sent, so they would never make room.
        self.publish()?;
        while let Err(error) = wait_for_room(self.device, &mut self.ring, bytes, deadline) {
            let what = if bytes == u64::MAX {
                "was empty"
            } else {
                "had room"
            };
            self.survive(of_pipe(error, self.id, &self.port, what))?;
        }
        Ok(())
    }

    #[inline]
    fn check_min(&mut self, len_bytes: usize) -> Result<()> {
        self.device.check_process()?;
        if len_bytes < FRAME_BYTES_MIN {
            self.ring.count_too_short();
            return Err(too_short(self.id, len_bytes));
        }
        Ok(())
    }

    fn refused(&mut self, refusal: app::SendRefusal, len_bytes: usize) -> Error {
        if let Some(violation) = self.ring.violation() {
            return broken(violation);
        }
        // A pipe that stays full may have no daemon at its other end.
        if refusal == app::SendRefusal::Full
            && let Err(gone) = self
                .device
                .check_or_reconnect()
                .and_then(|()| self.follow())
        {
            return gone;
        }
        if matches!(refusal, app::SendRefusal::Full)
            && self.device.is_armed()
            && let Err(error) = self.request_room(len_bytes as u64)
        {
            return error;
        }
        refusal_of(self.id, refusal, len_bytes)
    }

    /// Whether `bytes` fit, or whether the pipe is empty if it cannot hold so many. If not,
    /// requests the wake-up. Publishes everything pushed.
    pub(crate) fn has_room(&mut self, bytes: u64) -> Result<bool> {
        self.publish()?;
        if let Some(violation) = self.ring.violation() {
            return Err(broken(violation));
        }
        let fits = bytes.min(self.ring.capacity_bytes() - 64);
        if self.ring.free_bytes() >= fits {
            return Ok(true);
        }
        self.device.check_or_reconnect()?;
        self.follow()?;
        Ok(if self.device.is_armed() {
            !self.ring.want_space(fits)
        } else {
            self.ring.free_bytes() >= fits
        })
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn device(&self) -> &'d Device {
        self.device
    }

    /// Requests a wake-up for the time when `bytes` fit.
    fn request_room(&mut self, bytes: u64) -> Result<()> {
        // Unpublished packets are never sent, so they would never make room.
        self.publish()?;
        let fits = bytes.min(self.ring.capacity_bytes() - 64);
        if self.ring.want_space(fits) {
            Ok(())
        } else {
            self.device.call()
        }
    }
}

impl Drop for TxPipe<'_> {
    fn drop(&mut self) {
        self.device.close_pipe(self.id);
    }
}

/// Waits until `bytes` fit into a pipe whose contents are published. If the pipe can never hold so
/// many, waits until it is empty.
pub(crate) fn wait_for_room(
    device: &Device,
    ring: &mut app::TxPipe,
    bytes: u64,
    deadline: Option<Instant>,
) -> Result<()> {
    device.wait("the pipe had room", deadline, || {
        if let Some(violation) = ring.violation() {
            return Err(broken(violation));
        }
        let fits = bytes.min(ring.capacity_bytes() - 64);
        Ok(if device.is_armed() {
            !ring.want_space(fits)
        } else {
            ring.free_bytes() >= fits
        })
    })
}

#[cold]
fn of_links(pipe: u32, ethertype: u16) -> Error {
    Error::LinkEtherType {
        what: "frame not sent",
        pipe: PipeId(pipe),
        ethertype,
    }
}

fn refusal_of(pipe: u32, refusal: app::SendRefusal, len_bytes: usize) -> Error {
    match refusal {
        app::SendRefusal::Full => Error::PipeFull { pipe: PipeId(pipe) },
        app::SendRefusal::Empty => too_short(pipe, len_bytes),
        app::SendRefusal::TooLong { len, max } => Error::FrameTooLong {
            pipe: PipeId(pipe),
            len_bytes: len,
            max_bytes: max,
        },
    }
}

const fn too_short(pipe: u32, len_bytes: usize) -> Error {
    Error::FrameTooShort {
        pipe: PipeId(pipe),
        len_bytes,
        min_bytes: FRAME_BYTES_MIN,
    }
}

/// Room for one packet in a [`TxPipe`]. Dropping it without [`TxReservation::commit`] sends
/// nothing.
///
/// Committing consumes it, so a packet that may be in flight cannot be accessed:
/// ```compile_fail,E0382
/// # fn main() -> Result<(), covalent::Error> {
/// # let device = covalent::Device::attach("/run/covalent/covalentd.sock", "example")?;
/// # let mut pipe = device.tx_pipe(1 << 20, "p0")?;
/// let mut packet = pipe.reserve(64)?;
/// packet.commit()?;
/// packet[0] = 0; // does not compile
/// # Ok(())
/// # }
/// ```
/// The reservation also borrows the pipe, so nothing is published while the application writes a
/// packet:
/// ```compile_fail,E0499
/// # fn main() -> Result<(), covalent::Error> {
/// # let device = covalent::Device::attach("/run/covalent/covalentd.sock", "example")?;
/// # let mut pipe = device.tx_pipe(1 << 20, "p0")?;
/// let mut packet = pipe.reserve(64)?;
/// pipe.publish()?;
/// packet[0] = 0; // does not compile
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TxReservation<'p> {
    packet: app::TxReservation<'p>,
    pipe: u32,
    link_frames: LinkFrames,
}

impl TxReservation<'_> {
    /// The packet is complete as it was written.
    ///
    /// # Errors
    /// [`Error::LinkEtherType`] as for [`TxPipe::push`]. The packet is
    /// not sent and takes no room.
    #[inline]
    pub fn commit(self) -> Result<()> {
        if let Some(ethertype) = self.link_frames.find(&self.packet) {
            self.packet.refuse_link_type();
            return Err(of_links(self.pipe, ethertype));
        }
        self.packet.commit();
        Ok(())
    }
}

impl Deref for TxReservation<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.packet
    }
}

impl DerefMut for TxReservation<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.packet
    }
}
