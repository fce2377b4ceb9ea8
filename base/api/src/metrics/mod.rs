//! The declaration of every metric of a daemon: what is counted, and its name.
//!
//! The daemon lays out its counters in shared memory by it. Control serves `/metrics` by it, and
//! generates `docs/metrics.md` and the dashboard from it. Each object's file is one table of
//! [`Series`]. A new metric needs only a new row.

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
            "Nodes beyond the neighbors",
            "Present where `[fabric]` is not off. `covalent status --nodes` shows each node.",
            TREE.declared().chain(PATH.declared()).collect(),
        ),
        section(
            "Groups",
            "As reported by the members on this node, some milliseconds old. An incarnation that \
             has ended is shown until its application releases it.",
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
