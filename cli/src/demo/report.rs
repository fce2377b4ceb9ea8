//! The summary: one value for programs, one table for people.

use std::time::Duration;

use comfy_table::{Cell, Color, Table};
use covalent_api::status::{NodeStatus, PortMode};
use serde::Serialize;

use super::{
    checks::Check,
    goals::Goal,
    medium::Medium,
    rest::Rest,
    streams::Streams,
    telemetry::{Figures, NodeFigures, words},
    transfer::Outcome,
    verbs::{ClientReport, Verbs},
};
use crate::{
    output::{Theme, bytes, duration, grouped},
    status::mode,
};

/// Everything that the demonstration found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What joined the nodes.
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
    /// What `/metrics` of both nodes told at the end.
    pub telemetry: Vec<NodeFigures>,
    /// The processes at rest.
    pub rest: Vec<Rest>,
    /// Performance against bare AF_XDP; empty where it was not measured.
    pub goals: Vec<Goal>,
    /// What must be true.
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

impl Report {
    /// The table.
    pub fn table(&self, theme: Theme) -> Table {
        let mut table = theme.table(&["", "result", ""]);
        self.add_figures(&mut table);
        self.add_rest_and_goals(&mut table, theme);
        for check in &self.checks {
            let mark = if check.passed {
                theme.cell("✓", Color::Green)
            } else {
                theme.cell("✗ FAILED", Color::Red)
            };
            table.add_row([Cell::new(check.check), mark, Cell::new(&check.found)]);
        }
        table
    }

    fn add_figures(&self, table: &mut Table) {
        let Self {
            streams,
            verbs,
            telemetry,
            ..
        } = self;
        let all = |count: fn(&NodeFigures) -> u64| telemetry.iter().map(count).sum::<u64>();
        let of_each = |count: fn(&NodeFigures) -> u64| {
            telemetry
                .iter()
                .map(|node| format!("{} {}", node.node, grouped(count(node))))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let causes = |of: fn(&NodeFigures) -> &super::telemetry::Causes| {
            telemetry
                .iter()
                .map(|node| format!("{}: {}", node.node, words(of(node))))
                .collect::<Vec<_>>()
                .join("; ")
        };
        let mut row = |what: &str, result: String, more: String| {
            table.add_row([what.to_owned(), result, more]);
        };
        row(
            "packets received by the dataplanes",
            grouped(all(|node| node.rx_packets)),
            of_each(|node| node.rx_packets),
        );
        row(
            "bytes",
            grouped(all(|node| node.rx_bytes)),
            of_each(|node| node.rx_bytes),
        );
        row(
            "streams",
            format!("{:.3} Mpps", self.streams_mpps),
            format!(
                "{}: {} files, {} frames, each there and back",
                streams.replay.source,
                streams.replay.files,
                grouped(streams.replay.frames)
            ),
        );
        row(
            "stream round trip p50 / p99",
            pair(streams.replay.rtt_p50_ns, streams.replay.rtt_p99_ns),
            "TX pipe of a → RX/TX pipe of b → RX pipe of a, with a full window".into(),
        );
        row(
            "verbs",
            format!("{} verbs/s", grouped(self.verbs_per_s as u64)),
            format!(
                "{} by two remote and two local clients, with the cut",
                grouped(all(|node| node.verbs_completed))
            ),
        );
        for (what, clients) in [("remote", &verbs.remote), ("local", &verbs.local)] {
            row(
                &format!("{what} verb round trip p50 / p99"),
                pair(
                    worst(clients, |client| client.rtt_p50_ns),
                    worst(clients, |client| client.rtt_p99_ns),
                ),
                format!(
                    "{} verbs/s, many at a time",
                    grouped(clients.iter().map(|client| client.verbs_per_s).sum::<f64>() as u64)
                ),
            );
        }
        let gap = telemetry
            .iter()
            .filter_map(|node| node.last_failover_ns)
            .max();
        row(
            "failover gap",
            gap.map_or_else(|| "–".into(), duration),
            format!(
                "longest gap that a remote client saw: {}",
                duration(worst(&verbs.remote, |client| client.longest_gap_ns))
            ),
        );
        row(
            "kernel TCP beside it",
            self.kernel_tcp
                .as_ref()
                .map_or_else(|| "not applicable".into(), |tcp| bytes(tcp.sent_bytes)),
            self.kernel_tcp.as_ref().map_or_else(
                || "no kernel interface under the cable".into(),
                |_| {
                    format!(
                        "{} frames passed to the kernel by the XDP programs",
                        grouped(all(|node| node.kernel_packets))
                    )
                },
            ),
        );
        row(
            "drops by cause",
            grouped(
                telemetry
                    .iter()
                    .map(|node| super::telemetry::total(&node.drops))
                    .sum(),
            ),
            causes(|node| &node.drops),
        );
        row(
            "frames refused by reason",
            grouped(
                telemetry
                    .iter()
                    .map(|node| super::telemetry::total(&node.refusals))
                    .sum(),
            ),
            causes(|node| &node.refusals),
        );
        row(
            "link failures by cause",
            grouped(
                telemetry
                    .iter()
                    .map(|node| super::telemetry::total(&node.link_failures))
                    .sum(),
            ),
            causes(|node| &node.link_failures),
        );
    }

    fn add_rest_and_goals(&self, table: &mut Table, theme: Theme) {
        let verdict = |met: bool| {
            if met {
                theme.cell("met", Color::Green)
            } else {
                theme.cell("MISSED", Color::Yellow)
            }
        };
        for rest in &self.rest {
            table.add_row([
                Cell::new(format!("at rest: {} of {}", rest.program, rest.node)),
                verdict(rest.is_modest()),
                Cell::new(format!(
                    "{:.2} % of a core, {} resident (goal: below 2 %, 100 MiB)",
                    rest.cpu_share * 100.0,
                    bytes(rest.resident_bytes)
                )),
            ]);
        }
        for goal in &self.goals {
            table.add_row([
                Cell::new(goal.title()),
                verdict(goal.met),
                Cell::new(format!(
                    "{:.2} of the bare peer's: {} against {} {}",
                    goal.ratio,
                    figure(goal.covalent),
                    figure(goal.bare),
                    goal.unit
                )),
            ]);
        }
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
