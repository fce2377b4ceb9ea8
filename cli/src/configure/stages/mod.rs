//! The stages: each is a function of the configuration and the facts alone, and returns findings
//! and steps.

pub mod channels;
mod huge_pages;
mod interrupts;
mod memlock;
mod offloads;
pub mod rings;
#[cfg(test)]
pub mod samples;
mod xdp;

use covalent_config::Config;

use super::{
    facts::{Facts, Named},
    plan::{Report, Step},
    setting::Setting,
    stage::Stage,
};
use crate::netlink::Interface;

/// Returns the findings of `stage`.
pub fn inspect(stage: Stage, config: &Config, facts: &Facts) -> Vec<Report> {
    let each = |of: fn(&Config, &Facts, &Named, &Interface) -> Report| -> Vec<Report> {
        if facts.interfaces.is_empty() {
            let why = "no port is of the kind \"af_xdp\"";
            return vec![Report::not_applicable(stage, "", why)];
        }
        let report = |named: &Named| match &named.found {
            Some(found) => of(config, facts, named, found),
            None => missing(stage, named),
        };
        facts.interfaces.iter().map(report).collect()
    };
    match stage {
        Stage::Hugepages => vec![huge_pages::inspect(config, facts)],
        Stage::Channels => each(channels::inspect),
        Stage::Rings => each(rings::inspect),
        Stage::Offloads => each(offloads::inspect),
        Stage::Irq => each(interrupts::inspect),
        Stage::Memlock => vec![memlock::inspect(config, facts)],
        Stage::Xdp => each(xdp::inspect),
    }
}

fn missing(stage: Stage, named: &Named) -> Report {
    Report::cannot(
        stage,
        &named.name,
        format!(
            "port {}: there is no interface of that name here",
            named.port.name
        ),
        "`ip link` lists those that there are; or leave this stage out with --only",
    )
}

/// A report of one step on an interface.
fn one_step(
    stage: Stage,
    named: &Named,
    setting: Setting,
    before: impl Into<String>,
    wanted: impl Into<String>,
    why: impl Into<String>,
) -> Report {
    let step = Step {
        setting,
        before: before.into(),
        wanted: wanted.into(),
        why: why.into(),
    };
    let found = format!("{}, wanted {}: {}", step.before, step.wanted, step.why);
    Report::steps(stage, &named.name, found, vec![step])
}
