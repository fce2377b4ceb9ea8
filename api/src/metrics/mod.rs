//! What is counted, and how it is called: the one declaration of every metric of a daemon.
//!
//! The daemon lays its counters in shared memory out by it, control serves `/metrics` by it and makes `docs/metrics.md` and the dashboard of it.
//! Each object's file is one table of [`Series`]: it is all that is needed to add a metric.

mod family;
mod group;
mod lane;
mod link;
mod node;
mod pipe;
mod port;
mod region;
mod series;
mod tree;
mod verb;

pub use self::{
    family::{Declared, Family, Kind, NO_UNIT, Section},
    group::GROUP,
    lane::LANE,
    link::LINK,
    node::NODE,
    pipe::PIPE,
    port::PORT,
    region::{DURABLE_REGION, REGION},
    series::{Object, Sample, Series, as_f64, flag, seconds},
    tree::{PATH, TREE},
    verb::VERB,
};

/// Every metric of a daemon, in the order of a scrape.
#[must_use]
pub fn of_daemon() -> Vec<Section> {
    let section = |title, words, metrics| Section {
        title,
        words,
        metrics,
    };
    vec![
        section("The node", "", NODE.declared().collect()),
        section("Lanes", "", LANE.declared().collect()),
        section("Ports", "", PORT.declared().collect()),
        section("Links", "", LINK.declared().collect()),
        section(
            "Nodes beyond the neighbours",
            "There where `[fabric]` is not off. `covalent status --nodes` tells of each single node.",
            TREE.declared().chain(PATH.declared()).collect(),
        ),
        section(
            "Groups",
            "As the members on this node tell them, some milliseconds old; a stay that is over is shown until its application lets go of it.",
            GROUP.declared().collect(),
        ),
        section("Pipes", "", PIPE.declared().collect()),
        section(
            "Regions",
            "",
            REGION.declared().chain(DURABLE_REGION.declared()).collect(),
        ),
        section("Verbs", "", VERB.declared().collect()),
    ]
}
