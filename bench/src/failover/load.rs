//! An application that keeps verbs open at another node and records when each was posted and
//! completed.

use std::{
    path::Path,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use covalent::{Completion, Device, Mode, Outcome, RemoteRegion, Target, Verb, VerbId, Verbs};

use super::gap::Span;
use crate::{
    cores::{Cores, pin},
    stop,
};

/// Name of the region that is added to.
pub const REGION: &str = "bench";

/// How long a region may take to be found, and a verb to be done.
const PATIENCE: Duration = Duration::from_secs(10);

/// Verbs posted between two polls. The lane serves the links in turn, so a few verbs at a time keep
/// both links busy.
const POSTED_AT_A_TIME: usize = 4;

/// Looks that find nothing between two checks of whether anything is still to be expected.
const POLLS_PER_CHECK: u64 = 1024;

/// A time that has not come.
pub const NEVER_NS: u64 = u64::MAX;

/// The task of the application from one cut to the next.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    /// How verbs are made.
    pub mode: Mode,
    /// Verbs open at a time.
    pub open: usize,
}

/// State that the application and the cutting thread share.
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    /// When the cut was sure; [`NEVER_NS`] until it is.
    sure_ns: AtomicU64,
}

impl Watch {
    /// A clock that begins now.
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
            sure_ns: AtomicU64::new(NEVER_NS),
        }
    }

    /// The time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(NEVER_NS)
    }

    /// The cut is to come.
    pub fn begin(&self) {
        self.sure_ns.store(NEVER_NS, Ordering::Release);
    }

    /// The cut is sure from now on. Gives the time.
    pub fn sure(&self) -> u64 {
        let now_ns = self.now_ns();
        self.sure_ns.store(now_ns, Ordering::Release);
        now_ns
    }
}

/// The application, as it waits for orders.
struct Load<'d> {
    verbs: Verbs<'d>,
    region: RemoteRegion,
    watch: &'d Watch,
    /// Whether it shares its core with the lane.
    shared: bool,
    completions: Vec<Completion>,
    open: Vec<(VerbId, u64)>,
    posted: u64,
}

/// Executes orders until the channel closes. Sends the spans of each order when it ends. Returns
/// the total number of posted verbs.
pub fn run(
    socket: &Path,
    cores: Cores,
    watch: &Watch,
    orders: &Receiver<Order>,
    report: &Sender<Vec<Span>>,
) -> Result<u64> {
    let (core, shared) = cores.application_beside(cores.near);
    pin(core)?;
    let device = Device::attach(socket, "bench-failover").context("attaching to covalentd a")?;
    let mut verbs = device.verbs().context("opening a verb queue")?;
    let region = verbs
        .open_region(Target::Name("b"), REGION, PATIENCE)
        .context("opening the region")?;
    let mut load = Load {
        verbs,
        region,
        watch,
        shared,
        completions: vec![Completion::default(); 64],
        open: Vec::new(),
        posted: 0,
    };
    for order in orders {
        let spans = load.execute(order)?;
        if report.send(spans).is_err() {
            break;
        }
    }
    Ok(load.posted)
}

impl Load<'_> {
    /// Keeps verbs open until the cut is sure and every verb is done that was posted before it was.
    fn execute(&mut self, order: Order) -> Result<Vec<Span>> {
        let mut spans = Vec::with_capacity(1 << 14);
        let (mut fruitless, mut last) = (0_u64, Instant::now());
        loop {
            let sure_ns = self.watch.sure_ns.load(Ordering::Acquire);
            let continues =
                sure_ns == NEVER_NS || self.open.iter().any(|&(_, posted)| posted <= sure_ns);
            if continues {
                self.fill(order)?;
            } else if self.open.is_empty() {
                return Ok(spans);
            }
            if self.take_completions(&mut spans)? > 0 {
                fruitless = 0;
                last = Instant::now();
                continue;
            }
            fruitless += 1;
            if fruitless.is_multiple_of(POLLS_PER_CHECK) {
                stop::check()?;
                ensure!(
                    last.elapsed() < PATIENCE,
                    "{} verbs are not answered",
                    self.open.len()
                );
            }
            if self.shared {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn fill(&mut self, order: Order) -> Result<()> {
        let add = Verb::FetchAdd {
            offset_bytes: 0,
            delta: 1,
        };
        let more = order.open - self.open.len();
        for _ in 0..more.min(POSTED_AT_A_TIME) {
            let posted_ns = self.watch.now_ns();
            let id = self
                .verbs
                .post(&self.region, add, order.mode, 0)
                .context("posting a verb")?;
            self.posted += 1;
            self.open.push((id, posted_ns));
        }
        Ok(())
    }

    /// Polls for completions and returns their number.
    fn take_completions(&mut self, spans: &mut Vec<Span>) -> Result<usize> {
        let count = self
            .verbs
            .try_poll(&mut self.completions)
            .context("polling for verbs")?;
        if count == 0 {
            return Ok(0);
        }
        let done_ns = self.watch.now_ns();
        for completion in &self.completions[..count] {
            match completion.outcome {
                Outcome::Old(_) => {}
                // The end follows.
                Outcome::InDoubt(_) => continue,
                ref other => bail!("an addition ended with {other:?}"),
            }
            let at = self
                .open
                .iter()
                .position(|(id, _)| *id == completion.id)
                .context("a completion of a verb that is not open")?;
            let (_, posted_ns) = self.open.swap_remove(at);
            spans.push(Span { posted_ns, done_ns });
        }
        Ok(count)
    }
}
