//! The summary: one value for programs, one table for people.

use std::time::Duration;

use covalent_api::status::{NodeStatus, PortMode};
use serde::Serialize;

use super::{
    checks::Check,
    goals::Goal,
    losses::Losses,
    medium::Medium,
    refusals::Refusals,
    rest::IdleUsage,
    streams::Streams,
    telemetry::{Causes, Figures, NodeFigures, total, words},
    transfer::Outcome,
    verbs::{ClientReport, Verbs},
};
use crate::{
    output::{Cell, Color, Table, Theme, bytes, duration, grouped},
    status::mode,
};

/// Everything that the demonstration found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The medium that connected the nodes.
    pub medium: Medium,
    /// The mode in effect of each port.
    pub ports: Vec<PortInEffect>,
    /// Figures of the streams.
    pub streams: Streams,
    /// Frames that both dataplanes received while the streams ran, each second, in millions.
    pub streams_mpps: f64,
    /// The kernel's transfer; none under a cable.
    pub kernel_tcp: Option<Outcome>,
    /// Figures of the verbs.
    pub verbs: Verbs,
    /// Verbs that completed on both nodes each second.
    pub verbs_per_s: f64,
    /// The final figures from `/metrics` of both nodes.
    pub telemetry: Vec<NodeFigures>,
    /// Frames that did not arrive.
    pub losses: Losses,
    /// Frames that were refused.
    pub refusals: Refusals,
    /// The processes at rest.
    pub rest: Vec<IdleUsage>,
    /// Performance against bare AF_XDP and kernel UDP; empty where it was not measured.
    pub goals: Vec<Goal>,
    /// The checks.
    pub checks: Vec<Check>,
    /// Whether all of it is.
    pub ok: bool,
    /// How long the demonstration took, in seconds.
    pub seconds: f64,
}

/// A port's mode, read back from its daemon.
#[derive(Debug, Clone, Serialize)]
pub struct PortInEffect {
    /// Its node.
    pub node: String,
    /// Its name.
    pub port: String,
    /// Its kind.
    pub kind: String,
    /// Its mode.
    pub mode: PortMode,
}

impl PortInEffect {
    /// The ports of a node.
    pub fn of(status: &NodeStatus) -> impl Iterator<Item = Self> {
        status.ports.iter().map(|port| Self {
            node: status.node.clone(),
            port: port.name.clone(),
            kind: port.kind.clone(),
            mode: port.mode.clone(),
        })
    }

    /// In words.
    pub fn words(&self) -> String {
        format!(
            "node {} port {}: {}",
            self.node,
            self.port,
            mode(&self.kind, &self.mode)
        )
    }
}

/// Things of a kind that happened between two looks at the telemetry, each second.
pub fn per_second(before: &Figures, after: &Figures, count: fn(&NodeFigures) -> u64) -> f64 {
    let happened: u64 = after
        .each()
        .iter()
        .zip(before.each())
        .map(|(after, before)| count(after) - count(before))
        .sum();
    let elapsed = after
        .at
        .duration_since(before.at)
        .max(Duration::from_nanos(1));
    happened as f64 / elapsed.as_secs_f64()
}

/// A row of the table: a mark, the subject, the figure, and details.
struct Row {
    mark: Cell,
    what: String,
    result: String,
    more: String,
}

impl Row {
    fn figure(what: impl Into<String>, result: impl Into<String>, more: impl Into<String>) -> Self {
        Self {
            mark: Cell::new(""),
            what: what.into(),
            result: result.into(),
            more: more.into(),
        }
    }
}

fn table(theme: Theme, rows: impl Iterator<Item = Row>) -> Table {
    let mut table = theme.new_table(["", "what", "result", "details"]);
    for row in rows {
        table.add_row([
            row.mark,
            Cell::new(row.what),
            Cell::new(row.result),
            Cell::new(row.more),
        ]);
    }
    table
}

impl Report {
    /// The table.
    pub fn table(&self, theme: Theme) -> Table {
        let rows = [
            self.traffic(),
            self.verb_figures(),
            self.loss_rows(),
            self.goal_rows(theme),
            self.check_rows(theme),
        ];
        table(theme, rows.into_iter().flatten())
    }

    fn traffic(&self) -> Vec<Row> {
        let replay = &self.streams.replay;
        let (kernel, passed) = match &self.kernel_tcp {
            Some(tcp) => (
                bytes(tcp.sent_bytes),
                format!(
                    "{} frames passed to the kernel by the XDP programs",
                    grouped(self.sum(|node| node.kernel_packets))
                ),
            ),
            None => (
                "not applicable".into(),
                "no kernel interface under these ports".into(),
            ),
        };
        vec![
            Row::figure(
                "packets",
                grouped(self.sum(|node| node.rx_packets)),
                self.each("received by", |node| node.rx_packets),
            ),
            Row::figure(
                "bytes",
                grouped(self.sum(|node| node.rx_bytes)),
                self.each("received by", |node| node.rx_bytes),
            ),
            Row::figure(
                "streams",
                format!("{:.3} Mpps", self.streams_mpps),
                format!(
                    "{} frames of {} ({} files), there and back",
                    grouped(replay.frames),
                    replay.source,
                    replay.files
                ),
            ),
            Row::figure(
                "stream round trip p50 / p99",
                pair(replay.rtt_p50_ns, replay.rtt_p99_ns),
                "TX pipe, wire, RX/TX pipe, wire, RX pipe; with a full window",
            ),
            Row::figure("kernel TCP beside it", kernel, passed),
        ]
    }

    fn verb_figures(&self) -> Vec<Row> {
        let verbs = &self.verbs;
        let mut rows = vec![Row::figure(
            "verbs",
            format!("{} verbs/s", grouped(self.verbs_per_s as u64)),
            format!(
                "{}, by two remote and two local clients; {} of them found the region",
                grouped(self.sum(|node| node.verbs_completed)),
                verbs
                    .clients()
                    .map(|client| client.lookup_verbs)
                    .sum::<u64>()
            ),
        )];
        for (who, clients) in [("remote", &verbs.remote), ("local", &verbs.local)] {
            let rate: f64 = clients.iter().map(|client| client.verbs_per_s).sum();
            rows.push(Row::figure(
                format!("{who} verb round trip p50 / p99"),
                pair(
                    worst(clients, |client| client.rtt_p50_ns),
                    worst(clients, |client| client.rtt_p99_ns),
                ),
                format!("{} verbs/s, 64 at a time", grouped(rate as u64)),
            ));
        }
        let gap = self
            .telemetry
            .iter()
            .filter_map(|node| node.last_failover_ns)
            .max();
        rows.push(Row::figure(
            "failover gap",
            gap.map_or_else(|| "none".into(), duration),
            "from the moment the daemon noticed to the next completion at that neighbor",
        ));
        rows.push(Row::figure(
            "longest gap of a remote client",
            duration(worst(&verbs.remote, |client| client.longest_gap_ns)),
            "between two completions, in the whole run: the cut, its detection and the failover",
        ));
        rows
    }

    fn loss_rows(&self) -> Vec<Row> {
        let Refusals { refused, put_off } = &self.refusals;
        let Losses {
            dropped,
            taken_by_the_cut,
            records_dropped,
            records_outdated,
            // The failures of links above count these too.
            failures_before: _,
        } = &self.losses;
        vec![
            Row::figure("drops by cause", grouped(total(dropped)), words(dropped)),
            Row::figure(
                "frames refused by reason",
                grouped(total(refused)),
                format!(
                    "{}; at TX pipes, reported to the application; deferred: {}",
                    words(refused),
                    words(put_off)
                ),
            ),
            Row::figure(
                "link failures by cause",
                grouped(self.sum(|node| total(&node.link_failures))),
                self.causes(|node| &node.link_failures),
            ),
            Row::figure(
                "frames taken by the cut",
                grouped(total(taken_by_the_cut)),
                format!("{}; link records only", words(taken_by_the_cut)),
            ),
            Row::figure(
                "records dropped by links",
                grouped(total(records_dropped)),
                format!(
                    "{}; outdated: {}",
                    words(records_dropped),
                    words(records_outdated)
                ),
            ),
        ]
    }

    fn goal_rows(&self, theme: Theme) -> Vec<Row> {
        let mark = |met: bool| {
            if met {
                theme.cell("✓", Color::Green)
            } else {
                theme.cell("!", Color::Yellow)
            }
        };
        let rest = self.rest.iter().map(|rest| Row {
            mark: mark(rest.is_modest()),
            what: format!("{} of {} at rest", rest.program, rest.node),
            result: format!("{:.2} % of a core", rest.cpu_share * 100.0),
            more: format!(
                "{} resident (goal: below 2 % and 100 MiB)",
                bytes(rest.resident_bytes)
            ),
        });
        let goals = self.goals.iter().map(|goal| Row {
            mark: mark(goal.met),
            what: goal.title(),
            result: format!("{:.2} of {}", goal.ratio, goal.peer()),
            more: format!(
                "{} against {} {} ({}{}){}",
                figure(goal.covalent),
                figure(goal.bare),
                goal.unit,
                goal.bound(),
                if goal.met { "" } else { ": MISSED" },
                goal.aside()
            ),
        });
        rest.chain(goals).collect()
    }

    fn check_rows(&self, theme: Theme) -> Vec<Row> {
        let row = |check: &Check| Row {
            mark: if check.passed {
                theme.cell("✓", Color::Green)
            } else {
                theme.cell("✗", Color::Red)
            },
            what: check.check.to_owned(),
            result: if check.passed { "passed" } else { "FAILED" }.into(),
            more: check.found.clone(),
        };
        self.checks.iter().map(row).collect()
    }

    fn sum(&self, count: fn(&NodeFigures) -> u64) -> u64 {
        self.telemetry.iter().map(count).sum()
    }

    fn each(&self, what: &str, count: fn(&NodeFigures) -> u64) -> String {
        let list: Vec<String> = self
            .telemetry
            .iter()
            .map(|node| format!("{} {}", node.node, grouped(count(node))))
            .collect();
        format!("{what} {}", list.join(", "))
    }

    fn causes(&self, of: fn(&NodeFigures) -> &Causes) -> String {
        let list: Vec<String> = self
            .telemetry
            .iter()
            .map(|node| format!("{}: {}", node.node, words(of(node))))
            .collect();
        list.join("; ")
    }
}

fn pair(one: u64, other: u64) -> String {
    format!("{} / {}", duration(one), duration(other))
}

fn worst(clients: &[ClientReport], of: fn(&ClientReport) -> u64) -> u64 {
    clients.iter().map(of).max().unwrap_or(0)
}

/// A figure with as many digits as mean something.
fn figure(value: f64) -> String {
    if value >= 1000.0 {
        grouped(value as u64)
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::output::walk;

    /// The widest summary.
    pub fn widest(theme: Theme) -> String {
        let count = grouped(u64::MAX);
        let rows = [
            Row::figure(
                "packets",
                count.as_str(),
                format!("received by {} {count}, {} {count}", walk::NAME, walk::NAME),
            ),
            Row {
                mark: theme.cell("✗", Color::Red),
                ..Row::figure(
                    "stream round trip p50 / p99",
                    "999.9 ms / 999.9 ms",
                    "TX pipe, wire, RX/TX pipe, wire, RX pipe; with a full window",
                )
            },
        ];
        table(theme, rows.into_iter()).to_string()
    }
}
