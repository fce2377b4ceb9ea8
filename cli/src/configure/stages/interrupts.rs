//! Cores that take the interrupts of an interface's queues.

use std::collections::BTreeSet;

use covalent_config::{Care, Config, Idle};

use super::super::{
    cores::CoreList,
    facts::{Facts, Interrupt, Named},
    plan::{Report, Step},
    setting::Setting,
    stage::Stage,
};
use crate::netlink::Interface;

const STAGE: Stage = Stage::Irq;

/// Reports whether interrupts arrive on the core that their lane needs.
pub fn inspect(config: &Config, facts: &Facts, named: &Named, _: &Interface) -> Report {
    let not_applicable = |why: String| Report::not_applicable(STAGE, &named.name, why);
    if config.configure.irq_affinity == Care::Keep {
        return Report::kept(STAGE, &named.name, "configure.irq_affinity");
    }
    let lane = named.port.lane;
    let Some(core) = config.lane.get(lane as usize).and_then(|lane| lane.core) else {
        return not_applicable(format!("lane {lane} has no `core`, so it has no wish"));
    };
    if named.interrupts.is_empty() {
        return not_applicable(format!(
            "driver {} has no interrupts that can be attributed to receive queues",
            named.driver_name()
        ));
    }
    let polls = config.dataplane.idle == Idle::Poll;
    let (wanted, why) = if polls {
        let lanes: BTreeSet<u32> = config.lane.iter().filter_map(|lane| lane.core).collect();
        let others: BTreeSet<u32> = facts.cores.difference(&lanes).copied().collect();
        if others.is_empty() {
            return not_applicable(
                "every core has a lane that polls, so there is no better one".to_owned(),
            );
        }
        (
            CoreList(others),
            "lanes that poll leave no time to interrupts on their cores".to_owned(),
        )
    } else {
        (
            CoreList([core].into()),
            format!("lane {lane} runs on core {core}, where a frame is in the cache then"),
        )
    };
    if !wanted.0.is_subset(&facts.cores) {
        return Report::cannot(
            STAGE,
            &named.name,
            format!("lane {lane} has `core = {core}`, which is not online"),
            "`cat /sys/devices/system/cpu/online` lists the cores",
        );
    }
    let fits = |interrupt: &Interrupt| match polls {
        true => interrupt.cores.0.is_subset(&wanted.0),
        false => interrupt.cores == wanted,
    };
    let steps: Vec<Step> = named
        .interrupts
        .iter()
        .filter(|interrupt| !fits(interrupt))
        .map(|interrupt| Step {
            setting: Setting::Interrupt { irq: interrupt.irq },
            before: interrupt.cores.to_string(),
            wanted: wanted.to_string(),
            why: format!("queue {} of {}: {why}", interrupt.queue, named.name),
        })
        .collect();
    let moved_about = match facts.irqbalance {
        true => "; irqbalance runs and may move them again",
        false => "",
    };
    let outcome: Vec<String> = named
        .interrupts
        .iter()
        .map(|it| format!("queue {} on {}", it.queue, it.cores))
        .collect();
    let outcome = format!("{}{moved_about}", outcome.join(", "));
    if steps.is_empty() {
        return Report::as_wanted(STAGE, &named.name, outcome);
    }
    Report::steps(
        STAGE,
        &named.name,
        format!("{outcome}; wanted {wanted}: {why}"),
        steps,
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::plan::State, samples},
        *,
    };

    fn facts(cores: &[&str]) -> Facts {
        let mut facts = samples::facts();
        facts.cores = (0..4).collect();
        facts.interfaces[0].interrupts = (0..)
            .zip(cores)
            .map(|(queue, cores)| Interrupt {
                irq: 40 + queue,
                queue,
                cores: cores.parse().expect("a list"),
            })
            .collect();
        facts
    }

    fn report(more: &str, facts: &Facts) -> Report {
        let named = &facts.interfaces[0];
        let found = named.found.as_ref().expect("the sample is there");
        inspect(&samples::config(more), facts, named, found)
    }

    #[test]
    fn a_sleeping_lane_has_its_interrupts_on_its_own_core() {
        let report = report("[[lane]]\ncore = 2\n", &facts(&["0-3", "2"]));
        assert_eq!(report.steps.len(), 1, "the second is there already");
        assert_eq!(
            report.steps[0].command(),
            "echo 2 > /proc/irq/40/smp_affinity_list"
        );
        assert_eq!(
            report.steps[0].undo(),
            "echo 0-3 > /proc/irq/40/smp_affinity_list"
        );
    }

    #[test]
    fn polling_lanes_have_their_interrupts_elsewhere() {
        let more = "[dataplane]\nidle = \"poll\"\n[[lane]]\ncore = 2\n[[lane]]\ncore = 3\n";
        let moved = report(more, &facts(&["0-3", "1"]));
        assert_eq!(moved.steps.len(), 1, "core 1 has no lane");
        assert_eq!(moved.steps[0].wanted, "0-1");
        let all = "[dataplane]\nidle = \"poll\"\n[[lane]]\ncore = 0\n[[lane]]\ncore = \
            1\n[[lane]]\ncore = 2\n[[lane]]\ncore = 3\n";
        assert_eq!(report(all, &facts(&["0"])).state, State::NotApplicable);
    }

    #[test]
    fn interrupts_without_a_wish_are_left_alone() {
        for (more, facts) in [
            ("", facts(&["0-3"])),
            ("[[lane]]\ncore = 2\n", facts(&[])),
            (
                "[configure]\nirq_affinity = \"keep\"\n[[lane]]\ncore = 2\n",
                facts(&["0-3"]),
            ),
        ] {
            let outcome = report(more, &facts);
            assert_eq!(outcome.state, State::NotApplicable, "{outcome:?}");
        }
        let gone = report("[[lane]]\ncore = 9\n", &facts(&["0"]));
        assert_eq!(gone.state, State::Cannot);
    }

    #[test]
    fn an_irq_balancer_is_reported() {
        let balanced = Facts {
            irqbalance: true,
            ..facts(&["2"])
        };
        let outcome = report("[[lane]]\ncore = 2\n", &balanced);
        assert_eq!(outcome.state, State::AsWanted);
        assert!(outcome.found.contains("irqbalance"), "{outcome:?}");
    }
}
