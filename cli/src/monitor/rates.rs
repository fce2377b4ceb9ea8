//! The changes between two polls of a node.

use std::collections::{BTreeMap, VecDeque};

use covalent_api::status::{Causes, NodeStatus};

/// Rates that are kept of each counter.
const KEPT_MAX: usize = 60;

/// The last status, and the rates of its counters.
#[derive(Debug, Default)]
pub struct Rates {
    last: Option<NodeStatus>,
    tracks: BTreeMap<String, Track>,
}

/// One counter.
#[derive(Debug, Default)]
struct Track {
    total: u64,
    /// Per second, the last one last.
    rates: VecDeque<f64>,
}

impl Rates {
    /// Records the current status of a node. A restarted node has no rates yet.
    pub fn take(&mut self, status: NodeStatus) {
        let since = self.last.as_ref().and_then(|last| {
            let is_same = last.guid == status.guid && last.pid == status.pid;
            status
                .uptime_ns
                .checked_sub(last.uptime_ns)
                .filter(|_| is_same)
        });
        let mut before = std::mem::take(&mut self.tracks);
        for (name, total) in counters(&status) {
            let track = match since {
                None => Track {
                    total,
                    ..Track::default()
                },
                // A counter that was not in the last status has counted from 0 since.
                Some(ns) => before.remove(&name).unwrap_or_default().then(total, ns),
            };
            self.tracks.insert(name, track);
        }
        self.last = Some(status);
    }

    /// Returns the last status of the node.
    pub const fn status(&self) -> Option<&NodeStatus> {
        self.last.as_ref()
    }

    /// Whether this incarnation of the node was polled often enough for rates.
    pub fn are_known(&self) -> bool {
        self.tracks.values().any(|track| !track.rates.is_empty())
    }

    /// The last rate of a counter, per second; `None`: there was one look so far.
    pub fn rate(&self, name: &str) -> Option<f64> {
        self.tracks.get(name)?.rates.back().copied()
    }

    /// The kept rates of a counter, the last one last.
    pub fn history(&self, name: &str) -> Vec<f64> {
        let track = self.tracks.get(name);
        track.map_or_else(Vec::new, |track| track.rates.iter().copied().collect())
    }

    /// Returns all drops, refusals and failures: place and cause, count, and rate. Current ones
    /// come first, then the largest counts.
    pub fn losses(&self) -> Vec<(String, u64, f64)> {
        let Some(status) = &self.last else {
            return Vec::new();
        };
        let mut losses: Vec<_> = losses(status)
            .into_iter()
            .filter(|(_, total)| *total > 0)
            .map(|(name, total)| {
                let rate = self.rate(&name).unwrap_or(0.0);
                (name, total, rate)
            })
            .collect();
        losses.sort_by(|a, b| b.2.total_cmp(&a.2).then(b.1.cmp(&a.1)));
        losses
    }
}

impl Track {
    fn then(mut self, total: u64, ns: u64) -> Self {
        // A poll within the clock's resolution yields no rate.
        if ns > 0 {
            if self.rates.len() == KEPT_MAX {
                self.rates.pop_front();
            }
            let more = total.saturating_sub(self.total);
            self.rates.push_back(more as f64 * 1e9 / ns as f64);
            self.total = total;
        }
        self
    }
}

/// Returns all counters, by the name under which they are looked up.
fn counters(status: &NodeStatus) -> Vec<(String, u64)> {
    let mut all = losses(status);
    for lane in &status.lanes {
        let name = lane.lane;
        all.extend([
            (format!("lane {name} loops"), lane.loops),
            (format!("lane {name} busy"), lane.busy_loops),
            (format!("lane {name} cpu"), lane.cpu_ns),
        ]);
    }
    for port in &status.ports {
        let name = &port.name;
        all.extend([
            (format!("port {name} rx"), port.rx_packets),
            (format!("port {name} rx bytes"), port.rx_bytes),
            (format!("port {name} tx"), port.tx_packets),
            (format!("port {name} tx bytes"), port.tx_bytes),
            (
                format!("port {name} both"),
                port.rx_packets + port.tx_packets,
            ),
        ]);
    }
    for link in &status.links {
        let name = &link.port;
        all.extend([
            (format!("link {name} committed"), link.committed),
            (format!("link {name} executed"), link.executed),
            (format!("link {name} both"), link.committed + link.executed),
        ]);
    }
    for pipe in &status.pipes {
        let name = format!("pipe {} {}", pipe.session, pipe.pipe);
        all.extend([
            (format!("{name} rx"), pipe.rx_packets),
            (format!("{name} rx bytes"), pipe.rx_bytes),
            (format!("{name} tx"), pipe.tx_packets),
            (format!("{name} tx bytes"), pipe.tx_bytes),
            (format!("{name} both"), pipe.rx_packets + pipe.tx_packets),
        ]);
    }
    all
}

fn losses(status: &NodeStatus) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    let mut add = |place: &str, what: &str, causes: &Causes| {
        let named = causes.iter();
        all.extend(named.map(|(cause, &count)| (format!("{place}: {what}, {cause}"), count)));
    };
    for port in &status.ports {
        let place = format!("port {}", port.name);
        add(&place, "dropped", &port.drops);
        add(&place, "refused to the sender", &port.refusals);
    }
    for link in &status.links {
        let place = format!("link {}", link.port);
        add(&place, "failed", &link.failures);
        add(&place, "dropped", &link.drops);
    }
    for pipe in &status.pipes {
        let place = format!("pipe {} of session {}", pipe.pipe, pipe.session);
        add(&place, "dropped", &pipe.drops);
    }
    add("verbs", "refused here", &status.verbs.refused);
    add("shared memory", "application detached", &status.violations);
    add("socket", "turned away", &status.peers_refused);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::sample_node;

    fn node(uptime_s: u64, rx_packets: u64) -> NodeStatus {
        let mut status = sample_node();
        status.uptime_ns = uptime_s * 1_000_000_000;
        status.ports[0].rx_packets = rx_packets;
        status
    }

    #[test]
    fn a_rate_is_the_increase_between_two_polls() {
        let mut rates = Rates::default();
        rates.take(node(10, 1_000));
        assert_eq!(rates.rate("port p0 rx"), None);
        assert!(!rates.are_known());
        rates.take(node(12, 1_500));
        assert!(rates.are_known());
        assert_eq!(rates.rate("port p0 rx"), Some(250.0));
        rates.take(node(13, 1_500));
        assert_eq!(rates.history("port p0 rx"), [250.0, 0.0]);
        // A look at the same instant changes nothing.
        rates.take(node(13, 1_500));
        assert_eq!(rates.history("port p0 rx"), [250.0, 0.0]);
        for second in 14..200 {
            rates.take(node(second, 1_500));
        }
        assert_eq!(rates.history("port p0 rx").len(), KEPT_MAX);
    }

    #[test]
    fn a_restarted_daemon_has_no_rates_yet() {
        let mut rates = Rates::default();
        rates.take(node(10, 1_000));
        rates.take(node(11, 2_000));
        let mut anew = node(12, 5);
        anew.pid += 1;
        rates.take(anew);
        assert_eq!(rates.rate("port p0 rx"), None);
        assert!(!rates.are_known());
    }

    #[test]
    fn a_new_link_has_rates_in_its_first_sample() {
        let mut rates = Rates::default();
        rates.take(node(10, 0));
        let mut status = node(12, 0);
        let mut link = status.links[0].clone();
        (link.port, link.committed) = ("p9".into(), 500);
        status.links.push(link);
        rates.take(status);
        assert_eq!(rates.rate("link p9 committed"), Some(250.0));
    }

    #[test]
    fn current_losses_come_first() {
        let mut rates = Rates::default();
        rates.take(node(10, 0));
        let mut status = node(11, 0);
        status.links[0].drops.insert("stale_epoch".into(), 5);
        rates.take(status);
        let losses = rates.losses();
        assert_eq!(losses[0], ("link p0: dropped, stale_epoch".into(), 5, 3.0));
        assert!(losses.iter().all(|(_, total, _)| *total > 0));
        assert!(losses.len() > 2);
    }
}
