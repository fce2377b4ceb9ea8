//! `docs/metrics.md`, made of the declarations.

use covalent_api::metrics::{Declared, Section};

const HEAD: &str = "\
# Metrics

`covalent-control` serves these series at `http://127.0.0.1:9464/metrics` (`control.metrics_listen`)
in the Prometheus text format. `make metrics` generates this page and the dashboard's queries from
the declarations in `base/api/src/metrics` and `control/src/metrics`. A test fails when they differ.

The same families, labels and values are streamed over gRPC on `telemetry.sock` in
`node.runtime_dir`: use `covalent watch`, or any client of
[the schema](../base/grpc-schema/proto/covalent/telemetry/v1/telemetry.proto).

| file | content |
|---|---|
| [`configs/prometheus.yml`](../configs/prometheus.yml) | a scrape example |
| [`configs/alerts.yml`](../configs/alerts.yml) | alert rules, each with its remedy; \
[`configs/alerts_test.yml`](../configs/alerts_test.yml) shows when they fire (`promtool test \
rules`) |
| [`configs/grafana.json`](../configs/grafana.json) | a Grafana dashboard of all series on this \
page: import it, and choose the data source |

`make install` installs them below `PREFIX/share/covalent`.

## The naming law

";

const AFTER_LAW: &str = "
A histogram `x` is shown as `x_bucket`, by `le`, `x_sum` and `x_count`. Pipes and regions carry the
number of their session, so a new attachment creates new series. When the daemon neither updates its
counters nor answers, `covalent_up` is 0 and only the series of the control process remain.

Control reads the daemon's series from its counters in shared memory ([counters.md](counters.md)),
so a scrape sends no request to a lane. The values are at most `dataplane.counters_ms` and one tick
old. If a lane has more than 64 pipes, each tick updates 64 of them. With
`dataplane.counters_ms = 0`, or where control may not read the counters, each scrape requests the
daemon's status, which has room for some hundred pipes.
";

/// The page.
#[must_use]
pub fn page() -> String {
    let sections = super::sections();
    let sections = sections.iter().map(section).collect::<String>();
    [HEAD, include_str!("law.md"), AFTER_LAW, &sections].concat()
}

fn section(section: &Section) -> String {
    let words = match section.words {
        "" => String::new(),
        words => format!("{words}\n\n"),
    };
    let rows = section.metrics.iter().map(row).collect::<String>();
    format!(
        "\n## {}\n\n{words}| series | type | labels | unit | meaning | when to worry \
         |\n|---|---|---|---|---|---|\n{rows}",
        section.title
    )
}

fn row(declared: &Declared) -> String {
    let labels: Vec<String> = declared
        .labels
        .iter()
        .map(|label| format!("`{label}`"))
        .collect();
    let labels = if labels.is_empty() {
        "–".to_owned()
    } else {
        labels.join(", ")
    };
    let words = &declared.family;
    format!(
        "| `{}` | {} | {labels} | {} | {} | {} |\n",
        words.name,
        declared.kind.as_str(),
        words.unit,
        words.meaning,
        words.worry
    )
}
