//! How long a fetch-and-add takes to another node and back.
//!
//! ```text
//!   bare client (near core) ◄══ veth ══► bare echo (far core)
//!   application ◄─► covalentd a's lane (near core) ◄══ veth ══► covalentd b's lane (far core) ─► region
//! ```
//! One at a time: the next leaves when the answer is there. A verb in one-phase mode crosses the cable once each way, as the echo does; in
//! two-phase mode twice each way. The goal is about the former, which moves the same frames; the latter is told beside it.

use std::{
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use covalent_verbs::{
    Completion, Device, Mode, Outcome, RemoteRegion, Rights, Target, Verb, Verbs, status::PortMode,
};
use hdrhistogram::Histogram;
use serde_json::json;

use crate::{
    arguments::Arguments,
    bare::Steered,
    cores::{Cores, pin},
    host::Host,
    node::{Node, Plan, find_daemon},
    report::{Report, Setup},
    stage::{Namespace, Stage},
    stop,
    summary::Summary,
};

/// A frame with one record of the link protocol: 14 bytes of header and 64 of record.
const FRAME_BYTES: usize = 78;

/// The default EtherType of links.
const ETHERTYPE: u16 = 0x88b5;

const BURST: u32 = 64;
const REGION: &str = "bench";

/// How long an answer may take before it counts as lost.
const PATIENCE: Duration = Duration::from_millis(200);

/// Round trips before counting.
const WARM_UP: u32 = 200;

const GOAL: f64 = 2.0;

/// Measures both sides in turn.
pub fn measure(arguments: &Arguments) -> Result<Report> {
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let host = Host::look();
    let cores = Cores::choose()?;
    let stage = Stage::build(1, 1)?;
    let (mut bare, mut one, mut two) = (Side::new()?, Side::new()?, Side::new()?);
    let mut running = None;
    for _ in 0..arguments.repeats {
        bare.add(bare_slice(&stage, cores, arguments)?)?;
        let nodes = Nodes::start(&stage, cores, arguments, &daemon)?;
        one.add(nodes.slice(cores, arguments, Mode::OnePhase)?)?;
        two.add(nodes.slice(cores, arguments, Mode::TwoPhase)?)?;
        running = Some((nodes.mode()?, vec![nodes.a.command(), nodes.b.command()]));
    }
    let (mode, daemons) = running.context("nothing was measured")?;
    let (bare_us, our_us) = (bare.median_us()?, one.median_us()?);
    let ratio = our_us.median / bare_us.median;
    let two_us = two.median_us()?;
    let (application, shared) = cores.application_beside(cores.near);
    Ok(Report {
        name: "rtt",
        goal: "rtt",
        target: "the round trip of a verb takes less than 2 times that of a bare AF_XDP echo (medians)",
        bare: bare_us.median,
        covalent: our_us.median,
        unit: "µs",
        ratio,
        margin: GOAL / ratio,
        met: ratio < GOAL,
        ours: json!({
            "one_phase": one.json(&our_us),
            "two_phase": two.json(&two_us),
            "p50_us": our_us.median,
            "p99_us": one.quantile_us(0.99),
            "p999_us": one.quantile_us(0.999),
            "two_phase_p50_us": two_us.median,
            "two_phase_ratio": two_us.median / bare_us.median,
            "round_trips": one.all.len(),
        }),
        peer: json!({
            "echo": bare.json(&bare_us),
            "p50_us": bare_us.median,
            "p99_us": bare.quantile_us(0.99),
            "p999_us": bare.quantile_us(0.999),
            "round_trips": bare.all.len(),
        }),
        setup: Setup {
            ring_slots: arguments.ring_slots,
            burst: BURST,
            frame_bytes: FRAME_BYTES,
            idle: "poll",
            mode: Some(mode),
            slice_seconds: arguments.slice().as_secs_f64(),
            cores: format!(
                "client or asking lane on core {}, echo or answering lane on core {}, application on core {application}{}",
                cores.near,
                cores.far,
                if shared {
                    " (shared with the asking lane)"
                } else {
                    ""
                }
            ),
            daemons,
        },
        host,
    })
}

/// The round trips of one side, in nanoseconds.
struct Side {
    all: Histogram<u64>,
    medians_us: Vec<f64>,
    lost: u64,
}

/// One slice.
struct Slice {
    trips: Histogram<u64>,
    lost: u64,
}

impl Slice {
    fn new() -> Result<Self> {
        Ok(Self {
            trips: histogram()?,
            lost: 0,
        })
    }

    fn add(&mut self, trip: Duration) {
        // Saturating keeps one that took longer than the histogram reaches as its largest.
        self.trips
            .saturating_record(u64::try_from(trip.as_nanos()).unwrap_or(u64::MAX));
    }
}

impl Side {
    fn new() -> Result<Self> {
        Ok(Self {
            all: histogram()?,
            medians_us: Vec::new(),
            lost: 0,
        })
    }

    fn add(&mut self, slice: Slice) -> Result<()> {
        ensure!(!slice.trips.is_empty(), "no answer came");
        self.medians_us
            .push(slice.trips.value_at_quantile(0.5) as f64 / 1e3);
        self.all.add(&slice.trips).context("adding up histograms")?;
        self.lost += slice.lost;
        Ok(())
    }

    fn median_us(&self) -> Result<Summary> {
        Summary::of(self.medians_us.clone()).context("nothing was measured")
    }

    fn quantile_us(&self, quantile: f64) -> f64 {
        self.all.value_at_quantile(quantile) as f64 / 1e3
    }

    fn json(&self, median_us: &Summary) -> serde_json::Value {
        json!({
            "p50_us": median_us,
            "p99_us": self.quantile_us(0.99),
            "p999_us": self.quantile_us(0.999),
            "max_us": self.all.max() as f64 / 1e3,
            "round_trips": self.all.len(),
            "lost": self.lost,
        })
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 1_000_000_000, 3).context("making a histogram")
}

fn bare_slice(stage: &Stage, cores: Cores, arguments: &Arguments) -> Result<Slice> {
    let over = AtomicBool::new(false);
    let (ready, is_ready) = mpsc::channel::<()>();
    let frame = frame();
    let open = |namespace: &Namespace, core, interface| {
        namespace.enter()?;
        pin(core)?;
        Steered::open(interface, ETHERTYPE, arguments.ring_slots, BURST)
    };
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let ready = ready;
            let mut steered = open(&stage.b, cores.far, "b0")?;
            drop(ready);
            while !over.load(Ordering::Relaxed) {
                let count = steered.socket.receive(|_| ());
                if count > 0 {
                    steered.socket.send(&frame, count).context("echoing")?;
                }
            }
            Ok(())
        });
        // An echo that failed drops its end too, and tells why when it is joined.
        let _ = is_ready.recv();
        let client = scope.spawn(|| {
            let mut steered = open(&stage.a, cores.near, "a0")?;
            repeat(arguments.slice(), |deadline| {
                steered.socket.send(&frame, 1).context("sending")?;
                while steered.socket.receive(|_| ()) == 0 {
                    if Instant::now() > deadline {
                        return Ok(false);
                    }
                }
                Ok(true)
            })
        });
        let measured = join(client);
        over.store(true, Ordering::Relaxed);
        join(echo)?;
        measured
    })
}

/// Makes round trips one after the other for a slice.
fn repeat(slice: Duration, mut trip: impl FnMut(Instant) -> Result<bool>) -> Result<Slice> {
    for _ in 0..WARM_UP {
        trip(Instant::now() + PATIENCE)?;
    }
    let mut measured = Slice::new()?;
    let start = Instant::now();
    let mut before = start;
    while before - start < slice && !stop::is_asked() {
        let came = trip(before + PATIENCE)?;
        let now = Instant::now();
        if came {
            measured.add(now - before);
        } else {
            measured.lost += 1;
        }
        before = now;
    }
    stop::check()?;
    Ok(measured)
}

/// Two linked daemons.
struct Nodes {
    a: Node,
    b: Node,
}

impl Nodes {
    fn start(stage: &Stage, cores: Cores, arguments: &Arguments, daemon: &Path) -> Result<Self> {
        let start = |name, namespace, core, interface| {
            let plan = Plan {
                name,
                idle: "poll",
                core: Some(core),
                interfaces: &[interface],
                link: true,
                ring_slots: arguments.ring_slots,
            };
            Node::start(daemon, namespace, &plan)
        };
        let nodes = Self {
            a: start("a", &stage.a, cores.near, "a0")?,
            b: start("b", &stage.b, cores.far, "b0")?,
        };
        nodes.a.wait_for_links()?;
        nodes.b.wait_for_links()?;
        Ok(nodes)
    }

    fn mode(&self) -> Result<PortMode> {
        let port = self.a.status()?.ports.into_iter().next();
        Ok(port.context("the daemon has no port")?.mode)
    }

    fn slice(&self, cores: Cores, arguments: &Arguments, mode: Mode) -> Result<Slice> {
        let owner =
            Device::attach(self.b.socket(), "bench-region").context("attaching to covalentd b")?;
        let _region = owner
            .register_region(REGION, 64, Rights::ALL)
            .context("registering a region")?;
        thread::scope(|scope| {
            join(scope.spawn(|| {
                let (core, shared) = cores.application_beside(cores.near);
                pin(core)?;
                let device = Device::attach(self.a.socket(), "bench-rtt")
                    .context("attaching to covalentd a")?;
                let mut verbs = device.verbs().context("opening a verb queue")?;
                let region = verbs
                    .open_region_deadline(
                        Target::Name("b"),
                        REGION,
                        Instant::now() + Duration::from_secs(5),
                    )
                    .context("opening the region")?;
                repeat(arguments.slice(), |deadline| {
                    fetch_add(&mut verbs, &region, mode, shared, deadline)
                })
            }))
        })
    }
}

/// One verb, waited for by looking again and again, as the bare client does. Where the application shares its core with the lane it
/// gives the core up between two looks.
fn fetch_add(
    verbs: &mut Verbs<'_>,
    region: &RemoteRegion,
    mode: Mode,
    shared: bool,
    deadline: Instant,
) -> Result<bool> {
    let verb = Verb::FetchAdd {
        offset_bytes: 0,
        delta: 1,
    };
    let id = verbs
        .post(region, verb, mode, 0)
        .context("posting a verb")?;
    let mut completions = [Completion::default()];
    loop {
        if verbs.poll(&mut completions).context("polling for a verb")? > 0 {
            match &completions[0] {
                Completion {
                    outcome: Outcome::Old(_),
                    id: found,
                    ..
                } => {
                    // The answer to one that counted as lost may still come.
                    if *found == id {
                        return Ok(true);
                    }
                }
                Completion {
                    outcome: Outcome::InDoubt,
                    ..
                } => {}
                other => bail!("a fetch-and-add ended with {:?}", other.outcome),
            }
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
        if shared {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread
        .join()
        .unwrap_or_else(|_| bail!("a thread of the measurement failed"))
}

fn frame() -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..6].fill(0xff);
    frame[6] = 2;
    frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    frame
}
