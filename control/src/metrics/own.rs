//! Control's metrics of itself.

mod families;

use std::collections::HashMap;

use covalent_api::{control::InterfaceStatus, event::EventKind, metrics::Declared};
use prometheus::{
    Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, core::Collector, proto::MetricFamily,
};

pub(super) use self::families::OWN;
use super::series::one;

/// Control's metrics of itself. Clones count together.
#[derive(Clone)]
pub struct OwnMetrics {
    node: String,
    registry: Registry,
    /// Connections made to the daemon, the first one included.
    pub connects: IntCounter,
    /// Status requests sent to the daemon. Fewer than scrapes if concurrent scrapes shared a reply.
    pub status_requests: IntCounter,
    /// Events that were missed: gaps in the daemon's count.
    pub events_missed: IntCounter,
    /// How long a scrape took, the daemon's answer included.
    pub scrape_seconds: Histogram,
    events: IntCounterVec,
    losses: IntCounterVec,
    interface_up: IntGaugeVec,
    interface_carrier: IntGaugeVec,
    agreements: IntCounterVec,
    agreed: IntGauge,
    agreed_revision: IntGauge,
    unhealed_ports: IntGauge,
    resident_bytes: Gauge,
}

/// Evidence of the daemon's loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Its process ended.
    Pidfd,
    /// The connection ended, or failed.
    Socket,
}

impl Evidence {
    const ALL: [Self; 2] = [Self::Pidfd, Self::Socket];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Pidfd => "pidfd",
            Self::Socket => "socket",
        }
    }
}

/// Names of the kinds of event: each is a series from the start.
pub const EVENTS: [&str; 16] = [
    "link_up",
    "link_down",
    "carrier",
    "attached",
    "detached",
    "journal_failed",
    "port_absent",
    "link_refused",
    "link_refusal_over",
    "configured",
    "not_configured",
    "stopping",
    "node_reachable",
    "node_unreachable",
    "fabric_problem",
    "port_opened",
];

/// Outcomes of agreements between control and the daemon.
const AGREEMENTS: [&str; 5] = ["adopted", "reloaded", "reinstated", "reopened", "refused"];

impl OwnMetrics {
    /// Metrics that all carry `node`.
    ///
    /// # Errors
    /// [`prometheus::Error`] if a declaration breaks the format, which a test excludes.
    pub fn new(node: &str) -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(
            None,
            Some(HashMap::from([("node".to_owned(), node.to_owned())])),
        )?;
        let buckets = vec![
            0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5,
        ];
        let scrape = HistogramOpts::from(opts(&families::SCRAPE_SECONDS)).buckets(buckets);
        let own = Self {
            connects: kept(&registry, IntCounter::with_opts(opts(&families::CONNECTS))?)?,
            status_requests: kept(
                &registry,
                IntCounter::with_opts(opts(&families::STATUS_REQUESTS))?,
            )?,
            events_missed: kept(
                &registry,
                IntCounter::with_opts(opts(&families::MISSED_EVENTS))?,
            )?,
            scrape_seconds: kept(&registry, Histogram::with_opts(scrape)?)?,
            events: kept(
                &registry,
                IntCounterVec::new(opts(&families::EVENTS), &families::EVENTS.labels)?,
            )?,
            losses: kept(
                &registry,
                IntCounterVec::new(
                    opts(&families::DAEMON_LOSSES),
                    &families::DAEMON_LOSSES.labels,
                )?,
            )?,
            interface_up: kept(
                &registry,
                IntGaugeVec::new(
                    opts(&families::INTERFACE_UP),
                    &families::INTERFACE_UP.labels,
                )?,
            )?,
            interface_carrier: kept(
                &registry,
                IntGaugeVec::new(
                    opts(&families::INTERFACE_CARRIER),
                    &families::INTERFACE_CARRIER.labels,
                )?,
            )?,
            agreements: kept(
                &registry,
                IntCounterVec::new(opts(&families::AGREEMENTS), &families::AGREEMENTS.labels)?,
            )?,
            agreed: kept(&registry, IntGauge::with_opts(opts(&families::AGREED))?)?,
            agreed_revision: kept(
                &registry,
                IntGauge::with_opts(opts(&families::AGREED_REVISION))?,
            )?,
            unhealed_ports: kept(
                &registry,
                IntGauge::with_opts(opts(&families::UNHEALED_PORTS))?,
            )?,
            resident_bytes: kept(
                &registry,
                Gauge::with_opts(opts(&families::RESIDENT_BYTES))?,
            )?,
            node: node.to_owned(),
            registry,
        };
        for event in EVENTS {
            own.events.with_label_values(&[event]);
        }
        for evidence in Evidence::ALL {
            own.losses.with_label_values(&[evidence.as_str()]);
        }
        for how in AGREEMENTS {
            own.agreements.with_label_values(&[how]);
        }
        Ok(own)
    }

    /// Counts a connection that was lost.
    pub fn daemon_lost(&self, evidence: Evidence) {
        self.losses.with_label_values(&[evidence.as_str()]).inc();
    }

    /// Counts an event.
    pub fn event(&self, kind: &EventKind) {
        self.events.with_label_values(&[kind.name()]).inc();
    }

    /// Counts the outcome of an agreement: one of `adopted`, `reloaded`, `reinstated`, `reopened`,
    /// `refused`.
    pub fn agreement(&self, how: &str) {
        self.agreements.with_label_values(&[how]).inc();
    }

    /// Updates the metrics of the agreed configuration: the revision that control holds, 0 for
    /// none, and whether the daemon holds it too.
    pub fn agreed(&self, revision: u64, is_shared: bool) {
        self.agreed_revision
            .set(i64::try_from(revision).unwrap_or(i64::MAX));
        self.agreed.set(i64::from(is_shared));
    }

    /// Sets the number of ports that are no longer tried.
    pub fn unhealed_ports(&self, count: usize) {
        self.unhealed_ports
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Takes over the state of the interfaces. One that is not followed any more has no series.
    pub fn interfaces(&self, interfaces: &[InterfaceStatus]) {
        self.interface_up.reset();
        self.interface_carrier.reset();
        for status in interfaces {
            let labels = [status.port.as_str(), status.interface.as_str()];
            self.interface_up
                .with_label_values(&labels)
                .set(i64::from(status.admin_up));
            self.interface_carrier
                .with_label_values(&labels)
                .set(i64::from(status.carrier));
        }
    }

    /// The families as they are now.
    pub(super) fn families(&self) -> Vec<MetricFamily> {
        // If /proc cannot be read, the last value stays. This must not fail a scrape.
        if let Some(bytes) = resident_bytes() {
            self.resident_bytes.set(bytes);
        }
        let mut families = self.registry.gather();
        families.push(self.build_info());
        families
    }

    fn build_info(&self) -> MetricFamily {
        one(
            &families::BUILD_INFO.family,
            &self.node,
            &[("version", env!("CARGO_PKG_VERSION"))],
            1.0,
        )
    }
}

/// The options of one metric for the metrics library.
fn opts(declared: &Declared) -> Opts {
    Opts::new(declared.family.name, declared.family.meaning)
}

/// Registers `metric` and returns a clone of it.
fn kept<M: Collector + Clone + 'static>(
    registry: &Registry,
    metric: M,
) -> Result<M, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// Resident memory of this process: `VmRSS` of proc(5).
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib: u32 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?
        .trim()
        .strip_suffix(" kB")?
        .parse()
        .ok()?;
    Some(f64::from(kib) * 1024.0)
}
