//! Lanes against cores.

use std::collections::BTreeSet;

use covalent_config::{Config, Idle};

use super::{
    facts::{Machine, Running},
    finding::Finding,
};

/// Returns the findings for each lane, and for all together. `refused` are the cores to which no
/// lane can be pinned.
pub fn lanes(machine: &Machine, refused: &BTreeSet<u32>, config: &Config) -> Vec<Finding> {
    let cores = &machine.cores;
    let spins = config.dataplane.idle == Idle::Poll;
    let mut findings = Vec::new();
    for (index, lane) in config.lane.iter().enumerate() {
        let check = format!("lane {index}");
        let shared = config.lane[..index]
            .iter()
            .position(|earlier| earlier.core.is_some() && earlier.core == lane.core);
        findings.push(match (lane.core, shared) {
            (Some(core), _) if refused.contains(&core) => Finding::failed(
                check,
                format!(
                    "core {core} does not exist, or its cpuset keeps this process from running \
                    there (it runs on {cores:?})"
                ),
                "name a core of that list, widen the cpuset, or leave `core` out, so that the lane \
                 floats",
            ),
            (Some(core), Some(other)) => Finding::warning(
                check,
                format!("shares core {core} with lane {other}: each waits for the other"),
                "give each lane its own core",
            ),
            (Some(core), None) if spins && !machine.isolated.contains(&core) => Finding::warning(
                check,
                format!(
                    "spins on core {core}, where the kernel schedules others too: each of them \
                    makes it wait"
                ),
                format!("isolcpus={core} on the kernel's command line, or idle = \"adaptive\""),
            ),
            (Some(core), None) => Finding::fine(check, format!("core {core}")),
            (None, _) if spins => Finding::warning(
                check,
                "spins and floats: it is moved from core to core, and takes a whole one wherever \
                 it is",
                "give it its own `core`, or idle = \"adaptive\"",
            ),
            (None, _) => Finding::fine(check, "floats"),
        });
    }
    if spins && config.lane.len() >= cores.len() {
        findings.push(Finding::warning(
            "lanes",
            format!(
                "{} lanes that spin for ever (idle = \"poll\") on {} cores leave none for \
                 applications and the kernel's own packet work",
                config.lane.len(),
                cores.len()
            ),
            "idle = \"adaptive\", or fewer lanes",
        ));
    }
    findings
}

/// Returns the lanes of a running daemon that are not on their configured cores. The daemon's
/// cpuset may differ from that of this process.
pub fn running(config: &Config, running: &Running) -> Vec<Finding> {
    let lanes = config.lane.iter().zip(&running.after.lanes);
    lanes
        .filter_map(|(wanted, lane)| {
            let core = wanted.core?;
            let elsewhere = match lane.core {
                Some(other) if other == core => return None,
                Some(other) => format!("on core {other}"),
                None => "floating".into(),
            };
            let pid = running.after.pid;
            Some(Finding::warning(
                format!("lane {}: its core", lane.lane),
                format!("the configuration has it on core {core}, and it runs {elsewhere}"),
                format!(
                    "grep Cpus_allowed_list /proc/{pid}/status: where core {core} is missing, \
                     widen the cpuset (AllowedCPUs= of the unit and its slices), and the lane goes \
                     back; else restart covalentd with this configuration"
                ),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use covalent_config::LaneConfig;

    use super::{
        super::{finding::Level, samples},
        *,
    };

    fn findings_of(machine: &Machine, config: &Config) -> Vec<Finding> {
        lanes(machine, &[7].into(), config)
    }

    fn levels(machine: &Machine, config: &Config) -> Vec<Level> {
        let findings = findings_of(machine, config);
        findings.iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn lanes_need_cores_that_exist_and_their_own() {
        let mut config = samples::cable_config();
        config.lane = [Some(0), Some(7), Some(0), None]
            .map(|core| LaneConfig { core })
            .to_vec();
        assert_eq!(
            levels(&samples::machine(), &config),
            [Level::Fine, Level::Failed, Level::Warning, Level::Fine]
        );

        config.lane.truncate(1);
        config.dataplane.idle = Idle::Poll;
        let one_core = Machine {
            cores: [0].into(),
            ..samples::machine()
        };
        assert!(
            findings_of(&one_core, &config)
                .iter()
                .any(|finding| finding.cure.contains("adaptive"))
        );
    }

    #[test]
    fn lanes_that_spin_want_cores_that_the_scheduler_leaves_alone() {
        let mut config = samples::cable_config();
        config.dataplane.idle = Idle::Poll;
        config.lane = [Some(1), None].map(|core| LaneConfig { core }).to_vec();
        let roomy = Machine {
            cores: [0, 1, 2, 3].into(),
            ..samples::machine()
        };
        assert_eq!(levels(&roomy, &config), [Level::Warning, Level::Warning]);
        let finding = &findings_of(&roomy, &config)[0];
        assert!(finding.cure.contains("isolcpus=1"), "{finding:?}");
        let isolated = Machine {
            cores: [0, 2, 3].into(),
            isolated: [1].into(),
            ..roomy
        };
        assert_eq!(levels(&isolated, &config), [Level::Fine, Level::Warning]);
    }

    #[test]
    fn a_lane_on_another_core_than_configured_is_reported() {
        let mut config = samples::cable_config();
        config.lane = vec![LaneConfig { core: Some(1) }];
        let mut node = samples::running();
        let mut findings_of = |core| {
            node.after.lanes[0].core = core;
            running(&config, &node)
        };
        assert_eq!(findings_of(Some(1)), []);
        let floats = &findings_of(None)[0];
        assert!(floats.level == Level::Warning && floats.found.contains("floating"));
        assert!(floats.cure.contains("widen the cpuset"), "{floats:?}");
        assert!(findings_of(Some(0))[0].found.contains("on core 0"));
        config.lane[0].core = None;
        assert_eq!(running(&config, &node), []);
    }
}
