//! Decides which port is reopened next, and when to stop trying. No I/O here.

use std::{collections::BTreeMap, fmt};

use covalent_api::{
    control::InterfaceStatus,
    outdated::{Outdated, outdated},
    status::PortStatus,
};
use tokio::time::{Duration, Instant};

/// Maximum number of attempts while the facts stay the same.
pub const ATTEMPTS_MAX: u32 = 8;

/// Pause between the first attempt and the second. Each pause doubles, so all of them together take
/// about twelve seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// After this time without a problem, a port's attempts are forgotten: a later problem is a new
/// one.
const STEADY: Duration = Duration::from_secs(60);

/// A problem of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ailment {
    /// It has no device, for the reason that the daemon reports.
    Absent(String),
    /// It does not match its interface.
    Outdated(Outdated),
}

impl fmt::Display for Ailment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(_) => write!(f, "it has no device"),
            Self::Outdated(why) => why.fmt(f),
        }
    }
}

/// The next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Have this port opened again.
    Reopen {
        /// Its name.
        port: String,
        /// Why.
        why: Ailment,
    },
    /// The attempts are exhausted: report it.
    GiveUp {
        /// Its name.
        port: String,
        /// The remaining problem.
        why: Ailment,
    },
    /// Nothing, until there is news, or this moment.
    Wait(Option<Instant>),
}

/// History of ports that have a problem or had one recently.
#[derive(Debug, Default)]
pub struct Healing {
    cases: BTreeMap<String, Case>,
}

#[derive(Debug)]
struct Case {
    facts: Facts,
    attempts: u32,
    /// The next attempt is not made before.
    not_before: Instant,
    /// Since when it is well; `None`: it is not.
    well_since: Option<Instant>,
    reported: bool,
}

/// Properties of an interface that decide whether a port can be opened on it. Excludes the program,
/// because each port attaches its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    index: Option<u32>,
    admin_up: bool,
    mtu_bytes: u32,
    address: Option<String>,
    receiving: Option<u32>,
}

impl Facts {
    /// Of an interface.
    #[must_use]
    pub fn of(seen: &InterfaceStatus) -> Self {
        Self {
            index: seen.index,
            admin_up: seen.admin_up,
            mtu_bytes: seen.mtu_bytes,
            address: seen.address.clone(),
            receiving: seen.channels.map(|channels| channels.receiving()),
        }
    }
}

impl Healing {
    /// The next action, from the daemon's `ports` and the kernel's `interfaces`. The caller must
    /// complete a returned reopening before it calls this again.
    pub fn next(
        &mut self,
        ports: &[PortStatus],
        interfaces: &[InterfaceStatus],
        now: Instant,
    ) -> Next {
        self.cases
            .retain(|name, _| ports.iter().any(|port| port.name == *name));
        let mut wait: Option<Instant> = None;
        for port in ports {
            let seen = interfaces.iter().find(|seen| seen.port == port.name);
            let Some(why) = ailment(port, seen) else {
                if let Some(case) = self.cases.get_mut(&port.name) {
                    case.well_since.get_or_insert(now);
                }
                continue;
            };
            let facts = seen.map(Facts::of).unwrap_or_default();
            let case = self.case(&port.name, facts, now);
            if case.attempts >= ATTEMPTS_MAX {
                if !std::mem::replace(&mut case.reported, true) {
                    let port = port.name.clone();
                    return Next::GiveUp { port, why };
                }
            } else if case.not_before <= now {
                case.not_before = now + FIRST_PAUSE * (1 << case.attempts);
                case.attempts += 1;
                let port = port.name.clone();
                return Next::Reopen { port, why };
            } else {
                wait = Some(wait.map_or(case.not_before, |at| at.min(case.not_before)));
            }
        }
        Next::Wait(wait)
    }

    /// The case of a port that is not well.
    fn case(&mut self, port: &str, facts: Facts, now: Instant) -> &mut Case {
        let is_old = |case: &Case| {
            let steady = case.well_since.is_some_and(|since| now >= since + STEADY);
            case.facts != facts || steady
        };
        if self.cases.get(port).is_some_and(is_old) {
            self.cases.remove(port);
        }
        let case = self.cases.entry(port.to_owned()).or_insert(Case {
            facts,
            attempts: 0,
            not_before: now,
            well_since: None,
            reported: false,
        });
        case.well_since = None;
        case
    }

    /// Discards an attempt, because no daemon received the offer.
    pub fn take_back(&mut self, port: &str, now: Instant) {
        if let Some(case) = self.cases.get_mut(port) {
            case.attempts = case.attempts.saturating_sub(1);
            case.not_before = now + FIRST_PAUSE;
        }
    }

    /// The operator reports a repair: forget all attempts.
    pub fn forget(&mut self) {
        self.cases.clear();
    }

    /// Number of ports that are no longer tried.
    #[must_use]
    pub fn given_up(&self) -> usize {
        let cases = self.cases.values();
        cases
            .filter(|case| case.reported && case.well_since.is_none())
            .count()
    }
}

/// The problem of a port that reopening may cure. `None`: there is none, or nothing to open it on
/// yet.
fn ailment(port: &PortStatus, seen: Option<&InterfaceStatus>) -> Option<Ailment> {
    let absent = || port.absent.clone().map(Ailment::Absent);
    match (port.kind.as_str(), seen) {
        ("cable", _) => absent(),
        // Do not bind a socket to an interface that is down. If control may not set it up, an
        // administrator will.
        ("af_xdp", Some(seen)) if seen.index.is_some() && seen.admin_up => absent().or_else(|| {
            let why = outdated(port.facts.as_ref()?, seen)?;
            Some(Ailment::Outdated(why))
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use covalent_api::{
        agreement::PortFacts,
        control::XdpProgram,
        status::{Causes, PortMode},
    };

    use super::*;

    fn port(name: &str, kind: &str) -> PortStatus {
        PortStatus {
            name: name.into(),
            number: 0,
            kind: kind.into(),
            interface: None,
            absent: None,
            facts: (kind == "af_xdp").then(|| PortFacts {
                index: 7,
                address: "02:00:00:00:00:01".into(),
                mtu_bytes: 1500,
                queues: 1,
                all_queues: true,
                program_id: 40,
            }),
            lane: 0,
            carrier: true,
            mode: PortMode {
                xdp: "native".into(),
                zero_copy: false,
                need_wakeup: true,
                page_bytes: 4096,
                queues: 1,
            },
            frame_bytes_max: 1514,
            rx_packets: 0,
            rx_bytes: 0,
            tx_packets: 0,
            tx_bytes: 0,
            passed_to_kernel_packets: 0,
            drops: Causes::new(),
            refusals: Causes::new(),
            faults: Causes::new(),
            device_counts: Causes::new(),
            device_events: Causes::new(),
            xdp_counts: Causes::new(),
            tx_room_frames: 4,
        }
    }

    fn seen(port: &str) -> InterfaceStatus {
        InterfaceStatus {
            index: Some(7),
            admin_up: true,
            mtu_bytes: 1500,
            address: Some("02:00:00:00:00:01".into()),
            programs: vec![XdpProgram {
                mode: "native".into(),
                id: 40,
            }],
            ..InterfaceStatus::absent(port, "v0")
        }
    }

    fn absent(name: &str) -> PortStatus {
        PortStatus {
            absent: Some("it was removed".into()),
            facts: None,
            ..port(name, "af_xdp")
        }
    }

    fn reopened(next: Next) -> String {
        match next {
            Next::Reopen { port, .. } => port,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn healthy_ports_are_left_alone() {
        let now = Instant::now();
        let mut healing = Healing::default();
        let mut next = |port: &PortStatus, seen: &[InterfaceStatus]| {
            healing.next(std::slice::from_ref(port), seen, now)
        };
        let well = port("p0", "af_xdp");
        assert_eq!(next(&well, &[seen("p0")]), Next::Wait(None));
        assert_eq!(next(&port("p0", "cable"), &[]), Next::Wait(None));
        // Nothing to open it on, or not yet.
        let mut down = seen("p0");
        down.admin_up = false;
        for nowhere in [InterfaceStatus::absent("p0", "v0"), down] {
            assert_eq!(next(&absent("p0"), &[nowhere]), Next::Wait(None));
        }
        assert_eq!(next(&absent("p0"), &[]), Next::Wait(None));
        assert_eq!(next(&absent("p0"), &[seen("p1")]), Next::Wait(None));
        // Kinds that are not opened again while the daemon runs.
        for kind in ["dpdk", "pcap", "lane"] {
            let gone = PortStatus {
                kind: kind.into(),
                ..absent("p0")
            };
            assert_eq!(next(&gone, &[seen("p0")]), Next::Wait(None));
        }
    }

    #[test]
    fn absent_and_outdated_ports_are_reopened_one_by_one() {
        let now = Instant::now();
        let mut healing = Healing::default();
        let mut changed = seen("p1");
        changed.mtu_bytes = 1400;
        let cable = PortStatus {
            kind: "cable".into(),
            ..absent("p2")
        };
        let ports = [absent("p0"), port("p1", "af_xdp"), cable];
        let interfaces = [seen("p0"), changed.clone()];
        let first = Next::Reopen {
            port: "p0".into(),
            why: Ailment::Absent("it was removed".into()),
        };
        assert_eq!(healing.next(&ports, &interfaces, now), first);
        let mtu = Outdated::Mtu {
            was: 1500,
            is: 1400,
        };
        let second = Next::Reopen {
            port: "p1".into(),
            why: Ailment::Outdated(mtu),
        };
        assert_eq!(healing.next(&ports, &interfaces, now), second);
        assert_eq!(reopened(healing.next(&ports, &interfaces, now)), "p2");
        let pause = Next::Wait(Some(now + FIRST_PAUSE));
        assert_eq!(healing.next(&ports, &interfaces, now), pause);
    }

    /// Attempts until it is given up, and when the last was made.
    fn attempts(healing: &mut Healing, seen: &InterfaceStatus, mut now: Instant) -> (u32, Instant) {
        let mut count = 0;
        loop {
            match healing.next(&[absent("p0")], std::slice::from_ref(seen), now) {
                Next::Reopen { .. } => count += 1,
                Next::Wait(Some(at)) => {
                    assert!(at > now);
                    now = at;
                }
                Next::GiveUp { .. } => return (count, now),
                Next::Wait(None) => panic!("neither tried nor given up after {count}"),
            }
            assert!(count <= ATTEMPTS_MAX);
        }
    }

    #[test]
    fn the_same_facts_are_tried_a_few_times_and_given_up_once() {
        let start = Instant::now();
        let mut healing = Healing::default();
        let (count, end) = attempts(&mut healing, &seen("p0"), start);
        assert_eq!(count, ATTEMPTS_MAX);
        assert!(end < start + Duration::from_secs(20), "{:?}", end - start);
        assert_eq!(healing.given_up(), 1);
        // However often it is looked at: news of other things are no reason.
        let later = end + Duration::from_secs(3600);
        let mut carrier = seen("p0");
        carrier.carrier = true;
        carrier.programs.clear();
        for _ in 0..3 {
            let next = healing.next(&[absent("p0")], &[carrier.clone()], later);
            assert_eq!(next, Next::Wait(None));
        }
        // Other facts are.
        let mut other = seen("p0");
        other.mtu_bytes = 1400;
        let (count, end) = attempts(&mut healing, &other, later);
        assert_eq!(count, ATTEMPTS_MAX);
        // A reported repair is a reason too.
        healing.forget();
        assert_eq!(healing.given_up(), 0);
        assert_eq!(attempts(&mut healing, &other, end).0, ATTEMPTS_MAX);
    }

    #[test]
    fn an_unstable_port_is_not_reopened_for_ever() {
        let mut now = Instant::now();
        let mut healing = Healing::default();
        let well = port("p0", "af_xdp");
        let mut count = 0;
        for _ in 0..100 {
            if let Next::Reopen { .. } = healing.next(&[absent("p0")], &[seen("p0")], now) {
                count += 1;
            }
            // Opened, and gone again.
            assert_eq!(
                healing.next(std::slice::from_ref(&well), &[seen("p0")], now),
                Next::Wait(None)
            );
            now += Duration::from_secs(10);
        }
        assert_eq!(count, ATTEMPTS_MAX);
        // It was well long enough: this is something new.
        healing.next(std::slice::from_ref(&well), &[seen("p0")], now);
        now += STEADY;
        assert_eq!(
            reopened(healing.next(&[absent("p0")], &[seen("p0")], now)),
            "p0"
        );
    }

    #[test]
    fn a_reopening_that_was_not_requested_is_no_attempt() {
        let mut now = Instant::now();
        let mut healing = Healing::default();
        for _ in 0..100 {
            let next = healing.next(&[absent("p0")], &[seen("p0")], now);
            assert_eq!(reopened(next), "p0");
            healing.take_back("p0", now);
            now += FIRST_PAUSE;
        }
        // A port that is not configured any more is forgotten.
        assert_eq!(healing.next(&[], &[], now), Next::Wait(None));
        assert!(healing.cases.is_empty());
    }
}
