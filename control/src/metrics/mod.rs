//! The contents of `/metrics`, and the files generated from the same declaration: `docs/metrics.md`
//! ([`page()`]) and `configs/grafana.json` ([`dashboard()`]).
//!
//! # The naming law
#![doc = include_str!("law.md")]
//! `covalent_api::metrics` declares the daemon's metrics, one table for each kind of object. A new
//! metric needs only a new row, and `make metrics` regenerates the page and the dashboard. If the
//! daemon neither writes counters nor replies, `covalent_up` is 0 and no old value is served: a
//! stale number is a lie.

mod dashboard;
mod own;
mod page;
mod series;
mod shared;

use covalent_api::{
    metrics::{
        DURABLE_REGION, GROUP, LANE, LINK, NODE, PATH, PIPE, PORT, REGION, TREE, VERB, flag,
        of_daemon,
    },
    status::NodeStatus,
};
use prometheus::{TextEncoder, proto::MetricFamily};

use self::series::{of_kind, one};
pub use self::{
    dashboard::dashboard,
    own::{EVENTS, Evidence, OwnMetrics},
    page::page,
    shared::render_shared,
};
pub use covalent_api::metrics::{Declared, Family, Kind, Section};

/// The content type of [`render`]'s text.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

const UP: Declared = Declared::own(
    Kind::Gauge,
    &[],
    Family {
        name: "covalent_up",
        unit: "0 or 1",
        meaning: "Whether the daemon recently updated its counters or answered this scrape. If 0, \
                  no other series of the daemon is shown.",
        worry: "It is 0. The control process runs, but the daemon does not answer: see `journalctl \
                -u covalentd`.",
    },
);

/// The exposition text: control's own metrics, and the daemon's if it replied.
///
/// # Errors
/// [`prometheus::Error`] if a family violates the format, which the tests of each declaration
/// exclude.
pub fn render(
    node: &str,
    own: &OwnMetrics,
    status: Option<&NodeStatus>,
) -> Result<String, prometheus::Error> {
    TextEncoder::new().encode_to_string(&families(node, own, status))
}

/// The families that have a series now: control's own metrics, and the daemon's if it replied.
#[must_use]
pub fn families(node: &str, own: &OwnMetrics, status: Option<&NodeStatus>) -> Vec<MetricFamily> {
    let answered = flag(status.is_some());
    let mut all = vec![one(&UP.family, node, &[], answered)];
    if let Some(status) = status {
        all.extend(of_kind(&NODE, node, std::slice::from_ref(status)));
        all.extend(of_kind(&LANE, node, &status.lanes));
        all.extend(of_kind(&PORT, node, &status.ports));
        all.extend(of_kind(&LINK, node, &status.links));
        all.extend(of_kind(&TREE, node, status.fabric.as_slice()));
        all.extend(of_kind(&PATH, node, status.fabric.as_slice()));
        all.extend(of_kind(&GROUP, node, &status.groups));
        all.extend(of_kind(&PIPE, node, &status.pipes));
        all.extend(of_kind(&REGION, node, &status.regions));
        all.extend(of_kind(&DURABLE_REGION, node, &status.durable_regions));
        all.extend(of_kind(&VERB, node, std::slice::from_ref(&status.verbs)));
    }
    all.extend(own.families());
    all.retain(|family: &MetricFamily| !family.get_metric().is_empty());
    all
}

/// Every metric that can appear, in the order of [`render`]. Exception: control's own metrics are
/// placed next to their subjects.
#[must_use]
pub fn sections() -> Vec<Section> {
    let section = |title, metrics| Section {
        title,
        words: "",
        metrics,
    };
    let mut all = vec![section("Whether the daemon answered", vec![UP])];
    all.extend(of_daemon());
    all.push(section(
        "The control process",
        own::OWN.into_iter().cloned().collect(),
    ));
    all
}
