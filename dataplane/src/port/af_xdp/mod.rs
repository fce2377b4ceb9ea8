//! AF_XDP sockets on a network interface: the kernel's fast path to and from a driver's queues.
//!
//! ```text
//!   wire ─► driver queue q ─► XDP program ─┬─ the link's ─► link socket of queue q ─┬─► lane
//!                                          ├─ ours ───────► socket of queue q ──────┘
//!                                          ├─ others ─────► kernel's network stack
//!                                          └─ to drop ────► dropped
//!   lane ─► tx rings of queue 0 ─► driver ─► wire
//! ```
//! Each receive queue of a port with a link has two sockets (`queue.rs` explains why), else one.
//! The lane polls them all.
//!
//! ```text
//!   fill ring ──► kernel ──► rx rings: link, applications ──► burst ──┐
//!     ▲                                                               │
//!     └───────────────────────── release ─────────────────────────────┘
//! ```
//! A chunk to receive into is in exactly one of these places. It leaves the burst only in
//! [`Port::release`], when the lane has copied its frame.
//!
//! Frames are sent on queue 0 only, so they leave in order whatever the
//! number of queues: link frames and other frames each among themselves. The program and its maps
//! belong to this process: they vanish with it, however it ends.
//!
//! When the interface goes down, frames already in the transmit ring stay there and leave when it
//! is up again. When it is removed, the port returns [`PortError::Gone`], and nothing crashes.
//!
//! Source: the kernel's `Documentation/networking/af_xdp.rst`.

mod choices;
mod counts;
mod endpoint;
pub(super) mod interface;
mod open;
pub(super) mod preflight;
mod queue;
mod rules;
pub(super) mod umem;

use std::{cell::Cell, io, os::fd::RawFd};

use arrayvec::ArrayVec;
use covalent_api::agreement::PortFacts;
use covalent_config::auto::Wishes;
use covalent_ebpf::Steering;
use covalent_pipe::SharedBytes;
use xsk_rs::{
    FillQueue, RxQueue,
    umem::{Umem, frame::FrameDesc},
};

pub(super) use self::open::check_openable;
use self::{
    counts::{KernelCounts, KernelDrops, ReportedCounts},
    endpoint::Doorbell,
    queue::{Queue, TrafficClass},
};
use super::{
    BURST_FRAMES, Burst, Port, PortCounters, PortError, PortInfo, SteerChange, Tally, TxRefusal,
};

/// The configuration of an AF_XDP port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) port: &'a str,
    pub(super) interface: &'a str,
    pub(super) ring_slots: u32,
    pub(super) wishes: Wishes,
    /// Whether frames of the link's EtherType are for the dataplane.
    pub(super) link: bool,
}

/// Empty receive bursts per check whether the driver needs a wake-up for lack of chunks.
const BURSTS_PER_WAKE_CHECK: u32 = 64;

/// See the module's documentation.
pub struct AfXdpPort {
    info: PortInfo,
    facts: PortFacts,
    // Declared before the queues, so that the program releases the sockets before they close.
    steering: Steering,
    queues: Vec<Queue>,
    /// By queue.
    receivers: Vec<Receiver>,
    taken: Taken,
    /// Bursts so far. Each begins with another queue, so that a busy one does not starve the
    /// others.
    bursts: usize,
    /// EtherType of the frames of this port's link.
    link_type: Option<u16>,
    enabled: bool,
    interface_carrier: bool,
    gone: bool,
    tally: Tally,
    dropped_disabled: u64,
    dropped_by_device: u64,
    /// The kernel's counts at the last query.
    kernel: Cell<KernelCounts>,
}

/// The receiving half of a queue's sockets.
#[derive(Debug)]
struct Receiver {
    umem: Umem,
    fill: FillQueue,
    /// The ring of link frames, on a port with a link.
    link: Option<RxQueue>,
    others: RxQueue,
    /// Consecutive bursts without a frame of an application.
    fruitless: u32,
}

/// The chunks of a burst, oldest frame first.
#[derive(Debug)]
struct Taken {
    descs: Box<[FrameDesc; BURST_FRAMES]>,
    /// Chunks side by side of one queue: the queue, and the end of its run.
    runs: ArrayVec<(usize, usize), BURST_FRAMES>,
}

impl Receiver {
    /// Gives the kernel its first chunks, `receiving`. The rings are those of newly bound sockets
    /// of `umem`.
    ///
    /// # Errors
    /// There are more chunks than the fill ring takes.
    fn new(
        umem: Umem,
        mut fill: FillQueue,
        link: Option<RxQueue>,
        others: RxQueue,
        receiving: &[FrameDesc],
    ) -> io::Result<Self> {
        // SAFETY: the chunks belong to this queue's UMEM, and no other code knows them. The queue
        // does not touch them again until a receive ring names them.
        let accepted = unsafe { fill.produce(receiving) };
        if accepted != receiving.len() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(Self {
            umem,
            fill,
            link,
            others,
            fruitless: 0,
        })
    }

    /// Takes frames of one class: as many as `into` has places, if there are so many.
    fn take(&mut self, class: TrafficClass, into: &mut [FrameDesc]) -> usize {
        match class {
            // SAFETY: the ring names only chunks of the UMEM to which the socket was bound.
            TrafficClass::Link => self
                .link
                .as_mut()
                .map_or(0, |ring| unsafe { ring.consume(into) }),
            TrafficClass::Others => {
                // SAFETY: as above.
                let count = unsafe { self.others.consume(into) };
                self.wake_starved_driver(count);
                count
            }
        }
    }

    /// Returns chunks of this queue to the kernel.
    fn give_back(&mut self, descs: &[FrameDesc]) {
        // SAFETY: these chunks came from a receive ring of this queue. No reference to them is
        // left, and the port forgets them.
        let returned = unsafe { self.fill.produce(descs) };
        debug_assert_eq!(
            returned,
            descs.len(),
            "the fill ring has room for every chunk of its queue twice"
        );
        if self.fill.needs_wakeup() {
            self.wake();
        }
    }

    /// A driver in zero-copy mode may have run out of chunks just after it was last given some.
    fn wake_starved_driver(&mut self, received: usize) {
        if received > 0 {
            self.fruitless = 0;
            return;
        }
        self.fruitless = self.fruitless.wrapping_add(1);
        if self.fruitless.is_multiple_of(BURSTS_PER_WAKE_CHECK) && self.fill.needs_wakeup() {
            self.wake();
        }
    }

    /// A driver that ran out of chunks sleeps until it is called.
    fn wake(&mut self) {
        // The result does not matter: nothing waits for it, and a failure shows at the next
        // doorbell.
        let _ = self.fill.wakeup(self.others.fd_mut(), 0);
    }

    /// Whether received frames are waiting.
    fn has_received(&mut self) -> bool {
        let rings = self.link.iter_mut().chain([&mut self.others]);
        rings.map(RxQueue::nb_avail_exact).any(|frames| frames > 0)
    }
}

impl Taken {
    fn new() -> Self {
        Self {
            descs: Box::new([FrameDesc::default(); BURST_FRAMES]),
            runs: ArrayVec::new(),
        }
    }

    fn len(&self) -> usize {
        self.runs.last().map_or(0, |&(_, end)| end)
    }

    /// Places for further chunks, up to `most` in all.
    fn room(&mut self, most: usize) -> &mut [FrameDesc] {
        let len = self.len();
        self.descs.get_mut(len..most).unwrap_or_default()
    }

    /// The next `count` chunks are of queue `at`.
    fn add(&mut self, at: usize, count: usize) {
        if count > 0 {
            // Each run has a chunk, so there are no more runs than places.
            self.runs.push((at, self.len() + count));
        }
    }

    /// The queues with their chunks, in order.
    fn runs(&self) -> impl Iterator<Item = (usize, &[FrameDesc])> {
        let mut start = 0;
        self.runs.iter().map(move |&(at, end)| {
            let run = &self.descs[start..end];
            start = end;
            (at, run)
        })
    }

    fn clear(&mut self) {
        self.runs.clear();
    }
}

impl AfXdpPort {
    fn gone(&mut self) -> PortError {
        self.gone = true;
        PortError::Gone {
            port: self.info.name.clone(),
            reason: format!(
                "interface `{}` was removed; covalent-control reopens the port when it returns",
                self.info.interface.as_deref().unwrap_or_default()
            ),
        }
    }

    fn link_down(&self) -> PortError {
        PortError::LinkDown {
            port: self.info.name.clone(),
        }
    }

    /// Returns the rings for a frame to send. On a port with a link the frame is the lane's copy,
    /// which no application can change.
    fn class(&self, frame: SharedBytes<'_>) -> TrafficClass {
        match self.link_type {
            Some(link_type) if has_type(frame, link_type) => TrafficClass::Link,
            _ => TrafficClass::Others,
        }
    }

    /// Frames that can be staged now.
    fn space(&mut self, class: TrafficClass) -> usize {
        if !self.carrier() {
            return 0;
        }
        let sender = self.sender();
        sender.reclaim();
        sender.spare(class)
    }

    /// The queue that sends.
    fn sender(&mut self) -> &mut Queue {
        &mut self.queues[0]
    }
}

fn has_type(frame: SharedBytes<'_>, ethertype: u16) -> bool {
    [frame.byte(12), frame.byte(13)] == ethertype.to_be_bytes().map(Some)
}

/// Of a burst of `most` frames, the number left to applications, however many link frames wait. It
/// is a quarter, or one in every other burst of less than four.
fn left_to_others(most: usize, burst: usize) -> usize {
    (most / 4).max(most.min(burst % 2))
}

impl AfXdpPort {
    /// System calls: one for each queue, and one for the program.
    fn read_kernel_counts(&self) -> KernelCounts {
        let mut drops = KernelDrops::default();
        let mut sum = ReportedCounts::default();
        for queue in &self.queues {
            // The socket of a removed interface still reports its counts. A socket that reports
            // none is skipped.
            if let Ok(counts) = queue.statistics() {
                let reported = ReportedCounts::from(&counts);
                drops.add(&reported, queue.zero_copy());
                sum.add(&reported);
            }
        }
        // Not readable before Linux 5.19 after the process dropped its capabilities.
        let program = self.steering.counters().unwrap_or_default();
        KernelCounts {
            drops,
            sum,
            program,
        }
    }
}

impl Port for AfXdpPort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx_burst<'a>(&'a mut self, max: usize, into: &mut Burst<'a>) -> Result<usize, PortError> {
        self.release();
        let Self {
            receivers, taken, ..
        } = self;
        self.bursts = self.bursts.wrapping_add(1);
        let max = max.min(BURST_FRAMES);
        for (class, most) in [
            (TrafficClass::Link, max - left_to_others(max, self.bursts)),
            (TrafficClass::Others, max),
        ] {
            for turn in 0..receivers.len() {
                let at = self.bursts.wrapping_add(turn) % receivers.len();
                let count = receivers[at].take(class, taken.room(most));
                taken.add(at, count);
                if taken.len() == most {
                    break;
                }
            }
        }
        for (at, descs) in taken.runs() {
            if !self.enabled {
                self.dropped_disabled += descs.len() as u64;
                continue;
            }
            for desc in descs {
                // SAFETY: the kernel handed this chunk over through a receive ring of this queue,
                // with a whole frame in it. It gets the chunk back in `release`, which
                // cannot be called while the burst borrows the port.
                let frame = unsafe { receivers[at].umem.data(desc) }.contents();
                self.tally.received(frame.len());
                into.push(frame);
            }
        }
        Ok(into.frames().len())
    }

    fn release(&mut self) {
        for (at, descs) in self.taken.runs() {
            self.receivers[at].give_back(descs);
        }
        self.taken.clear();
    }

    fn tx_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), TxRefusal> {
        let (len, max) = (frame.len(), self.info.frame_bytes_max as usize);
        let class = self.class(frame);
        let refusal = if let Some(refusal) = TxRefusal::by_length(len, max) {
            refusal
        } else if !self.carrier() {
            TxRefusal::Down
        } else if self.queues[0].stage(class, frame) {
            self.tally.taken(len);
            return Ok(());
        } else {
            TxRefusal::Full
        };
        Err(self.tally.refused(refusal))
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let mut reported = Ok(());
        for (class, doorbell) in self.sender().ring() {
            match doorbell {
                Doorbell::Rung => {}
                Doorbell::Dropped => {
                    self.dropped_by_device += 1;
                    // A link must learn of the loss. A frame of an application may be lost on any
                    // wire.
                    if class == TrafficClass::Link {
                        reported = Err(self.link_down());
                    }
                }
                Doorbell::Down => reported = Err(self.link_down()),
                Doorbell::Gone => return Err(self.gone()),
            }
        }
        reported
    }

    fn tx_space(&mut self) -> usize {
        self.space(TrafficClass::Others)
    }

    fn link_tx_space(&mut self) -> Option<usize> {
        self.link_type?;
        Some(self.space(TrafficClass::Link))
    }

    fn tx_idle(&mut self) -> bool {
        self.queues[0].is_idle()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.queues.iter().flat_map(Queue::raw_fds).collect()
    }

    fn prepare_sleep(&mut self) -> bool {
        // Sockets are level-triggered: a frame that arrives after this check makes the wait return
        // at once.
        if self.receivers.iter_mut().any(Receiver::has_received) {
            return false;
        }
        if !self.carrier() {
            return true;
        }
        !self.sender().has_to_send()
    }

    fn finish_sleep(&mut self) {}

    fn counters(&self) -> PortCounters {
        self.kernel.set(self.read_kernel_counts());
        self.counters_at_hand()
    }

    fn counters_at_hand(&self) -> PortCounters {
        let KernelCounts {
            drops,
            sum,
            program,
        } = self.kernel.get();
        let mut counters = self.tally.with_drops(vec![
            ("steered_to_drop", program.dropped()),
            ("rx_ring_full", drops.rx_ring_full),
            ("link_rx_ring_full", drops.link_rx_ring_full),
            ("fill_ring_empty", drops.fill_ring_empty),
            ("rx_dropped", drops.rx_other),
            ("rx_invalid_descriptor", drops.rx_invalid),
            ("tx_invalid_descriptor", drops.tx_invalid),
            ("tx_dropped_by_device", self.dropped_by_device),
            ("port_disabled", self.dropped_disabled),
        ]);
        counters.passed_to_kernel_packets = program.to_kernel();
        counters.xdp_counts = sum.by_name();
        counters
    }

    fn steer(&mut self, change: &SteerChange) -> Result<(), PortError> {
        rules::apply(&mut self.steering, change).map_err(|source| PortError::Steering {
            port: self.info.name.clone(),
            source: Box::new(source),
        })
    }

    fn set_enabled(&mut self, enabled: bool) -> Result<(), PortError> {
        if self.gone {
            return Err(self.gone());
        }
        self.enabled = enabled;
        Ok(())
    }

    fn set_carrier(&mut self, up: bool) {
        self.interface_carrier = up;
    }

    fn carrier(&self) -> bool {
        self.enabled && self.interface_carrier && !self.gone
    }

    fn facts(&self) -> Option<&PortFacts> {
        Some(&self.facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_link_frames_leaves_applications_their_share() {
        for (most, shares) in [(64, [16, 16]), (4, [1, 1]), (1, [0, 1]), (2, [0, 1])] {
            assert_eq!([0, 1].map(|burst| left_to_others(most, burst)), shares);
        }
        assert_eq!(left_to_others(0, 1), 0);
    }
}
