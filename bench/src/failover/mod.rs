//! How long verbs wait when one of two links is cut.
//!
//! ```text
//!   application ◄─► covalentd a's lane (near core) ◄══ veth 0 ══► b's lane (far core) ─► region
//!                                                  ◄══ veth 1 ══►
//! ```
//! Two daemons with two links over AF_XDP run as in production. An application keeps additions open
//! at the other node. The benchmark cuts one link, restores it once all open verbs have ended, then
//! does the same with the other link. It repeats this for each kind of cut. The clock starts just
//! before the call that cuts, so the duration of that call is included. At the end the word must
//! equal the number of verbs: none was lost and none was executed twice.
//!
//! TCP has no second link to fail over to. It runs on one cable that is cut and restored, beside a
//! message of ours, as in [`loss`]. That figure is the time to recover.

mod gap;
mod load;
pub mod results;
mod way;

use std::{
    path::Path,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use covalent::{Client, Device, Mode, Rights};
use covalent_api::event::EventKind;

pub use self::results::{Results, Run};
use self::{
    gap::{Span, gap},
    load::{Order, REGION, Watch},
    results::{Cut, Setup},
    way::{LinkCutter, Method},
};
use crate::{
    against::{self, Candidate},
    arguments::Failover,
    beside::join,
    cores::Cores,
    host::Host,
    interfaces::Interfaces,
    kept::now_unix_ms,
    loss::{self, Loss, Severed},
    node::{Node, Plan, find_daemon},
    report::Suite as _,
    stage::Stage,
    stop, watch,
};

/// The links' ports at either end.
const NEAR: [&str; 2] = ["a0", "a1"];
const FAR: [&str; 2] = ["b0", "b1"];

/// An idle link sends a keepalive every 20 ms. Each cut happens at a different point of this
/// interval.
const IDLE_TICK: Duration = Duration::from_millis(20);

/// Time before each cut, so that both links carry load.
const WARM_UP: Duration = Duration::from_millis(2);

/// How long round trips are measured before the first cut.
const ROUND_TRIPS_FOR: Duration = Duration::from_millis(300);

/// Timeout for an event to be reported and for a link to come up again.
const PATIENCE: Duration = Duration::from_secs(10);

/// For the other systems' single cable: the maximum number of cuts of each kind, their length, and
/// the requests per second.
const CABLE_CUTS: u32 = 10;
const CABLE_CUT_MS: u64 = 100;
const CABLE_RATE: f64 = 5000.0;

/// Measures all kinds of cuts in turn and prints the results. Returns whether every goal is met.
pub fn measure(arguments: &Failover) -> Result<bool> {
    let peers = peers(&arguments.against.against)?;
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let began_unix_ms = now_unix_ms();
    let (host, machine, cores) = (Host::observed(), watch::Watch::begin()?, Cores::choose()?);
    let stage = Stage::build(2, 1)?;
    let (a, b) = start(&stage, cores, arguments, &daemon)?;
    let owner = Device::attach(b.socket(), "bench-region").context("attaching to covalentd b")?;
    let word = owner
        .register_region(REGION, 64, Rights::ALL)
        .context("registering a region")?;
    let watch = Watch::new();
    let (orders, taken) = mpsc::channel();
    let (report, reported) = mpsc::channel();
    let (measured, posted) = thread::scope(|scope| {
        let socket = a.socket();
        let watch = &watch;
        let application = scope.spawn(move || load::run(&socket, cores, watch, &taken, &report));
        let measured = Cutter::new(&stage, [&a, &b], watch, &orders, &reported)
            .and_then(|mut cutter| cutter.cut_all(arguments));
        drop(orders);
        // If the application failed too, its error is the cause, so return that one.
        let posted = join(application)?;
        Ok::<_, anyhow::Error>((measured?, posted))
    })?;
    let found = word.load(0).context("reading the word")?;
    ensure!(
        found == posted,
        "the word is {found} after {posted} additions"
    );
    let port = a.status()?.ports.into_iter().next();
    let (application_core, application_shares) = cores.application_beside(cores.near);
    let host = host.seen_by(machine)?;
    let mut run = Run {
        setup: Setup {
            repeats: Some(measured.repeats),
            spread_max: arguments.repeats.spread_max,
            open: arguments.open,
            ring_slots: arguments.ring_slots,
            event_ratio: arguments.event_ratio,
            idle: "poll".to_owned(),
            mode: port.context("the daemon has no port")?.mode,
            near_core: cores.near,
            far_core: cores.far,
            application_core,
            application_shares,
            daemons: vec![a.command(), b.command()],
        },
        round_trip_ns: measured.round_trip_ns,
        verbs: posted,
        sides: results::sides(&measured.cuts)?,
        severed: None,
        cuts: measured.cuts,
    };
    drop((a, b, stage));
    run.severed = severed(arguments, &peers)?;
    Results::new(began_unix_ms, host, run).finish(&arguments.output)
}

/// Returns the other systems among `wanted`, which have no second link to fail over to.
fn peers(wanted: &[String]) -> Result<Vec<String>> {
    let peer = |name| Candidate {
        name,
        is_ours: false,
    };
    let ours = Candidate {
        name: "covalent-add",
        is_ours: true,
    };
    let candidates = [ours, peer("tcp"), peer("tcp-rto")];
    let names = against::chosen(wanted, Run::NAME, &candidates)?;
    Ok(names
        .into_iter()
        .filter(|name| *name != ours.name)
        .map(str::to_owned)
        .collect())
}

/// Measures them and a message of ours on one cable that is cut and restored. Returns `None`
/// if there are none.
fn severed(arguments: &Failover, peers: &[String]) -> Result<Option<Severed>> {
    if peers.is_empty() {
        return Ok(None);
    }
    let sides = [peers, &["covalent-message".to_owned()]].concat();
    loss::severed(&Loss {
        against: sides,
        parts_per_million: Vec::new(),
        cuts: arguments.cuts.min(CABLE_CUTS),
        cut_ms: CABLE_CUT_MS,
        size: 8,
        rate: CABLE_RATE,
        seconds: 1.0,
        repeats: 1,
        ring_slots: arguments.ring_slots,
        covalentd: arguments.covalentd.clone(),
        output: arguments.output.clone(),
    })
    .map(Some)
}

fn start(stage: &Stage, cores: Cores, arguments: &Failover, daemon: &Path) -> Result<(Node, Node)> {
    let settings: Vec<_> = arguments
        .event_ratio
        .map(|ratio| ("event_ratio", ratio))
        .into_iter()
        .collect();
    let start = |name, namespace, core, interfaces, faulty| {
        let plan = Plan {
            name,
            idle: "poll",
            core: Some(core),
            interfaces,
            cables: &[],
            link: true,
            ring_slots: arguments.ring_slots,
            link_settings: &settings,
            faulty,
        };
        Node::start(daemon, namespace, &plan)
    };
    let a = start("a", &stage.a, cores.near, &NEAR, true)?;
    let b = start("b", &stage.b, cores.far, &FAR, false)?;
    a.wait_for_links()?;
    b.wait_for_links()?;
    Ok((a, b))
}

/// The measurements.
struct Measured {
    round_trip_ns: u64,
    cuts: Vec<Cut>,
    repeats: u32,
}

/// Cuts links, restores them and records the results.
struct Cutter<'a> {
    nodes: [&'a Node; 2],
    link_cutter: LinkCutter,
    events: Client,
    watch: &'a Watch,
    orders: &'a Sender<Order>,
    reported: &'a Receiver<Vec<Span>>,
    /// Failures of the link that is not cut, since the last cut was written down.
    others: u32,
}

impl<'a> Cutter<'a> {
    fn new(
        stage: &Stage,
        nodes: [&'a Node; 2],
        watch: &'a Watch,
        orders: &'a Sender<Order>,
        reported: &'a Receiver<Vec<Span>>,
    ) -> Result<Self> {
        let socket = nodes[0].socket();
        let client =
            || Client::connect(&socket, "bench-cutter").context("connecting to covalentd a");
        let mut events = client()?;
        events.subscribe().context("subscribing to events")?;
        Ok(Self {
            nodes,
            link_cutter: LinkCutter {
                daemon: client()?,
                interfaces: [
                    Interfaces::open(&stage.a, &NEAR)?,
                    Interfaces::open(&stage.b, &FAR)?,
                ],
            },
            events,
            watch,
            orders,
            reported,
            others: 0,
        })
    }

    fn cut_all(&mut self, arguments: &Failover) -> Result<Measured> {
        let round_trip_ns = self.round_trip()?;
        let each = arguments.cuts.div_ceil(arguments.repeats.least);
        let (mut cuts, mut repeats, mut turn) = (Vec::new(), 0, 0);
        while arguments
            .repeats
            .continues(repeats, results::medians(&cuts, repeats).iter())
        {
            for _ in 0..each {
                for way in Method::ALL {
                    stop::check()?;
                    cuts.push(self.cut(way, turn, arguments.open)?);
                }
                turn += 1;
            }
            repeats += 1;
        }
        Ok(Measured {
            round_trip_ns,
            cuts,
            repeats,
        })
    }

    /// The median round trip of one verb at a time, in nanoseconds.
    fn round_trip(&mut self) -> Result<u64> {
        let order = Order {
            mode: Mode::OnePhase,
            open: 1,
        };
        self.order(order)?;
        stop::sleep(ROUND_TRIPS_FOR)?;
        self.watch.sure();
        let mut took: Vec<u64> = self
            .spans()?
            .iter()
            .map(|span| span.done_ns - span.posted_ns)
            .collect();
        took.sort_unstable();
        took.get(took.len() / 2)
            .copied()
            .context("no verb was done before the first cut")
    }

    /// Cuts one link and restores it once all open verbs have ended.
    fn cut(&mut self, way: Method, turn: u32, open: u32) -> Result<Cut> {
        let at = (turn % 2) as usize;
        let two_phase = turn / 2 % 2 == 1;
        self.order(Order {
            mode: if two_phase {
                Mode::TwoPhase
            } else {
                Mode::OnePhase
            },
            open: open as usize,
        })?;
        stop::sleep(WARM_UP + IDLE_TICK.mul_f64(moment(turn)))?;
        let requested_ns = self.watch.now_ns();
        let requested_realtime_ns = realtime_ns();
        self.link_cutter.set(way, at, NEAR[at], true)?;
        let sure_ns = self.watch.sure();
        let spans = self.spans()?;
        let noticed = match way {
            Method::Uncut => None,
            _ => Some(self.noticed(NEAR[at])?),
        };
        self.link_cutter.set(way, at, NEAR[at], false)?;
        self.wait_for_links()?;
        self.drain_events(NEAR[at])?;
        let gap = gap(&spans, requested_ns, sure_ns);
        Ok(Cut {
            way,
            link: at,
            two_phase,
            verbs: spans.len(),
            cutting_ns: sure_ns - requested_ns,
            // Without a cut, no verb is overtaken on a dead link.
            first_ns: gap.first_ns.filter(|_| way != Method::Uncut),
            longest_ns: gap.longest_ns,
            noticed_ns: noticed
                .as_ref()
                .map(|noticed| noticed.realtime_ns.saturating_sub(requested_realtime_ns)),
            reason: noticed.map(|noticed| noticed.reason),
            others: std::mem::take(&mut self.others),
        })
    }

    fn order(&self, order: Order) -> Result<()> {
        self.watch.begin();
        self.orders
            .send(order)
            .context("the application ended early")
    }

    fn spans(&self) -> Result<Vec<Span>> {
        self.reported.recv().context("the application ended early")
    }

    /// Returns the near daemon's report of the failure of the link on `port`.
    fn noticed(&mut self, port: &str) -> Result<Noticed> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let event = self
                .events
                .next_event(deadline)
                .context("waiting for a daemon to notice a cut")?;
            if let Some(reason) = self.failed(&event.kind, port) {
                return Ok(Noticed {
                    reason,
                    realtime_ns: event.realtime_ns,
                });
            }
        }
    }

    /// Takes the events that have come.
    fn drain_events(&mut self, port: &str) -> Result<()> {
        loop {
            match self.events.next_event(Duration::ZERO) {
                Ok(event) => {
                    self.failed(&event.kind, port);
                }
                Err(covalent::Error::Deadline { .. }) => return Ok(()),
                Err(error) => return Err(error).context("reading a daemon's events"),
            }
        }
    }

    /// Why the link on `port` failed, if that is the event. The failure of another one is counted.
    fn failed(&mut self, event: &EventKind, port: &str) -> Option<String> {
        match event {
            EventKind::LinkDown {
                port: found,
                reason,
                ..
            } if found == port => Some(reason.clone()),
            EventKind::LinkDown { .. } => {
                self.others += 1;
                None
            }
            _ => None,
        }
    }

    fn wait_for_links(&self) -> Result<()> {
        self.nodes.iter().try_for_each(|node| node.wait_for_links())
    }
}

/// How and when a daemon noticed a cut.
struct Noticed {
    reason: String,
    realtime_ns: u64,
}

/// Position of the cut of a turn within the keepalive interval, as a fraction. Positions are evenly
/// spread for any number of turns.
fn moment(turn: u32) -> f64 {
    const GOLDEN_RATIO: f64 = 0.618_033_988_749_894_9;
    (f64::from(turn) * GOLDEN_RATIO).fract()
}

fn realtime_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_spread_over_an_idle_tick() {
        let mut moments: Vec<f64> = (0..100).map(moment).collect();
        moments.sort_by(f64::total_cmp);
        assert!(moments[0] >= 0.0 && moments[99] < 1.0);
        assert!(moments.windows(2).all(|pair| pair[1] - pair[0] < 0.03));
    }
}
