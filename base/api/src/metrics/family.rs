//! Declaration of one metric, shared by the scrape, the page, the dashboard and the test of the
//! alerts.

use std::borrow::Cow;

/// The words for one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// As the naming law has it.
    pub name: &'static str,
    /// The counted or measured unit; a dash if the labels carry the information.
    pub unit: &'static str,
    /// One sentence: HELP in the scrape.
    pub meaning: &'static str,
    /// When to worry, in Markdown.
    pub worry: &'static str,
}

/// The unit of metrics that are always 1.
pub const NO_UNIT: &str = "–";

/// Types of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// The present value.
    Gauge,
    /// Counts by upper bounds.
    Histogram,
}

impl Kind {
    /// As Prometheus calls it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric that can appear on `/metrics`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its words.
    pub family: Family,
    /// Its type.
    pub kind: Kind,
    /// Its labels, but for `node`, which every series has, and `le`, which every histogram has.
    pub labels: Cow<'static, [&'static str]>,
}

impl Declared {
    /// A metric of control itself.
    #[must_use]
    pub const fn own(kind: Kind, labels: &'static [&'static str], family: Family) -> Self {
        Self {
            family,
            kind,
            labels: Cow::Borrowed(labels),
        }
    }
}

/// Metrics that stand together on the page and on the dashboard.
#[derive(Debug)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// Introduction before the metrics, in Markdown; may be empty.
    pub words: &'static str,
    /// The metrics, in the order of the scrape.
    pub metrics: Vec<Declared>,
}
