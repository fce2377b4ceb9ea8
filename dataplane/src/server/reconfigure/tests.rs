//! Changes of the configuration on two lanes that run, each step of which fails once.
#![allow(clippy::unwrap_used)]

use std::{
    collections::HashMap,
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use covalent_api::rule::{Action, Match, Rule};
use covalent_protocol::agreement::digest;
use tempfile::TempDir;

use super::*;
use crate::{
    fault_injection::FaultInjection,
    identity::Identity,
    lane::{
        Lane,
        command::{Answer, Order, Report},
        played_port::{Part, PlayedPort},
    },
    mailbox::Mailbox,
    port::{PortError, PortInfo, SteerChange},
};

/// How long lanes may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// A capture without frames.
const EMPTY_CAPTURE: [u8; 24] = [
    0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0,
];

/// The kernel below a test port.
#[derive(Debug, Default)]
struct Below {
    rules: HashMap<Match, Action>,
    /// Changes until the one that fails.
    fails_in: Option<usize>,
}

struct Noting(Arc<Mutex<Below>>);

impl Part for Noting {
    fn steer(&mut self, info: &PortInfo, change: &SteerChange) -> Result<(), PortError> {
        let mut below = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = below.fails_in {
            below.fails_in = left.checked_sub(1);
            if left == 0 {
                return Err(PortError::Steering {
                    port: info.name.clone(),
                    source: "the table is full".into(),
                });
            }
        }
        match change {
            SteerChange::Insert(matches, action) => {
                below.rules.insert(matches.clone(), *action);
            }
            SteerChange::Remove(matches) => {
                below.rules.remove(matches);
            }
            SteerChange::Default(_) => {}
        }
        Ok(())
    }
}

struct Thread {
    orders: Arc<Mailbox<Order>>,
    reports: Arc<Mailbox<Report>>,
    thread: Option<JoinHandle<()>>,
}

/// Two lanes. The first has a port `p`, and `c` that writes a capture; the second has a port `q`.
struct Running {
    lanes: Vec<Thread>,
    /// Below `p` and `q`.
    below: [Arc<Mutex<Below>>; 2],
    config: Arc<Config>,
    /// The commands, and whether they hold others back.
    log: Vec<(&'static str, bool)>,
    /// The daemon stops at this command.
    stops_at: usize,
    dir: TempDir,
}

impl Running {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), 0x2000..0x2010, Action::Drop, None);
        let identity = Identity::take(dir.path()).unwrap();
        let below: [Arc<Mutex<Below>>; 2] = Default::default();
        let port = |at: usize, below: &Arc<Mutex<Below>>| {
            let noting = PlayedPort::new(&config.port[at].name, Noting(Arc::clone(below)));
            NewPort::new(at as u16, &config.port[at], noting)
        };
        let of_lanes = [
            vec![port(0, &below[0]), port(2, &Arc::default())],
            vec![port(1, &below[1])],
        ];
        let lanes = (0..).zip(of_lanes).map(|(lane, ports)| {
            let orders = Arc::new(Mailbox::new(8).unwrap());
            let reports = Arc::new(Mailbox::new(64).unwrap());
            let ends = (Arc::clone(&orders), Arc::clone(&reports));
            let lane = Lane::new(&config, lane, &identity, ports, None, ends).unwrap();
            Thread {
                orders,
                reports,
                thread: Some(thread::spawn(move || lane.run())),
            }
        });
        Self {
            lanes: lanes.collect(),
            below,
            config: Arc::new(config),
            log: Vec::new(),
            stops_at: usize::MAX,
            dir,
        }
    }

    fn draft(&self, wanted: &Config) -> Draft {
        let text = wanted.to_toml().unwrap();
        let mut ports = PortTable::default();
        for port in &self.config.port {
            ports.add(port).unwrap();
        }
        Draft {
            digest: digest(text.as_bytes()),
            text,
            epoch: 1,
            now: Arc::clone(&self.config),
            epoch_now: 0,
            policy: Arc::new(Policy::new(&self.config)),
            ports,
            lanes: 2,
            faults: FaultInjection::Refused,
            reopen: Vec::new(),
        }
    }

    /// Other rules, and `c` with an input, for which it is closed first.
    fn wanted(&self) -> Config {
        let input = self.dir.path().join("input");
        fs::write(&input, EMPTY_CAPTURE).unwrap();
        config(
            self.dir.path(),
            0x2008..0x2018,
            Action::Kernel,
            Some(&input),
        )
    }

    fn rules(&self) -> [HashMap<Match, Action>; 2] {
        let of = |below: &Arc<Mutex<Below>>| below.lock().unwrap().rules.clone();
        [of(&self.below[0]), of(&self.below[1])]
    }

    /// What the lanes report: epochs, and the names of their ports, all of which are open.
    fn seen(&mut self) -> Vec<(u32, u64, Vec<String>)> {
        let want = |lane| {
            Arc::new(LaneWant {
                epoch: 9,
                tuning: LaneTuning::new(&self.config, lane),
                policy: Arc::new(Policy::new(&self.config)),
                changed: Vec::new(),
                faults: Vec::new(),
                removed: Vec::new(),
            })
        };
        let check = (0..2).map(|lane| (lane, Command::Check(want(lane))));
        let answers = self.execute(check.collect(), false).unwrap();
        let held = answers.into_iter().map(|(_, stepped)| {
            let held = stepped.went.unwrap();
            assert!(held.ports.iter().all(|port| port.open), "{held:?}");
            let names = held.ports.into_iter().map(|port| port.name);
            (held.lane, held.epoch, names.collect())
        });
        held.collect()
    }
}

impl Lanes for Running {
    fn execute(&mut self, commands: Vec<(u32, Command)>, holds: bool) -> Result<Answers, Stopped> {
        if self.log.len() == self.stops_at {
            return Err(Stopped);
        }
        let name = match commands[0].1 {
            Command::Check(_) => "check",
            Command::DetachPorts { .. } => "detach",
            Command::Prepare(..) => "prepare",
            Command::Commit => "commit",
            Command::RollBack => "roll back",
            _ => panic!("{commands:?}"),
        };
        self.log.push((name, holds));
        let lanes: Vec<_> = commands.iter().map(|(lane, _)| *lane).collect();
        for (lane, command) in commands {
            let order = Order { ticket: 1, command };
            assert!(self.lanes[lane as usize].orders.push(order).is_ok());
        }
        let end = Instant::now() + PATIENCE;
        let answer = |lane: u32| {
            while Instant::now() < end {
                if let Some(Report::Answer {
                    result: Ok(Answer::Stepped(stepped)),
                    ..
                }) = self.lanes[lane as usize].reports.pop()
                {
                    return *stepped;
                }
                thread::sleep(Duration::from_micros(100));
            }
            panic!("lane {lane} does not answer");
        };
        Ok(lanes.into_iter().map(|lane| (lane, answer(lane))).collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            let stop = Order {
                ticket: 0,
                command: Command::Stop,
            };
            let _ = lane.orders.push(stop);
            if let Some(thread) = lane.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

fn config(dir: &Path, rules: std::ops::Range<u16>, action: Action, input: Option<&Path>) -> Config {
    let input = input.map_or_else(String::new, |input| format!("input = {input:?}\n"));
    let text = format!(
        "[node]\nname = \"a\"\n[[lane]]\n[[lane]]\n\
         [[port]]\nname = \"p\"\nkind = \"pcap\"\n\
         [[port]]\nname = \"q\"\nkind = \"pcap\"\nlane = 1\n\
         [[port]]\nname = \"c\"\nkind = \"pcap\"\noutput = {:?}\n{input}",
        dir.join("output")
    );
    let mut config = Config::parse(&text, "test").unwrap();
    let rule = |ethertype| Rule {
        matches: Match::EtherType { ethertype },
        action,
    };
    config.steer = rules.map(rule).collect();
    config
}

fn map(config: &Config) -> HashMap<Match, Action> {
    let rules = config.steer.iter();
    rules
        .map(|rule| (rule.matches.clone(), rule.action))
        .collect()
}

/// The lanes hold this under `epoch`, whole.
fn assert_held(running: &mut Running, epoch: u64, config: &Config) {
    assert_eq!(running.rules(), [map(config), map(config)]);
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = [(0, epoch, names(&["p", "c"])), (1, epoch, names(&["q"]))];
    assert_eq!(running.seen(), expected);
}

const PREPARED: [(&str, bool); 3] = [("check", false), ("detach", false), ("prepare", true)];

#[test]
fn a_change_that_every_lane_prepares_is_committed_on_every_lane() {
    let mut running = Running::start();
    let wanted = running.wanted();
    let draft = running.draft(&wanted);
    let outcome = reconfigure(&draft, &mut running).unwrap();
    let entered = outcome.result.unwrap();
    assert_eq!(*entered.config, wanted);
    assert_eq!(entered.changed, ["port[2].input", "steer"]);
    assert_eq!((outcome.opened, outcome.unused.len()), (vec![2], 1));
    let commit = [("commit", true)];
    assert_eq!(running.log, [&PREPARED[..], &commit[..]].concat());
    assert_held(&mut running, 1, &wanted);
}

#[test]
fn a_failure_at_any_step_leaves_every_lane_as_it_was() {
    let mut refused = 0;
    for lane in 0..2 {
        for step in 0.. {
            let mut running = Running::start();
            running.below[lane].lock().unwrap().fails_in = Some(step);
            let wanted = running.wanted();
            let draft = running.draft(&wanted);
            let outcome = reconfigure(&draft, &mut running).unwrap();
            let Err(refusal) = outcome.result else {
                assert_held(&mut running, 1, &wanted);
                break;
            };
            refused += 1;
            assert_eq!(refusal, Refusal::Lane(lane as u32));
            assert!(outcome.objections[0].message.contains("full"));
            let back = [("roll back", false), ("prepare", true), ("commit", true)];
            assert_eq!(running.log, [&PREPARED[..], &back[..]].concat());
            assert_eq!((outcome.opened, outcome.absent), (vec![2], Vec::new()));
            let config = Arc::clone(&running.config);
            assert_held(&mut running, 0, &config);
        }
    }
    // 8 rules that go and 16 that come or become another, on each lane.
    assert_eq!(refused, 2 * 24);
}

#[test]
fn a_port_that_cannot_be_opened_in_place_of_another_leaves_that_one() {
    let mut running = Running::start();
    let missing = running.dir.path().join("missing");
    let wanted = config(
        running.dir.path(),
        0x2008..0x2018,
        Action::Kernel,
        Some(&missing),
    );
    let draft = running.draft(&wanted);
    let outcome = reconfigure(&draft, &mut running).unwrap();
    assert_eq!(outcome.result.unwrap_err(), Refusal::Unready);
    assert_eq!(outcome.objections[0].key, "port[2]");
    let back = [("prepare", true), ("commit", true)];
    assert_eq!(running.log, [&PREPARED[..2], &back[..]].concat());
    let config = Arc::clone(&running.config);
    assert_held(&mut running, 0, &config);
}

#[test]
fn a_detached_port_that_cannot_be_opened_as_it_was_leaves_a_placeholder() {
    let mut running = Running::start();
    let mut wanted = running.wanted();
    // A folder in place of both files.
    let output = running.dir.path().join("output");
    fs::create_dir(&output).unwrap();
    wanted.steer.clear();
    let draft = running.draft(&wanted);
    let outcome = reconfigure(&draft, &mut running).unwrap();
    assert_eq!(outcome.result.unwrap_err(), Refusal::Unready);
    let [(name, reason)] = &outcome.absent[..] else {
        panic!("{:?}", outcome.absent);
    };
    assert!(
        name == "c" && reason.contains("covalent reload"),
        "{reason}"
    );
    let port = &outcome.lanes[&0].ports[1];
    assert!(!port.open, "{port:?}");
    assert_eq!(
        running.rules(),
        [map(&running.config), map(&running.config)]
    );
}

#[test]
fn a_change_stops_with_the_daemon_at_any_step() {
    for stops_at in 0.. {
        let mut running = Running::start();
        running.stops_at = stops_at;
        let wanted = running.wanted();
        let draft = running.draft(&wanted);
        if reconfigure(&draft, &mut running).is_ok() {
            assert_eq!(stops_at, 4);
            break;
        }
        assert_eq!(running.log.len(), stops_at);
    }
}
