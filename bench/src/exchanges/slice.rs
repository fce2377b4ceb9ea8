//! One slice of one side: two threads, each on its core, at the two ends of a new cable.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use covalent_dataplane::port::Port;

use super::{
    end::{Count, End, RequestOptions, open_port, wait_for_carrier},
    phase::Phase,
    raw::{RawCount, RawEnd},
    results::{Directions, SideName},
};
use crate::{
    beside::join,
    cores::{Cores, pin},
    stop,
};

/// How long an end waits for the other to finish: longer than that one waits for its last answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// The result of a slice, both ends together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slice {
    /// Exchanges that ended in a second; of a side without exchanges 0.
    pub exchanges_per_s: f64,
    /// Records sent in a second.
    pub records_per_s: f64,
    /// Records in a frame, in the mean.
    pub records_per_frame: f64,
    /// Exchanges that ended while it was counted.
    pub exchanges: u64,
    /// Allocations while it was counted.
    pub allocations: u64,
}

impl Slice {
    /// Adds the counts of one end, as rates over that end's own time.
    fn add(&mut self, first: &Count, last: &Count, took: Duration) {
        let rate = |from: u64, to: u64| (to - from) as f64 / took.as_secs_f64();
        let frames = rate(first.frames, last.frames);
        let records = rate(first.records, last.records);
        let frames_before = if self.records_per_frame > 0.0 {
            self.records_per_s / self.records_per_frame
        } else {
            0.0
        };
        self.exchanges_per_s += rate(first.exchanges, last.exchanges);
        self.records_per_s += records;
        self.records_per_frame = self.records_per_s / (frames_before + frames).max(1.0);
        self.exchanges += last.exchanges - first.exchanges;
        self.allocations += last.allocations - first.allocations;
    }

    fn add_raw(&mut self, first: &RawCount, last: &RawCount, took: Duration) {
        self.records_per_s += (last.records - first.records) as f64 / took.as_secs_f64();
        self.records_per_frame = covalent_protocol::wire::FRAME_RECORDS_MAX as f64;
        self.allocations += last.allocations - first.allocations;
    }
}

/// Measures `side` for as long as `span`.
pub fn measure(side: SideName, cores: Cores, ring_slots: u32, span: Duration) -> Result<Slice> {
    let place = tempfile::tempdir().context("making a directory for the cable's socket")?;
    let path = place.path().join("cable");
    let slice = match side {
        SideName::Sealed => raw(true, cores, span, |_| open_port(&path, ring_slots))?,
        SideName::Plain => raw(false, cores, span, |_| open_port(&path, ring_slots))?,
        SideName::Exchanges { mode, slots, ways } => {
            let request_options = |sends_requests| RequestOptions {
                mode: mode.into(),
                slots,
                sends_requests,
            };
            let both = [
                request_options(true),
                request_options(ways == Directions::Both),
            ];
            exchanges(both, cores, span, |_| open_port(&path, ring_slots))?
        }
    };
    stop::check()?;
    Ok(slice)
}

/// Does `near` and `far` in threads of their own; an end that fails ends the other.
fn both<T: Send>(
    cores: Cores,
    phase: &Phase,
    near: impl FnOnce() -> Result<T> + Send,
    far: impl FnOnce() -> Result<T> + Send,
) -> Result<[T; 2]> {
    let on = |core, work: Box<dyn FnOnce() -> Result<T> + Send + '_>| {
        let done = pin(core).and_then(|()| work());
        if done.is_err() {
            phase.give_up();
        }
        done
    };
    thread::scope(|scope| {
        let near = scope.spawn(|| on(cores.near, Box::new(near)));
        let far = scope.spawn(|| on(cores.far, Box::new(far)));
        let (near, far) = (join(near), join(far));
        Ok([near?, far?])
    })
}

/// Measures frames full of records between two ends for `span`. Each thread opens its own end, as
/// in [`exchanges`].
pub fn raw(
    sealed: bool,
    cores: Cores,
    span: Duration,
    open: impl Fn(usize) -> Result<Box<dyn Port>> + Sync,
) -> Result<Slice> {
    let phase = Phase::default();
    let work = |this: usize| {
        let (phase, open) = (&phase, &open);
        let leads = (this == 0).then_some(span);
        move || {
            let mut port = open(this)?;
            wait_for_carrier(&mut *port)?;
            let mut end = RawEnd::new(port, sealed);
            phase.run(&mut end, leads, RawEnd::round, RawEnd::count)
        }
    };
    let mut slice = Slice::default();
    for (first, last, took) in both(cores, &phase, work(0), work(1))? {
        ensure!(
            last.damaged == 0,
            "{} frames were damaged on the cable",
            last.damaged
        );
        slice.add_raw(&first, &last, took);
    }
    Ok(slice)
}

/// Measures exchanges between two ends for `span`. Each thread opens its own end: the near end is 0
/// and the far end is 1.
pub fn exchanges(
    request_options: [RequestOptions; 2],
    cores: Cores,
    span: Duration,
    open: impl Fn(usize) -> Result<Box<dyn Port>> + Sync,
) -> Result<Slice> {
    let phase = Phase::default();
    let settled = AtomicU32::new(0);
    let submitted = [const { AtomicU64::new(0) }; 2];
    let work = |this: usize| {
        let (phase, settled, submitted, open) = (&phase, &settled, &submitted, &open);
        let leads = (this == 0).then_some(span);
        move || {
            let mut end = End::new(open(this)?, this as u64 + 1, request_options[this])?;
            end.wait_for_peer()?;
            let counted = phase.run(&mut end, leads, End::round, End::count)?;
            submitted[this].store(end.settle()?, Ordering::Relaxed);
            settled.fetch_add(1, Ordering::AcqRel);
            // Answer the other end's last additions here. The deadline is needed because a failed
            // end never settles.
            let deadline = Instant::now() + PATIENCE;
            while settled.load(Ordering::Acquire) < 2 {
                end.turn()?;
                ensure!(Instant::now() < deadline, "the other end does not finish");
                stop::check()?;
            }
            Ok((counted, end.word()?))
        }
    };
    let [near, far] = both(cores, &phase, work(0), work(1))?;
    let mut slice = Slice::default();
    for (this, ((first, last, took), word)) in [near, far].into_iter().enumerate() {
        let added = submitted[1 - this].load(Ordering::Relaxed);
        ensure!(
            word == added,
            "the word is {word} after {added} additions: one was lost or done twice"
        );
        slice.add(&first, &last, took);
    }
    Ok(slice)
}
