//! What `/metrics` says.
//!
//! # The naming law
//! `covalent_<object>_<what>[_<unit>][_total]`
//! - `<object>` is one of node, lane, port, link, tree, pipe, region, verb; `control` is the control process itself.
//!   `covalent_up` alone has none: whether the daemon answered this scrape.
//! - Units are base units and written out: `seconds`, `bytes`; things that are counted name themselves: `packets`,
//!   `records`, `transactions`.
//! - Whatever only grows ends in `_total` and starts from zero with its process. What has no `_total` is the present value.
//! - What is text goes into the labels of a `covalent_<object>_info` whose value is 1, and nowhere else.
//! - Every sample has the label `node`. Objects are told apart by `lane`, `port`, `session` and `pipe`, `region`; a
//!   neighbour is called `peer`. A drop, refusal or failure names its `cause`, and a cause that never occurred is 0 and present.
//!
//! Each object's file is one table of declarations (`Series`); it is all that is needed to add a metric. When the
//! daemon does not answer, `covalent_up` is 0 and nothing of it is repeated from memory: a stale number is a lie.

mod lane;
mod link;
mod node;
mod own;
mod pipe;
mod port;
mod region;
mod series;
mod tree;
mod verb;

use covalent_api::status::NodeStatus;
use prometheus::{TextEncoder, proto::MetricFamily};

pub use self::own::{Evidence, OwnMetrics};
pub use self::series::Declared;
use self::series::{Label, one};

/// The content type of [`render`]'s text.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// The exposition text: control's own metrics, and the daemon's if it answered.
///
/// # Errors
/// [`prometheus::Error`] if a family breaks the format, which the tests of each declaration exclude.
pub fn render(
    node: &str,
    own: &OwnMetrics,
    status: Option<&NodeStatus>,
) -> Result<String, prometheus::Error> {
    let mut families = vec![one(
        "covalent_up",
        "Whether the daemon answered this scrape; if 0 nothing else of it is shown.",
        vec![Label::new("node", node)],
        if status.is_some() { 1.0 } else { 0.0 },
    )];
    if let Some(status) = status {
        let common = [Label::new("node", node)];
        families.extend(node::NODE.families(&common, std::slice::from_ref(status)));
        families.extend(lane::LANE.families(&common, &status.lanes));
        families.extend(port::PORT.families(&common, &status.ports));
        families.extend(link::LINK.families(&common, &status.links));
        families.extend(tree::TREE.families(&common, status.fabric.as_slice()));
        families.extend(pipe::PIPE.families(&common, &status.pipes));
        families.extend(region::REGION.families(&common, &status.regions));
        families.extend(region::DURABLE_REGION.families(&common, &status.durable_regions));
        families.extend(verb::VERB.families(&common, std::slice::from_ref(&status.verbs)));
    }
    families.extend(own.families());
    families.retain(|family: &MetricFamily| !family.get_metric().is_empty());
    TextEncoder::new().encode_to_string(&families)
}

/// Every metric of the daemon that can appear, in the order of [`render`].
pub fn declared() -> impl Iterator<Item = Declared> {
    let node = node::NODE.declared().chain(lane::LANE.declared());
    let wire = port::PORT
        .declared()
        .chain(link::LINK.declared())
        .chain(tree::TREE.declared());
    let application = pipe::PIPE
        .declared()
        .chain(region::REGION.declared())
        .chain(region::DURABLE_REGION.declared())
        .chain(verb::VERB.declared());
    node.chain(wire).chain(application)
}
