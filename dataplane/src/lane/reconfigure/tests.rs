#![allow(clippy::unwrap_used)]

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use covalent_api::rule::Rule;
use tempfile::TempDir;

use super::*;
use crate::{
    identity::Identity,
    lane::{
        command::{Command, Order},
        new_port::NewPort,
        played_port::{Part, PlayedPort},
    },
    mailbox::Mailbox,
    port::{PortError, PortInfo, SteerChange},
};

/// The state of the kernel below a test port.
#[derive(Debug, Default)]
struct Below {
    rules: HashMap<Match, Action>,
    miss: Option<Action>,
    changes: usize,
    /// Changes between two bursts.
    most_changes: usize,
    /// Capacity for rules.
    room: usize,
}

/// Records the steering changes of its port.
struct Noting(Arc<Mutex<Below>>);

impl Part for Noting {
    fn burst(&mut self, _: &PortInfo, _: usize, _: &mut Vec<Vec<u8>>) -> Result<(), PortError> {
        let mut below = locked(&self.0);
        below.most_changes = below.most_changes.max(below.changes);
        below.changes = 0;
        Ok(())
    }

    fn steer(&mut self, info: &PortInfo, change: &SteerChange) -> Result<(), PortError> {
        let mut below = locked(&self.0);
        below.changes += 1;
        match change {
            SteerChange::Insert(matches, action) => {
                if below.rules.len() >= below.room && !below.rules.contains_key(matches) {
                    return Err(PortError::Steering {
                        port: info.name.clone(),
                        source: "the table is full".into(),
                    });
                }
                below.rules.insert(matches.clone(), *action);
            }
            SteerChange::Remove(matches) => {
                below.rules.remove(matches);
            }
            SteerChange::Default(action) => below.miss = Some(*action),
        }
        Ok(())
    }
}

fn locked<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lane with two ports, and the mailboxes to it.
struct Played {
    lane: Lane,
    orders: Arc<Mailbox<Order>>,
    reports: Arc<Mailbox<Report>>,
    below: [Arc<Mutex<Below>>; 2],
    config: Config,
    _dir: TempDir,
}

impl Played {
    /// Starts with `rules`. The kernel below the second port has capacity for `room` rules.
    fn new(rules: &[Rule], room: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = "[node]\nname = \"a\"\n[dataplane]\nidle = \"poll\"\n\
             [[port]]\nname = \"p\"\nkind = \"pcap\"\n[[port]]\nname = \"q\"\nkind = \"pcap\"\n";
        let mut config = Config::parse(text, "test").unwrap();
        config.steer = rules.to_vec();
        let below = [usize::MAX, room].map(|room| {
            Arc::new(Mutex::new(Below {
                room,
                ..Below::default()
            }))
        });
        let orders = Arc::new(Mailbox::new(8).unwrap());
        let reports = Arc::new(Mailbox::new(8).unwrap());
        let identity = Identity::take(dir.path()).unwrap();
        let ports = (0..2)
            .map(|at| {
                let noting = PlayedPort::new("p", Noting(Arc::clone(&below[at])));
                NewPort::new(at as u16, &config.port[at], noting)
            })
            .collect();
        let lane = Lane::new(
            &config,
            0,
            &identity,
            ports,
            None,
            (Arc::clone(&orders), Arc::clone(&reports)),
        )
        .unwrap();
        Self {
            lane,
            orders,
            reports,
            below,
            config,
            _dir: dir,
        }
    }

    fn want(&self, wanted: &Config) -> Arc<LaneWant> {
        let policy = Arc::new(Policy::new(wanted));
        Arc::new(LaneWant {
            epoch: 1,
            tuning: LaneTuning::new(wanted, 0),
            changed: Policy::new(&self.config).differing(&policy),
            policy,
            faults: Vec::new(),
            removed: Vec::new(),
        })
    }

    /// Has the lane do something, and counts the rounds until it answers.
    fn have(&mut self, command: Command) -> (Stepped, usize) {
        let ticket = 1;
        assert!(self.orders.push(Order { ticket, command }).is_ok());
        for round in 1..1_000 {
            self.lane.round();
            while let Some(report) = self.reports.pop() {
                if let Report::Answer {
                    result: Ok(Answer::Stepped(stepped)),
                    ..
                } = report
                {
                    return (*stepped, round);
                }
            }
        }
        panic!("no answer");
    }

    fn rules(&self) -> [HashMap<Match, Action>; 2] {
        [0, 1].map(|at| locked(&self.below[at]).rules.clone())
    }
}

fn rules(range: std::ops::Range<u16>, action: Action) -> Vec<Rule> {
    let rule = |ethertype| Rule {
        matches: Match::EtherType { ethertype },
        action,
    };
    range.map(rule).collect()
}

fn map(rules: &[Rule]) -> HashMap<Match, Action> {
    let pairs = rules.iter();
    pairs
        .map(|rule| (rule.matches.clone(), rule.action))
        .collect()
}

#[test]
fn many_rules_change_over_several_rounds_and_are_committed_in_one() {
    let before = rules(0x2000..0x2100, Action::Drop);
    let mut played = Played::new(&before, usize::MAX);
    for below in &played.below {
        locked(below).changes = 0;
    }
    let mut wanted = played.config.clone();
    wanted.steer = rules(0x2080..0x2180, Action::Kernel);
    wanted.dataplane.miss = Action::Drop;
    wanted.dataplane.burst = 3;
    let want = played.want(&wanted);
    let (answer, _) = played.have(Command::Check(Arc::clone(&want)));
    assert!(answer.went.is_ok(), "{answer:?}");
    assert_eq!(played.rules(), [map(&before), map(&before)]);
    let (answer, rounds) = played.have(Command::Prepare(want, Vec::new()));
    assert_eq!(answer.went.unwrap().epoch, 0);
    // 128 that go, 256 that come or become another, and the misses, on two ports.
    assert!(rounds >= 2 * 385 / STEPS_PER_ROUND, "{rounds}");
    assert_eq!(played.rules(), [map(&wanted.steer), map(&wanted.steer)]);
    assert_eq!(played.lane.settings.burst, 64);
    let (answer, rounds) = played.have(Command::Commit);
    assert_eq!(answer.went.unwrap().epoch, 1);
    assert_eq!(rounds, 1);
    assert_eq!(played.lane.settings.burst, 3);
    for below in &played.below {
        let below = locked(below);
        assert_eq!(below.miss, Some(Action::Drop));
        assert!(below.most_changes <= STEPS_PER_ROUND, "{below:?}");
    }
}

#[test]
fn a_rule_that_a_kernel_refuses_is_undone_on_every_port() {
    let before = rules(0x2000..0x2040, Action::Drop);
    let mut played = Played::new(&before, 100);
    let mut wanted = played.config.clone();
    wanted.steer = rules(0x2020..0x2100, Action::Kernel);
    let want = played.want(&wanted);
    let (answer, _) = played.have(Command::Prepare(want, Vec::new()));
    let LaneObjection {
        matches, reason, ..
    } = answer.went.unwrap_err();
    assert!(matches.is_some() && reason.contains("full"), "{reason}");
    assert_eq!(played.rules(), [map(&before), map(&before)]);
    assert!(played.lane.housekeeping.change.is_none());
    // The lane commits no configuration that it has not prepared.
    let (answer, _) = played.have(Command::Commit);
    assert_eq!(answer.went.unwrap().epoch, 0);
}

#[test]
fn a_prepared_change_is_rolled_back_when_another_lane_refuses() {
    let before = rules(0x2000..0x2040, Action::Drop);
    let mut played = Played::new(&before, usize::MAX);
    let mut wanted = played.config.clone();
    wanted.steer = rules(0x2020..0x2060, Action::Kernel);
    wanted.dataplane.miss = Action::Drop;
    let want = played.want(&wanted);
    played.have(Command::Prepare(want, Vec::new()));
    let (answer, rounds) = played.have(Command::RollBack);
    assert!(answer.went.is_ok() && rounds > 1);
    assert_eq!(played.rules(), [map(&before), map(&before)]);
    assert_eq!(locked(&played.below[0]).miss, Some(Action::Kernel));
    assert!(played.lane.housekeeping.change.is_none());
    // Nothing is left of it.
    let (answer, rounds) = played.have(Command::RollBack);
    assert!(answer.went.is_ok() && rounds == 1);
}

mod ports;
