//! `configs/grafana.json`, generated from the declarations: the most important metrics first, then
//! a row for each section with all of its metrics.

use covalent_api::metrics::{Declared, Kind, NO_UNIT};
use serde_json::{Value, json};

use super::sections;

/// The most important metrics.
const FIRST: [&str; 14] = [
    "covalent_up",
    "covalent_link_up",
    "covalent_port_carrier",
    "covalent_verb_in_doubt",
    "covalent_port_rx_packets_total",
    "covalent_port_tx_packets_total",
    "covalent_port_dropped_packets_total",
    "covalent_pipe_dropped_packets_total",
    "covalent_verb_executed_total",
    "covalent_link_failures_total",
    "covalent_link_committed_exchanges_total",
    "covalent_link_reversed_exchanges_total",
    "covalent_link_round_trip_seconds",
    "covalent_lane_busy_seconds_total",
];

/// Ratios that no single metric provides: the first metric as a share of the second.
const SHARES: [(&str, &str, &str); 2] = [
    (
        "Share of the lanes' rounds that found work",
        "covalent_lane_busy_loops_total",
        "covalent_lane_loops_total",
    ),
    (
        "Share of the pipes' rings in use",
        "covalent_pipe_used_bytes",
        "covalent_pipe_capacity_bytes",
    ),
];

/// Labels that distinguish cases of one metric. Cases that never occurred are omitted from the
/// panel.
const CASES: [&str; 8] = [
    "cause", "count", "event", "evidence", "how", "state", "verb", "what",
];

/// Grafana divides its width by so many.
const COLUMNS: usize = 24;
const WIDTH: usize = 8;
const HEIGHT: usize = 8;

/// The dashboard as Grafana imports it.
#[must_use]
pub fn dashboard() -> String {
    let sections = sections();
    let all = || sections.iter().flat_map(|section| &section.metrics);
    let named = |name: &str| all().find(|declared| declared.family.name == name);
    let mut panels = Panels::default();
    panels.row("At a glance", false, |row| {
        FIRST
            .iter()
            .filter_map(|name| named(name))
            .for_each(|declared| row.push(panel(declared)));
        for (title, part, whole) in SHARES {
            row.extend(
                named(part)
                    .zip(named(whole))
                    .map(|(part, whole)| share(title, part, whole)),
            );
        }
    });
    for section in &sections {
        panels.row(section.title, true, |row| {
            row.extend(section.metrics.iter().map(panel));
        });
    }
    let mut text = format!("{:#}", whole(&panels.placed));
    text.push('\n');
    text
}

fn whole(panels: &[Value]) -> Value {
    json!({
        "uid": "covalent",
        "title": "Covalent",
        "description": "Generated from the declarations of the metrics. docs/metrics.md describes \
                        each metric and when to worry.",
        "tags": ["covalent"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {
                "name": "datasource",
                "label": "Data source",
                "type": "datasource",
                "query": "prometheus"
            },
            {
                "name": "node",
                "label": "Node",
                "type": "query",
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "query": {"qryType": 1, "query": "label_values(covalent_up,node)", "refId": "node"},
                "definition": "label_values(covalent_up,node)",
                "includeAll": true,
                "multi": true,
                "current": {"text": ["All"], "value": ["$__all"]},
                "refresh": 2,
                "sort": 1
            }
        ]},
        "panels": panels
    })
}

/// Rows of panels, from the top of the page.
#[derive(Default)]
struct Panels {
    placed: Vec<Value>,
    count: usize,
    y: usize,
}

impl Panels {
    /// A row and its panels. Grafana stores the panels of a collapsed row inside it.
    fn row(&mut self, title: &str, collapsed: bool, fill: impl FnOnce(&mut Vec<Value>)) {
        let mut inside = Vec::new();
        fill(&mut inside);
        let id = self.next_id();
        let grid = json!({"x": 0, "y": self.y, "w": COLUMNS, "h": 1});
        self.y += 1;
        for (at, panel) in inside.iter_mut().enumerate() {
            let across = COLUMNS / WIDTH;
            panel["id"] = json!(self.next_id());
            panel["gridPos"] = json!({
                "x": at % across * WIDTH,
                "y": self.y + at / across * HEIGHT,
                "w": WIDTH,
                "h": HEIGHT
            });
        }
        self.y += inside.len().div_ceil(COLUMNS / WIDTH) * HEIGHT;
        let (within, below) = if collapsed {
            (inside, Vec::new())
        } else {
            (Vec::new(), inside)
        };
        self.placed.push(json!({
            "id": id,
            "type": "row",
            "title": title,
            "collapsed": collapsed,
            "gridPos": grid,
            "panels": within,
        }));
        self.placed.extend(below);
    }

    const fn next_id(&mut self) -> usize {
        self.count += 1;
        self.count
    }
}

/// A panel that shows one metric.
fn panel(declared: &Declared) -> Value {
    let words = &declared.family;
    let (kind, targets) = match declared.kind {
        _ if words.unit == NO_UNIT => ("table", vec![table(declared)]),
        Kind::Histogram => (
            "timeseries",
            [("0.5", "median"), ("0.99", "99 %")]
                .into_iter()
                .map(|(quantile, called)| {
                    target(
                        &quantile_of(declared, quantile),
                        &format!("{called} {}", legend(declared)),
                    )
                })
                .collect(),
        ),
        Kind::Gauge if words.unit == "0 or 1" => ("state-timeline", vec![plain(declared)]),
        Kind::Counter | Kind::Gauge => ("timeseries", vec![plain(declared)]),
    };
    json!({
        "type": kind,
        "title": words.meaning.trim_end_matches('.'),
        "description": format!("`{}`. When to worry: {}", words.name, words.worry),
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": unit(declared)}, "overrides": []},
        "targets": lettered(targets)
    })
}

/// A panel that shows which share of `whole` the part is.
fn share(title: &str, part: &Declared, whole: &Declared) -> Value {
    let expr = format!("{} / {}", value(part), value(whole));
    json!({
        "type": "timeseries",
        "title": title,
        "description": format!("`{}` in `{}`", part.family.name, whole.family.name),
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": "percentunit", "min": 0, "max": 1}, "overrides": []},
        "targets": lettered(vec![target(&expr, &legend(part))])
    })
}

fn lettered(mut targets: Vec<Value>) -> Vec<Value> {
    for (target, letter) in targets.iter_mut().zip('A'..) {
        target["refId"] = json!(letter.to_string());
    }
    targets
}

fn target(expr: &str, legend: &str) -> Value {
    json!({"expr": expr, "legendFormat": legend})
}

fn plain(declared: &Declared) -> Value {
    let value = value(declared);
    let cases = declared.labels.iter().any(|label| CASES.contains(label));
    let expr = if cases { format!("{value} > 0") } else { value };
    target(&expr, &legend(declared))
}

fn value(declared: &Declared) -> String {
    match declared.kind {
        Kind::Counter => rate(declared),
        Kind::Gauge | Kind::Histogram => selected(declared, ""),
    }
}

fn table(declared: &Declared) -> Value {
    let mut query = target(&selected(declared, ""), "");
    query["format"] = json!("table");
    query["instant"] = json!(true);
    query
}

fn selected(declared: &Declared, suffix: &str) -> String {
    format!("{}{suffix}{{node=~\"$node\"}}", declared.family.name)
}

fn rate(declared: &Declared) -> String {
    format!("rate({}[$__rate_interval])", selected(declared, ""))
}

fn quantile_of(declared: &Declared, quantile: &str) -> String {
    let by: String = declared
        .labels
        .iter()
        .map(|label| format!(", {label}"))
        .collect();
    let buckets = selected(declared, "_bucket");
    format!(
        "histogram_quantile({quantile}, sum by (le, node{by}) (rate({buckets}[$__rate_interval])))"
    )
}

/// The labels that distinguish the series of one panel.
fn legend(declared: &Declared) -> String {
    let labels = declared
        .labels
        .iter()
        .map(|label| format!(" {{{{{label}}}}}"));
    format!("{{{{node}}}}{}", labels.collect::<String>())
}

/// Grafana's name of the unit.
fn unit(declared: &Declared) -> &'static str {
    let grows = declared.kind == Kind::Counter;
    match declared.family.unit {
        "seconds" if grows => "percentunit",
        "seconds" => "s",
        "bytes" if grows => "Bps",
        "bytes" => "bytes",
        "packets" | "frames" if grows => "pps",
        _ if grows => "cps",
        _ => "short",
    }
}
