//! How long a fetch-and-add takes to another node and back.
//!
//! ```text
//!   bare client (near core) ◄══ veth ══► bare echo (far core)
//!   application ◄─► covalentd a's lane (near core) ◄══ veth ══► covalentd b's lane (far core) ─► region
//! ```
//! One at a time: the next leaves when the answer is there. A verb in one-phase mode crosses the cable once each way, as the echo does; in
//! two-phase mode twice each way. The goal is about the former, which moves the same frames; the latter is told beside it. Told beside it
//! is also how long the bare echo takes when a second thread asks for it: see [`hand_over`].

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use covalent_verbs::{
    Completion, Device, Mode, Outcome, RemoteRegion, Rights, Target, Verb, Verbs, status::PortMode,
};
use serde_json::json;

use crate::{
    arguments::Wire,
    bare_echo::{self, BURST, FRAME_BYTES, join},
    cores::{Cores, pin},
    hand_over,
    host::Host,
    node::{Node, Plan, find_daemon},
    report::{Report, SecondPeer, Setup},
    stage::Stage,
    trips::{Side, Slice},
};

const REGION: &str = "bench";

const GOAL: f64 = 2.0;

/// Measures all sides in turn.
pub fn measure(arguments: &Wire) -> Result<Report> {
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let host = Host::look();
    let cores = Cores::choose()?;
    let stage = Stage::build(1, 1)?;
    let (mut bare, mut handed) = (Side::new()?, Side::new()?);
    let (mut one, mut two) = (Side::new()?, Side::new()?);
    let mut running = None;
    for _ in 0..arguments.repeats {
        bare.add(bare_echo::slice(&stage, cores, arguments)?)?;
        handed.add(hand_over::slice(&stage, cores, arguments)?)?;
        let nodes = Nodes::start(&stage, cores, arguments, &daemon)?;
        one.add(nodes.slice(cores, arguments, Mode::OnePhase)?)?;
        two.add(nodes.slice(cores, arguments, Mode::TwoPhase)?)?;
        running = Some((nodes.mode()?, vec![nodes.a.command(), nodes.b.command()]));
    }
    let (mode, daemons) = running.context("nothing was measured")?;
    let (bare_us, our_us) = (bare.median_us()?, one.median_us()?);
    let ratio = our_us.median / bare_us.median;
    let (two_us, handed_us) = (two.median_us()?, handed.median_us()?);
    let ratio_to_hand_over = our_us.median / handed_us.median;
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
            "ratio_to_hand_over": ratio_to_hand_over,
            "round_trips": one.round_trips(),
        }),
        peer: json!({
            "echo": bare.json(&bare_us),
            "hand_over": handed.json(&handed_us),
            "p50_us": bare_us.median,
            "p99_us": bare.quantile_us(0.99),
            "p999_us": bare.quantile_us(0.999),
            "round_trips": bare.round_trips(),
        }),
        second_peer: Some(SecondPeer {
            name: "bare, asked by a second thread",
            figure: handed_us.median,
            ratio: ratio_to_hand_over,
        }),
        setup: Setup {
            ring_slots: arguments.ring_slots,
            burst: BURST,
            frame_bytes: FRAME_BYTES,
            idle: "poll",
            mode: Some(mode),
            slice_seconds: arguments.slice().as_secs_f64(),
            cores: format!(
                "client or asking lane on core {}, echo or answering lane on core {}, application or second thread on core {application}{}",
                cores.near,
                cores.far,
                if shared {
                    " (shared with the client or asking lane)"
                } else {
                    ""
                }
            ),
            daemons,
        },
        host,
    })
}

/// Two linked daemons.
struct Nodes {
    a: Node,
    b: Node,
}

impl Nodes {
    fn start(stage: &Stage, cores: Cores, arguments: &Wire, daemon: &Path) -> Result<Self> {
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

    fn slice(&self, cores: Cores, arguments: &Wire, mode: Mode) -> Result<Slice> {
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
                Slice::of(arguments.slice(), |deadline| {
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
                    outcome: Outcome::InDoubt(_),
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
