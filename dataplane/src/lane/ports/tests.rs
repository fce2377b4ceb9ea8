//! A lane driven by hand, round by round.
#![allow(clippy::unwrap_used)]

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
};

use covalent_api::status::PortStatus;
use covalent_config::Config;

use crate::{
    identity::Identity,
    lane::{
        Lane,
        command::{Command, Order, Report},
        new_port::NewPort,
        played_port::{Part, PlayedPort},
    },
    mailbox::Mailbox,
    port::{Port, PortError, PortInfo},
};

/// The test's view of a port that it has given away.
#[derive(Debug, Default)]
struct Seen {
    /// Its device is to be gone from now on.
    doomed: AtomicBool,
    /// The thread that closed it.
    closed_by: Mutex<Option<ThreadId>>,
}

/// Receives one frame in each round until its device goes.
struct Mortal {
    seen: Arc<Seen>,
    may_close_elsewhere: bool,
}

impl Part for Mortal {
    const DROPS: &'static [(&'static str, u64)] = &[("rx_ring_full", 2)];

    fn burst(
        &mut self,
        info: &PortInfo,
        _: usize,
        frames: &mut Vec<Vec<u8>>,
    ) -> Result<(), PortError> {
        if self.seen.doomed.load(Ordering::Relaxed) {
            return Err(PortError::Gone {
                port: info.name.clone(),
                reason: "its device was taken out".into(),
            });
        }
        frames.push(vec![0xff; 64]);
        Ok(())
    }

    fn may_close_elsewhere(&self) -> bool {
        self.may_close_elsewhere
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        *self.seen.closed_by.lock().unwrap() = Some(thread::current().id());
    }
}

struct Stage {
    lane: Lane,
    orders: Arc<Mailbox<Order>>,
    reports: Arc<Mailbox<Report>>,
    seen: Arc<Seen>,
}

impl Stage {
    fn new(directory: &Path, may_close_elsewhere: bool) -> Self {
        let text = format!(
            "[node]\nname = \"a\"\nstate_dir = \"{}\"\n[dataplane]\nidle \
             = \"poll\"\n[[port]]\nname = \"p0\"\nkind = \"pcap\"\nlink = true\n",
            directory.display()
        );
        let config = Config::parse(&text, "test").unwrap();
        let identity = Identity::take(directory).unwrap();
        let seen = Arc::new(Seen::default());
        let port = PlayedPort::new(
            "p0",
            Mortal {
                seen: seen.clone(),
                may_close_elsewhere,
            },
        );
        let ports = vec![NewPort::new(3, &config.port[0], port)];
        let orders = Arc::new(Mailbox::new(8).unwrap());
        let reports = Arc::new(Mailbox::new(8).unwrap());
        let lane = Lane::new(
            &config,
            0,
            &identity,
            ports,
            None,
            (orders.clone(), reports.clone()),
        );
        Self {
            lane: lane.unwrap(),
            orders,
            reports,
            seen,
        }
    }

    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.lane.round();
        }
    }

    fn port(&mut self) -> PortStatus {
        self.lane.snapshot().ports.remove(0).1
    }

    fn closed_by(&self) -> Option<ThreadId> {
        *self.seen.closed_by.lock().unwrap()
    }

    /// Returns the remains of ports that the lane reported to the host thread.
    fn remains(&self) -> Vec<Option<Box<dyn Port>>> {
        std::iter::from_fn(|| self.reports.pop())
            .filter_map(|report| match report {
                Report::PortGone {
                    port: 3,
                    reason,
                    remains,
                } => {
                    assert_eq!(reason, "its device was taken out");
                    Some(remains)
                }
                _ => None,
            })
            .collect()
    }
}

#[test]
fn a_lane_closes_no_port_and_its_counts_continue() {
    let directory = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(directory.path(), true);
    stage.rounds(5);
    let before = stage.port();
    assert_eq!((before.number, before.rx_packets), (3, 5));
    assert!(before.carrier && before.absent.is_none());

    stage.seen.doomed.store(true, Ordering::Relaxed);
    stage.rounds(5);
    assert_eq!(stage.closed_by(), None, "closing takes longer than a round");
    let after = stage.port();
    assert_eq!(after.absent.as_deref(), Some("its device was taken out"));
    assert!(!after.carrier);
    assert_eq!((after.rx_packets, after.drops["rx_ring_full"]), (5, 2));
    let (name, kind) = (after.name.as_str(), after.kind.as_str());
    assert_eq!((name, kind, after.number), ("p0", "pcap", 3));

    let mut remains = stage.remains();
    assert_eq!(remains.len(), 1, "reported once");
    let remains = remains.remove(0).expect("it may be closed elsewhere");
    assert_eq!(stage.closed_by(), None);
    let closer = thread::spawn(move || drop(remains));
    let closer_id = closer.thread().id();
    closer.join().unwrap();
    assert_eq!(stage.closed_by(), Some(closer_id));
}

#[test]
fn a_port_that_only_its_lane_may_close_is_kept_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(directory.path(), false);
    stage.seen.doomed.store(true, Ordering::Relaxed);
    stage.rounds(3);
    assert!(matches!(stage.remains()[..], [None]));
    assert_eq!(stage.closed_by(), None);
    let seen = stage.seen.clone();
    drop(stage);
    assert!(seen.closed_by.lock().unwrap().is_some());
}

#[test]
fn a_port_whose_interface_is_reported_gone_is_lost_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(directory.path(), true);
    for ticket in 0..2 {
        let reason = "its device was taken out".to_owned();
        let command = Command::LosePort { port: 3, reason };
        stage.orders.push(Order { ticket, command }).unwrap();
    }
    stage.rounds(3);
    assert_eq!(stage.remains().len(), 1);
    assert!(stage.port().absent.is_some());
    let command = Command::SetPort {
        port: 3,
        enabled: true,
    };
    stage.orders.push(Order { ticket: 9, command }).unwrap();
    stage.rounds(1);
    let answer = std::iter::from_fn(|| stage.reports.pop()).find_map(|report| match report {
        Report::Answer { ticket: 9, result } => Some(result.unwrap_err()),
        _ => None,
    });
    let answer = answer.expect("an answer");
    assert!(
        answer.contains("`p0`: its device was taken out"),
        "{answer}"
    );
}
