//! What `/metrics` says, and what is made of the same declaration: `docs/metrics.md` ([`page()`]) and `configs/grafana.json` ([`dashboard()`]).
//!
//! # The naming law
#![doc = include_str!("law.md")]
//!
//! Each object's file is one table of declarations (`Series`); it is all that is needed to add a metric, and `make metrics` writes the page and
//! the dashboard anew. When the daemon does not answer, `covalent_up` is 0 and nothing of it is repeated from memory: a stale number is a lie.

mod dashboard;
mod family;
mod group;
mod lane;
mod link;
mod node;
mod own;
mod page;
mod pipe;
mod port;
mod region;
mod series;
mod tree;
mod verb;

use covalent_api::status::NodeStatus;
use prometheus::{TextEncoder, proto::MetricFamily};

use self::series::one;
pub use self::{
    dashboard::dashboard,
    family::{Declared, Family, Kind, Section},
    own::{EVENTS, Evidence, OwnMetrics},
    page::page,
};

/// The content type of [`render`]'s text.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

const UP: Declared = Declared::own(
    Kind::Gauge,
    &[],
    Family {
        name: "covalent_up",
        unit: "0 or 1",
        meaning: "Whether the daemon answered this scrape; if 0 nothing else of it is shown.",
        worry: "It is 0. The control process lives, but the daemon does not answer: `journalctl -u covalentd`.",
    },
);

/// The exposition text: control's own metrics, and the daemon's if it answered.
///
/// # Errors
/// [`prometheus::Error`] if a family breaks the format, which the tests of each declaration exclude.
pub fn render(
    node: &str,
    own: &OwnMetrics,
    status: Option<&NodeStatus>,
) -> Result<String, prometheus::Error> {
    TextEncoder::new().encode_to_string(&families(node, own, status))
}

/// The families that have a series now, for whoever tells them: control's own metrics, and the daemon's if it answered.
#[must_use]
pub fn families(node: &str, own: &OwnMetrics, status: Option<&NodeStatus>) -> Vec<MetricFamily> {
    let answered = series::flag(status.is_some());
    let mut families = vec![one(&UP.family, node, &[], answered)];
    if let Some(status) = status {
        families.extend(node::NODE.families(node, std::slice::from_ref(status)));
        families.extend(lane::LANE.families(node, &status.lanes));
        families.extend(port::PORT.families(node, &status.ports));
        families.extend(link::LINK.families(node, &status.links));
        families.extend(tree::TREE.families(node, status.fabric.as_slice()));
        families.extend(tree::PATH.families(node, status.fabric.as_slice()));
        families.extend(group::GROUP.families(node, &status.groups));
        families.extend(pipe::PIPE.families(node, &status.pipes));
        families.extend(region::REGION.families(node, &status.regions));
        families.extend(region::DURABLE_REGION.families(node, &status.durable_regions));
        families.extend(verb::VERB.families(node, std::slice::from_ref(&status.verbs)));
    }
    families.extend(own.families());
    families.retain(|family: &MetricFamily| !family.get_metric().is_empty());
    families
}

/// Every metric that can appear, in the order of [`render`] but for control's own, which stand by what they tell of.
#[must_use]
pub fn sections() -> Vec<Section> {
    let section = |title, words, metrics| Section {
        title,
        words,
        metrics,
    };
    vec![
        section("Whether the daemon answered", "", vec![UP]),
        section("The node", "", node::NODE.declared().collect()),
        section("Lanes", "", lane::LANE.declared().collect()),
        section("Ports", "", port::PORT.declared().collect()),
        section("Links", "", link::LINK.declared().collect()),
        section(
            "Nodes beyond the neighbours",
            "There where `[fabric]` is not off. `covalent status --nodes` tells of each single node.",
            tree::TREE.declared().chain(tree::PATH.declared()).collect(),
        ),
        section(
            "Groups",
            "As the members on this node tell them, some milliseconds old; a stay that is over is shown until its application lets go of it.",
            group::GROUP.declared().collect(),
        ),
        section("Pipes", "", pipe::PIPE.declared().collect()),
        section(
            "Regions",
            "",
            region::REGION
                .declared()
                .chain(region::DURABLE_REGION.declared())
                .collect(),
        ),
        section("Verbs", "", verb::VERB.declared().collect()),
        section(
            "The control process",
            "",
            own::OWN.into_iter().cloned().collect(),
        ),
    ]
}
