//! The share of their cores that lanes use while idle.

use std::{path::Path, time::Duration};

use covalent_api::status::LaneStatus;
use covalent_config::{Config, Idle};

use super::{facts::Running, finding::Finding};

/// Percent of a core that an idle lane may use, unless it is configured to spin forever.
const REST_PERCENT_MAX: u64 = 25;

/// Percent of the time with work below which a lane is at rest.
const WORK_PERCENT_MIN: u64 = 10;

/// Microseconds of idle polling above which a lane hardly ever sleeps: half the tick of an idle
/// link.
const SPIN_US_LONG: u32 = 10_000;

/// How a daemon calls lanes that spin for ever.
const POLL: &str = "poll";

/// Returns the CPU use of each lane of a running node between the two queries.
pub fn lanes(config: &Config, running: &Running, file: &Path) -> Vec<Finding> {
    let (before, after) = (&running.before.lanes, &running.after.lanes);
    let pairs = before.iter().zip(after);
    pairs
        .filter(|(before, after)| before.lane == after.lane)
        .map(|(before, after)| lane(config, before, after, running.between, file))
        .collect()
}

fn lane(
    config: &Config,
    before: &LaneStatus,
    after: &LaneStatus,
    between: Duration,
    file: &Path,
) -> Finding {
    let check = format!("lane {}: at rest", after.lane);
    let percent = |ns: u64| {
        let between = u64::try_from(between.as_nanos()).unwrap_or(u64::MAX).max(1);
        (ns.saturating_mul(100) / between).min(100)
    };
    let taken = percent(after.cpu_ns.saturating_sub(before.cpu_ns));
    let working = percent(after.busy_ns.saturating_sub(before.busy_ns));
    let found = format!("{taken} % of a core, work in {working} % of the time");
    if after.idle == POLL {
        return Finding::fine(
            check,
            format!("{found}; idle = \"poll\" takes a whole core, busy or not"),
        );
    }
    if taken < REST_PERCENT_MAX || working >= WORK_PERCENT_MIN {
        return Finding::fine(check, found);
    }
    let file = file.display();
    let spin_us = config.dataplane.spin_us;
    if config.dataplane.idle == Idle::Adaptive && spin_us >= SPIN_US_LONG {
        return Finding::warning(
            check,
            format!(
                "{found}: dataplane.spin_us = {spin_us} has it spin for longer than the pauses \
                 between frames"
            ),
            format!("spin_us = 50 in {file}, then: covalent reload --config {file}"),
        );
    }
    Finding::warning(
        check,
        format!("{found}: something wakes it all the time"),
        "covalent monitor shows which port or pipe moves; a port that cannot wake a lane \
         (kind \"dpdk\" without receive interrupts) is polled",
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Level, samples},
        *,
    };

    fn finding(idle: Idle, spin_us: u32, cpu_ms: u64, busy_ms: u64) -> Finding {
        let mut config = samples::cable_config();
        config.dataplane.idle = idle;
        config.dataplane.spin_us = spin_us;
        let mut running = samples::running();
        running.between = Duration::from_millis(250);
        let (before, after) = (&running.before.lanes[0], &mut running.after.lanes[0]);
        after.idle = match idle {
            Idle::Poll => POLL,
            Idle::Adaptive => "adaptive",
            Idle::Interrupt => "interrupt",
        }
        .into();
        after.cpu_ns = before.cpu_ns + cpu_ms * 1_000_000;
        after.busy_ns = before.busy_ns + busy_ms * 1_000_000;
        lanes(&config, &running, Path::new("/etc/my.toml")).remove(0)
    }

    #[test]
    fn a_lane_that_burns_a_core_is_reported_with_the_responsible_key() {
        assert_eq!(finding(Idle::Adaptive, 50, 5, 1).level, Level::Fine);
        assert_eq!(finding(Idle::Adaptive, 50, 240, 200).level, Level::Fine);
        assert_eq!(finding(Idle::Poll, 50, 250, 0).level, Level::Fine);
        let spins = finding(Idle::Adaptive, 1_000_000, 250, 1);
        assert_eq!(spins.level, Level::Warning);
        assert!(
            spins.found.contains("100 % of a core") && spins.found.contains("spin_us = 1000000")
        );
        assert!(
            spins
                .cure
                .ends_with("covalent reload --config /etc/my.toml")
        );
        let woken = finding(Idle::Interrupt, 50, 250, 1);
        assert!(woken.level == Level::Warning && woken.cure.contains("covalent monitor"));
    }
}
