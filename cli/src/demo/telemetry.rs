//! The figures of the summary, from `/metrics` of both control processes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    exposition::Page,
    nodes::{Node, Nodes, PORTS},
};

/// Counts by cause.
pub type Causes = BTreeMap<String, u64>;

/// One node at one moment. Counters count from the start of its daemon.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NodeFigures {
    /// Its name.
    pub node: &'static str,
    /// Frames received by the dataplane, all ports.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames sent, all ports.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames that the XDP program passed to the kernel.
    pub kernel_packets: u64,
    /// Received frames that belong to links.
    pub rx_link_frames: u64,
    /// Sent frames that belong to links.
    pub tx_link_frames: u64,
    /// Frames dropped at each port, by name.
    pub port_drops: BTreeMap<String, Causes>,
    /// Frames dropped at pipes.
    pub pipe_drops: Causes,
    /// Records dropped by links.
    pub link_drops: Causes,
    /// Frames refused at TX pipes.
    pub refusals: Causes,
    /// Link failures.
    pub link_failures: Causes,
    /// Exchanges of this node that committed at the other.
    pub committed: u64,
    /// Exchanges whose outcome was resolved by a query after a failure.
    pub resolved: u64,
    /// Exchanges that were reversed and applied again.
    pub reversed: u64,
    /// Verbs taken from applications of this node.
    pub verbs_submitted: u64,
    /// Of those, completed.
    pub verbs_completed: u64,
    /// Of those, in doubt.
    pub verbs_in_doubt: u64,
    /// Verbs executed on this node, by kind.
    pub verbs_executed: Causes,
    /// Nanoseconds from the last failure of a link to the next completion; the maximum over all
    /// links.
    pub last_failover_ns: Option<u64>,
}

/// Both nodes at one moment.
#[derive(Debug, Clone)]
pub struct Figures {
    /// When it was fetched.
    pub at: Instant,
    /// Node a.
    pub a: NodeFigures,
    /// Node b.
    pub b: NodeFigures,
}

impl Figures {
    /// Fetches both pages.
    ///
    /// # Errors
    /// When a page cannot be fetched or lacks a metric.
    pub fn fetch(nodes: &Nodes) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            a: of_node(&nodes.a)?,
            b: of_node(&nodes.b)?,
        })
    }

    /// Both nodes.
    pub fn each(&self) -> [&NodeFigures; 2] {
        [&self.a, &self.b]
    }
}

/// How often pipes are looked at while applications are attached.
const PIPES_EVERY: Duration = Duration::from_millis(250);

/// Frames dropped at pipes. A pipe's counters vanish with its application, so they are sampled
/// while it is attached.
#[derive(Debug, Clone, Default)]
pub struct PipeDrops {
    causes: Causes,
    polled: Option<Instant>,
}

impl PipeDrops {
    /// Looks again if it is time to.
    ///
    /// # Errors
    /// As [`Figures::fetch`].
    pub fn poll(&mut self, nodes: &Nodes) -> Result<()> {
        match self.polled {
            Some(polled) if polled.elapsed() < PIPES_EVERY => Ok(()),
            _ => self.poll_now(nodes),
        }
    }

    /// Looks.
    ///
    /// # Errors
    /// As [`Figures::fetch`].
    pub fn poll_now(&mut self, nodes: &Nodes) -> Result<()> {
        self.polled = Some(Instant::now());
        self.see(&Figures::fetch(nodes)?);
        Ok(())
    }

    /// Returns the maximum of each cause, summed over both nodes at one time.
    pub fn causes(&self) -> &Causes {
        &self.causes
    }

    fn see(&mut self, figures: &Figures) {
        let mut sums = Causes::new();
        for node in figures.each() {
            for (cause, count) in &node.pipe_drops {
                *sums.entry(cause.clone()).or_default() += count;
            }
        }
        for (cause, count) in sums {
            let most = self.causes.entry(cause).or_default();
            *most = count.max(*most);
        }
    }
}

fn of_node(node: &Node) -> Result<NodeFigures> {
    let page = node.metrics().and_then(|text| Page::parse(&text));
    page.and_then(|page| NodeFigures::read(node.name(), &page))
        .with_context(|| format!("the metrics of node {}", node.name()))
}

impl NodeFigures {
    fn read(node: &'static str, page: &Page) -> Result<Self> {
        let count = |name: &str| page.count(name, &[]);
        Ok(Self {
            node,
            rx_packets: count("covalent_port_rx_packets_total")?,
            rx_bytes: count("covalent_port_rx_bytes_total")?,
            tx_packets: count("covalent_port_tx_packets_total")?,
            tx_bytes: count("covalent_port_tx_bytes_total")?,
            kernel_packets: count("covalent_port_passed_to_kernel_packets_total")?,
            rx_link_frames: count("covalent_link_rx_frames_total")?,
            tx_link_frames: count("covalent_link_tx_frames_total")?,
            port_drops: PORTS
                .iter()
                .map(|port| {
                    let causes = page.by_label(
                        "covalent_port_dropped_packets_total",
                        "cause",
                        &[("port", port)],
                    );
                    ((*port).to_owned(), causes)
                })
                .collect(),
            pipe_drops: page.by_label("covalent_pipe_dropped_packets_total", "cause", &[]),
            link_drops: page.by_label("covalent_link_dropped_records_total", "cause", &[]),
            refusals: page.by_label("covalent_port_refused_packets_total", "cause", &[]),
            link_failures: page.by_label("covalent_link_failures_total", "cause", &[]),
            committed: count("covalent_link_committed_exchanges_total")?,
            resolved: count("covalent_link_resolved_exchanges_total")?,
            reversed: count("covalent_link_reversed_exchanges_total")?,
            verbs_submitted: count("covalent_verb_submitted_total")?,
            verbs_completed: count("covalent_verb_completed_total")?,
            verbs_in_doubt: count("covalent_verb_in_doubt")?,
            verbs_executed: page.by_label("covalent_verb_executed_total", "verb", &[]),
            // Only links that have failed have this sample.
            last_failover_ns: page
                .max("covalent_link_last_failover_seconds")
                .map(|seconds| (seconds * 1e9) as u64),
        })
    }

    /// Returns the frames sent by applications, which belong to no link.
    pub fn application_tx_packets(&self) -> u64 {
        self.tx_packets.saturating_sub(self.tx_link_frames)
    }

    /// The same of frames received.
    pub fn application_rx_packets(&self) -> u64 {
        self.rx_packets.saturating_sub(self.rx_link_frames)
    }
}

/// The causes that are not zero, as `cause count, …`; `none` if all are.
pub fn words(causes: &Causes) -> String {
    let list: Vec<String> = causes
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(cause, count)| format!("{cause} {count}"))
        .collect();
    if list.is_empty() {
        "none".to_owned()
    } else {
        list.join(", ")
    }
}

/// How many there are altogether.
pub fn total(causes: &Causes) -> u64 {
    causes.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipes_drops_are_remembered_when_it_is_gone() {
        let figures = |count: Option<u64>| {
            let node = NodeFigures {
                pipe_drops: count
                    .map(|count| ("full".to_owned(), count))
                    .into_iter()
                    .collect(),
                ..NodeFigures::default()
            };
            Figures {
                at: Instant::now(),
                a: node.clone(),
                b: node,
            }
        };
        let mut drops = PipeDrops::default();
        for count in [Some(0), Some(3), None] {
            drops.see(&figures(count));
        }
        assert_eq!(drops.causes(), &[("full".to_owned(), 6)].into());
    }
}
