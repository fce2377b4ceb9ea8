//! Offloads that hide from the dataplane the frames as they were on the wire.

use covalent_config::{Config, Offloads};

use super::super::{
    facts::{Facts, Named},
    plan::{Report, State, Step},
    setting::Setting,
    stage::Stage,
};
use crate::netlink::Interface;

const STAGE: Stage = Stage::Offloads;

/// Takes VLAN tags off received frames.
const VLAN_OFF: &str = "rx-vlan-hw-parse";

/// The features that `auto` disables, and why.
const HIDING: [(&str, &str); 3] = [
    (
        VLAN_OFF,
        "it takes VLAN tags off frames before AF_XDP has them",
    ),
    (
        "rx-lro",
        "it joins frames into ones that never were on the wire, and several drivers refuse an XDP \
         program beside it",
    ),
    (
        "rx-gro-hw",
        "it joins frames into ones that never were on the wire, and several drivers refuse an XDP \
         program beside it",
    ),
];

/// Names that `ethtool -k` shows for one feature of the kernel's with another name.
const SHOWN_AS: [(&str, &str); 6] = [
    ("rx-vlan-offload", VLAN_OFF),
    ("tx-vlan-offload", "tx-vlan-hw-insert"),
    ("large-receive-offload", "rx-lro"),
    ("generic-receive-offload", "rx-gro"),
    ("receive-hashing", "rx-hashing"),
    ("rx-checksumming", "rx-checksum"),
];

/// Whether those offloads are off that are to be.
pub fn inspect(config: &Config, _: &Facts, named: &Named, found: &Interface) -> Report {
    let wanted: Vec<(&str, &str)> = match &config.configure.offloads {
        Offloads::Keep => return Report::kept(STAGE, &named.name, "configure.offloads"),
        // Between the ends of a veth, tags stay in the frame, whatever the setting.
        Offloads::Auto => HIDING
            .into_iter()
            .filter(|(name, _)| named.driver != "veth" || *name != VLAN_OFF)
            .collect(),
        Offloads::Off(names) => names
            .iter()
            .map(|name| (kernel_name(name), "it is in `configure.offloads`"))
            .collect(),
    };
    if named.nic.features.is_none() {
        let why = format!("not offered by driver {}", named.driver_name());
        return Report::not_applicable(STAGE, &named.name, why);
    }
    let on: Vec<(&str, &str)> = wanted
        .iter()
        .copied()
        .filter(|(name, _)| named.nic.has(name))
        .collect();
    let (steps, fixed): (Vec<_>, Vec<_>) = on
        .into_iter()
        .partition(|(name, _)| named.nic.may_switch(name));
    let steps: Vec<Step> = steps
        .into_iter()
        .map(|(name, why)| Step {
            setting: Setting::Offload {
                interface: named.name.clone(),
                index: found.index,
                feature: name.to_owned(),
            },
            before: "on".to_owned(),
            wanted: "off".to_owned(),
            why: why.to_owned(),
        })
        .collect();
    let listed = |names: &[(&str, &str)]| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    };
    let mut report = if !steps.is_empty() {
        let outcome: Vec<String> = steps
            .iter()
            .zip(&wanted)
            .map(|(step, _)| format!("{} is on: {}", step.setting, step.why))
            .collect();
        Report::steps(STAGE, &named.name, outcome.join("; "), steps)
    } else {
        let outcome = match wanted.is_empty() {
            true => "none is to be off".to_owned(),
            false => format!("off: {}", listed(&wanted)),
        };
        Report::as_wanted(STAGE, &named.name, outcome)
    };
    if !fixed.is_empty() {
        let outcome = format!(
            "driver {} cannot turn off {}",
            named.driver_name(),
            listed(&fixed)
        );
        // A feature that the user named is an error. With `auto`, the rest suffices.
        if matches!(config.configure.offloads, Offloads::Off(_)) {
            return Report::cannot(
                STAGE,
                &named.name,
                outcome,
                "leave it out of `configure.offloads`",
            );
        }
        if report.state == State::AsWanted {
            return Report::not_applicable(STAGE, &named.name, outcome);
        }
        report.found = format!("{}; {outcome}", report.found);
    }
    report
}

/// Returns the kernel's name of the feature.
fn kernel_name(name: &str) -> &str {
    SHOWN_AS
        .iter()
        .find(|(shown, _)| *shown == name)
        .map_or(name, |(_, kernel)| kernel)
}

#[cfg(test)]
mod tests {
    use super::{super::samples, *};

    fn report(more: &str, driver: &str, on: &[&str], changeable: &[&str]) -> Report {
        let owned = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        let mut facts = samples::facts();
        let named = &mut facts.interfaces[0];
        named.driver = driver.into();
        named.nic.features = owned(on);
        named.nic.changeable = owned(changeable);
        let named = &facts.interfaces[0];
        let found = named.found.as_ref().expect("the sample is there");
        inspect(&samples::config(more), &facts, named, found)
    }

    fn commands(report: &Report) -> Vec<String> {
        report.steps.iter().map(Step::command).collect()
    }

    const HIDES: [&str; 3] = ["rx-vlan-hw-parse", "rx-lro", "rx-gro-hw"];

    #[test]
    fn offloads_that_hide_frames_are_switched_off() {
        let all = report("", "ice", &HIDES, &HIDES);
        assert_eq!(
            commands(&all),
            [
                "ethtool -K eth1 rx-vlan-hw-parse off",
                "ethtool -K eth1 rx-lro off",
                "ethtool -K eth1 rx-gro-hw off"
            ]
        );
        assert_eq!(all.steps[1].undo(), "ethtool -K eth1 rx-lro on");
        assert!(all.found.contains("VLAN tags"), "{all:?}");
        let off = report("", "ice", &["rx-gro"], &HIDES);
        assert_eq!(off.state, State::AsWanted);
        let veth = report("", "veth", &HIDES, &HIDES);
        assert_eq!(veth.steps.len(), 2, "tags remain in the frame there");
    }

    #[test]
    fn names_may_be_those_that_ethtool_shows() {
        let more =
            "[configure]\noffloads = [\"rx-vlan-offload\", \"rx-gro\", \"tx-nocache-copy\"]\n";
        let named = report(more, "veth", &HIDES, &HIDES);
        assert_eq!(commands(&named), ["ethtool -K eth1 rx-vlan-hw-parse off"]);
        let none = report("[configure]\noffloads = []\n", "ice", &HIDES, &HIDES);
        assert_eq!(none.state, State::AsWanted);
    }

    #[test]
    fn an_offload_that_the_driver_fixes_is_reported() {
        let fixed = report("", "ice", &["rx-vlan-hw-parse"], &[]);
        assert_eq!(fixed.state, State::NotApplicable);
        assert!(fixed.found.contains("rx-vlan-hw-parse"), "{fixed:?}");
        let some = report("", "ice", &HIDES, &["rx-lro"]);
        assert_eq!(some.steps.len(), 1);
        assert!(some.found.contains("cannot turn off"), "{some:?}");
        let named = report("[configure]\noffloads = [\"rx-lro\"]\n", "ice", &HIDES, &[]);
        assert_eq!(named.state, State::Cannot);
    }
}
