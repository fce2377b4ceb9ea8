//! Fetch-and-add of one word at another node, by one application with many verbs in flight.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use covalent::{Completion, Device, Mode, Outcome, Rights, Target, Verb, status::PortMode};

use crate::{
    arguments::Wire,
    beside::join,
    cores::{Cores, pin},
    node::{Node, Plan},
    stage::Stage,
    stop,
};

/// Verbs in flight: as many as the daemon allows for one application.
pub const DEPTH: u32 = 512;

/// Exchanges that each end may have open on its link: the most there can be.
pub const SLOTS: u8 = 255;

const REGION: &str = "bench";

/// Verbs before counting.
const WARM_UP: u64 = 10_000;

/// Looks that find nothing between two checks of whether an answer is still to be expected.
const POLLS_PER_CHECK: u64 = 1024;

/// How long answers may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Verbs between two looks at the clock.
const VERBS_PER_POLL: u64 = 256;

/// How the daemons of a slice ran.
#[derive(Debug)]
pub struct How {
    /// The mode of the asking daemon's port as it read it back.
    pub mode: PortMode,
    /// Command lines.
    pub commands: Vec<Vec<String>>,
    /// Records in each frame that the asking daemon sent.
    pub records_per_frame: f64,
}

/// Millions of verbs a second in one slice. The word must have grown by their number.
pub fn slice(stage: &Stage, cores: Cores, arguments: &Wire, daemon: &Path) -> Result<(f64, How)> {
    let start = |name, namespace, core, interface| {
        let plan = Plan {
            name,
            idle: "poll",
            core: Some(core),
            interfaces: &[interface],
            cables: &[],
            link: true,
            ring_slots: arguments.ring_slots,
            link_settings: &[("slots", SLOTS as u32)],
            faulty: false,
        };
        Node::start(daemon, namespace, &plan)
    };
    let a = start("a", &stage.a, cores.near, "a0")?;
    let b = start("b", &stage.b, cores.far, "b0")?;
    a.wait_for_links()?;
    b.wait_for_links()?;
    let owner = Device::attach(b.socket(), "bench-region").context("attaching to covalentd b")?;
    let word = owner
        .register_region(REGION, 64, Rights::ALL)
        .context("registering a region")?;
    let (verbs, rate) = thread::scope(|scope| {
        join(scope.spawn(|| {
            let (core, shared) = cores.application_beside(cores.near);
            pin(core)?;
            add_for(&a, arguments.slice(), shared)
        }))
    })?;
    let found = word.load(0).context("reading the word")?;
    ensure!(
        found == verbs,
        "the word is {found} after {verbs} additions"
    );
    let status = a.status()?;
    let port = status.ports.into_iter().next();
    let link = status.links.first().context("the daemon has no link")?;
    let port = port.context("the daemon has no port")?;
    let how = How {
        records_per_frame: link.tx_records as f64 / port.tx_packets.max(1) as f64,
        mode: port.mode,
        commands: vec![a.command(), b.command()],
    };
    Ok((rate, how))
}

/// Adds 1 repeatedly. Returns the total number of additions, and millions per second during the
/// slice.
///
/// It polls for completions continuously. If it shares its core with the lane, it yields the core
/// after each poll that finds nothing.
fn add_for(node: &Node, slice: Duration, shared: bool) -> Result<(u64, f64)> {
    let device = Device::attach(node.socket(), "bench-adds").context("attaching to covalentd a")?;
    let mut verbs = device
        .verbs_with_depth(DEPTH)
        .context("opening a verb queue")?;
    let region = verbs
        .open_region(Target::Name("b"), REGION, PATIENCE)
        .context("opening the region")?;
    let add = Verb::FetchAdd {
        offset_bytes: 0,
        delta: 1,
    };
    let mut completions = vec![Completion::default(); DEPTH as usize];
    let (mut posted, mut done) = (0_u64, 0_u64);
    let mut began: Option<(Instant, u64)> = None;
    let mut ended: Option<(Instant, u64)> = None;
    let (mut next_poll, mut fruitless, mut last) = (0, 0_u64, Instant::now());
    // The end may come when everything that was posted is done.
    while ended.is_none() || done < posted {
        if ended.is_none() && verbs.outstanding() < DEPTH as usize {
            let room = DEPTH as usize - verbs.outstanding();
            let mut batch = verbs.batch();
            for _ in 0..room {
                batch
                    .post(&region, add, Mode::OnePhase, 0)
                    .context("posting a verb")?;
            }
            batch.ring().context("posting verbs")?;
            posted += room as u64;
        }
        let count = verbs
            .try_poll(&mut completions)
            .context("polling for verbs")?;
        if count == 0 {
            if shared {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            fruitless += 1;
            if fruitless.is_multiple_of(POLLS_PER_CHECK) {
                stop::check()?;
                ensure!(
                    last.elapsed() < PATIENCE,
                    "{} verbs are not answered",
                    posted - done
                );
            }
            continue;
        }
        fruitless = 0;
        for completion in &completions[..count] {
            if !matches!(completion.outcome, Outcome::Old(_)) {
                bail!("a fetch-and-add ended with {:?}", completion.outcome);
            }
        }
        done += count as u64;
        if done < next_poll {
            continue;
        }
        next_poll = done + VERBS_PER_POLL;
        last = Instant::now();
        stop::check()?;
        match began {
            None if done >= WARM_UP => began = Some((Instant::now(), done)),
            Some((start, _)) if ended.is_none() && start.elapsed() >= slice => {
                ended = Some((Instant::now(), done));
            }
            _ => {}
        }
    }
    let ((start, before), (end, after)) = began.zip(ended).context("nothing was measured")?;
    let rate = (after - before) as f64 / (end - start).as_secs_f64() / 1e6;
    Ok((posted, rate))
}
