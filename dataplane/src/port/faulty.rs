//! A port that damages its own frames on purpose, to test the layers above it against a bad wire.
//!
//! ```text
//!   lane ─ tx ─► lose? ─► turn a bit over? ─► once or twice ─► port
//!   lane ◄─ rx ─ once or twice ◄─ turn a bit over? ◄─ lose? ◄─ port
//! ```
//! It wraps any other port and is a port itself. The choice of frames depends on the seed and on
//! the number of earlier frames in that direction. It does not depend on the time or on frame
//! contents. Each direction chooses independently, so a change in one leaves the other's choices
//! unchanged. Its carrier is that of the inner port: frames are lost without a report, as on a
//! cable that is broken in one direction.

use std::os::fd::RawFd;

use covalent_api::agreement::PortFacts;
use covalent_config::{FAULT_RATE_FRAMES, FaultRates, FaultsConfig};
use covalent_pipe::SharedBytes;
use fastrand::Rng;

use super::{
    BURST_FRAMES, Burst, Port, PortCounters, PortError, PortInfo, SteerChange, Tally, TxRefusal,
    burst::{Copies, Unused},
};

/// Keeps the choices of the two directions apart.
const TX_SEED: u64 = 1 << 32;

/// See the module's documentation.
pub struct FaultyPort {
    inner: Box<dyn Port>,
    rx: Damage,
    tx: Damage,
    /// Where frames of a burst are damaged.
    rx_copies: Copies,
    /// Where a frame to send is damaged.
    tx_copy: Copies,
    /// A copy of the frame to send, which may be sent twice while its application changes the
    /// original.
    frame: Box<[u8]>,
    tally: Tally,
}

/// The damage to the frames of one direction.
struct Damage {
    rates: FaultRates,
    random: Rng,
    deeds: Deeds,
}

/// Frames by the kind of damage.
#[derive(Debug, Clone, Copy, Default)]
struct Deeds {
    dropped: u64,
    blackholed: u64,
    corrupted: u64,
    duplicated: u64,
}

/// The outcome of one frame.
enum FrameOutcome<'a> {
    Lost,
    /// The frame continues with these bytes, once or twice.
    Passes {
        bytes: &'a [u8],
        twice: bool,
    },
}

impl FaultyPort {
    /// Stands around `inner`.
    #[must_use]
    pub fn new(inner: Box<dyn Port>, faults: &FaultsConfig) -> Self {
        let frame_bytes_max = inner.info().frame_bytes_max as usize;
        let seed = u64::from(faults.seed);
        Self {
            rx: Damage::new(faults.rx, seed),
            tx: Damage::new(faults.tx, seed | TX_SEED),
            rx_copies: Copies::of_frames(BURST_FRAMES, frame_bytes_max),
            tx_copy: Copies::of_frames(1, frame_bytes_max),
            inner,
            frame: vec![0; frame_bytes_max].into_boxed_slice(),
            tally: Tally::default(),
        }
    }

    /// Returns why the inner port would refuse a frame of `len` bytes now. A frame that is lost is
    /// refused like any other.
    fn refusal(&mut self, len: usize) -> Option<TxRefusal> {
        let max = self.inner.info().frame_bytes_max as usize;
        let refusal = TxRefusal::by_length(len, max);
        if refusal.is_some() {
            refusal
        } else if !self.inner.carrier() {
            Some(TxRefusal::Down)
        } else if self.inner.tx_space() == 0 {
            Some(TxRefusal::Full)
        } else {
            None
        }
    }
}

impl Damage {
    fn new(rates: FaultRates, seed: u64) -> Self {
        Self {
            rates,
            random: Rng::with_seed(seed),
            deeds: Deeds::default(),
        }
    }

    /// Decides the outcome of one frame and applies it, in memory of `unused`. Only the caller can
    /// send a frame twice, so the caller does so and counts it.
    fn decide<'a>(&mut self, frame: &'a [u8], unused: &mut Unused<'a>) -> FrameOutcome<'a> {
        if self.rates.blackhole {
            self.deeds.blackholed += 1;
            return FrameOutcome::Lost;
        }
        if self.hits(self.rates.drop_per_100k) {
            self.deeds.dropped += 1;
            return FrameOutcome::Lost;
        }
        let corrupt = self.hits(self.rates.corrupt_per_100k);
        let twice = self.hits(self.rates.duplicate_per_100k);
        let bytes = if corrupt {
            self.corrupt(frame, unused)
        } else {
            frame
        };
        FrameOutcome::Passes { bytes, twice }
    }

    fn hits(&mut self, per_100k: u32) -> bool {
        per_100k > 0 && self.random.u32(0..FAULT_RATE_FRAMES) < per_100k
    }

    /// Returns a copy of the frame with one bit flipped. A frame for which no memory is left, being
    /// longer than the port's maximum, is returned unchanged.
    fn corrupt<'a>(&mut self, frame: &'a [u8], unused: &mut Unused<'a>) -> &'a [u8] {
        let Some(copy) = unused.copy(frame.into()) else {
            return frame;
        };
        let Some(byte) = self.random.choice(copy.iter_mut()) else {
            return frame;
        };
        *byte ^= 1 << self.random.u32(0..u8::BITS);
        self.deeds.corrupted += 1;
        copy
    }
}

impl Deeds {
    fn lost(&self) -> u64 {
        self.dropped + self.blackholed
    }
}

impl FaultyPort {
    /// Frames that fit in `space` slots: each may need two.
    const fn frames_in(&self, space: usize) -> usize {
        match self.tx.rates.duplicate_per_100k {
            0 => space,
            _ => space / 2,
        }
    }

    /// Adds the counts of this port to those of the inner port.
    fn counters_of(&self, inner: PortCounters) -> PortCounters {
        let (rx, tx) = (&self.rx.deeds, &self.tx.deeds);
        let mut drops = inner.drops;
        drops.push(("fault_injected", rx.lost() + tx.lost()));
        let mut counters = self.tally.with_drops(drops);
        counters.passed_to_kernel_packets = inner.passed_to_kernel_packets;
        counters.faults = vec![
            ("rx_dropped", rx.dropped),
            ("rx_blackholed", rx.blackholed),
            ("rx_corrupted", rx.corrupted),
            ("rx_duplicated", rx.duplicated),
            ("tx_dropped", tx.dropped),
            ("tx_blackholed", tx.blackholed),
            ("tx_corrupted", tx.corrupted),
            ("tx_duplicated", tx.duplicated),
        ];
        counters
    }
}

impl Port for FaultyPort {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn rx_burst<'a>(&'a mut self, max: usize, into: &mut Burst<'a>) -> Result<usize, PortError> {
        let Self {
            inner,
            rx,
            rx_copies,
            tally,
            ..
        } = self;
        let max = max.min(BURST_FRAMES);
        // Reserve slots for copies: at most `max` frames may pass. A burst of one frame has no slot
        // for a copy.
        let most = match rx.rates.duplicate_per_100k {
            0 => max,
            _ => max.div_ceil(2),
        };
        let mut came = Burst::new();
        inner.rx_burst(most, &mut came)?;
        let (mut passed, mut to_come) = (0, most);
        let mut unused = rx_copies.begin();
        for &frame in came.frames() {
            to_come -= 1;
            let room = max - passed - to_come;
            let FrameOutcome::Passes { bytes, twice } = rx.decide(frame, &mut unused) else {
                continue;
            };
            let times = if twice { room.min(2) } else { 1 };
            for _ in 0..times {
                tally.received(bytes.len());
                into.push(bytes);
            }
            passed += times;
            rx.deeds.duplicated += times as u64 - 1;
        }
        Ok(passed)
    }

    fn release(&mut self) {
        self.inner.release();
    }

    fn tx_shared(&mut self, shared: SharedBytes<'_>) -> Result<(), TxRefusal> {
        if let Some(refusal) = self.refusal(shared.len()) {
            return Err(self.tally.refused(refusal));
        }
        let Self {
            inner,
            tx,
            tx_copy,
            frame,
            tally,
            ..
        } = self;
        // Longer frames were refused before.
        let frame = &mut frame[..shared.len()];
        shared.copy_to(frame);
        if let FrameOutcome::Passes { bytes, twice } = tx.decide(frame, &mut tx_copy.begin()) {
            inner.tx(bytes).map_err(|refusal| tally.refused(refusal))?;
            // A ring with one free slot sends the frame once.
            let copied = twice && inner.tx(bytes).is_ok();
            tx.deeds.duplicated += u64::from(copied);
        }
        tally.taken(frame.len());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.inner.flush()
    }

    fn tx_space(&mut self) -> usize {
        let space = self.inner.tx_space();
        self.frames_in(space)
    }

    fn link_tx_space(&mut self) -> Option<usize> {
        let space = self.inner.link_tx_space()?;
        Some(self.frames_in(space))
    }

    fn tx_idle(&mut self) -> bool {
        self.inner.tx_idle()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.inner.wait_fds()
    }

    fn prepare_sleep(&mut self) -> bool {
        self.inner.prepare_sleep()
    }

    fn finish_sleep(&mut self) {
        self.inner.finish_sleep();
    }

    fn counters(&self) -> PortCounters {
        self.counters_of(self.inner.counters())
    }

    fn counters_at_hand(&self) -> PortCounters {
        self.counters_of(self.inner.counters_at_hand())
    }

    fn steer(&mut self, change: &SteerChange) -> Result<(), PortError> {
        self.inner.steer(change)
    }

    fn set_enabled(&mut self, enabled: bool) -> Result<(), PortError> {
        self.inner.set_enabled(enabled)
    }

    fn set_carrier(&mut self, up: bool) {
        self.inner.set_carrier(up);
    }

    fn set_faults(&mut self, rx: FaultRates, tx: FaultRates) -> Result<(), PortError> {
        (self.rx.rates, self.tx.rates) = (rx, tx);
        Ok(())
    }

    fn carrier(&self) -> bool {
        self.inner.carrier()
    }

    fn facts(&self) -> Option<&PortFacts> {
        self.inner.facts()
    }

    fn absent(&self) -> Option<&str> {
        self.inner.absent()
    }

    fn may_close_elsewhere(&self) -> bool {
        self.inner.may_close_elsewhere()
    }
}
