//! Tests the dashboard: every query uses only declared metrics, every metric is in it, and
//! Prometheus can parse it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{page, promql, promtool};

/// Every query of the committed dashboard.
fn queries() -> Vec<String> {
    let whole: Value =
        serde_json::from_str(&page::committed("configs/grafana.json")).expect("JSON");
    let mut found = Vec::new();
    collect(&whole, &mut found);
    found
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|item| collect(item, into)),
        Value::Object(fields) => {
            for (name, item) in fields {
                match item {
                    Value::String(query) if name == "expr" => into.push(query.clone()),
                    other => collect(other, into),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_query_uses_declared_metrics_and_no_metric_is_left_out() {
    let declared = page::declared();
    let mut shown = BTreeSet::new();
    for query in queries() {
        match promql::metrics(&query, &declared) {
            Ok(metrics) => shown.extend(metrics),
            Err(problem) => panic!("configs/grafana.json: {query}: {problem}"),
        }
    }
    assert_eq!(shown, declared.keys().copied().collect());
}

#[test]
fn panels_have_unique_numbers_and_do_not_overlap() {
    let whole: Value =
        serde_json::from_str(&page::committed("configs/grafana.json")).expect("JSON");
    let rows = whole["panels"].as_array().expect("panels");
    let inside = rows
        .iter()
        .flat_map(|row| row["panels"].as_array().into_iter().flatten());
    let (mut numbers, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in rows.iter().chain(inside) {
        assert!(
            numbers.insert(panel["id"].as_u64().expect("a number")),
            "{panel}"
        );
        let grid = &panel["gridPos"];
        let [x, y, w] = ["x", "y", "w"].map(|key| grid[key].as_u64().expect("a number"));
        assert!(x + w <= 24 && places.insert((x, y)), "{panel}");
    }
    assert!(numbers.len() > 100, "{}", numbers.len());
}

#[test]
fn prometheus_can_read_every_query() {
    let Some(promtool) = promtool::find() else {
        return;
    };
    let rules: String = queries()
        .iter()
        .enumerate()
        .map(|(at, query)| {
            let query = query
                .replace("$__rate_interval", "5m")
                .replace("$node", ".*");
            format!("  - record: query:{at}\n    expr: {}\n", Value::from(query))
        })
        .collect();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("queries.yml");
    std::fs::write(
        &file,
        format!("groups:\n- name: dashboard\n  rules:\n{rules}"),
    )
    .expect("written");
    promtool.run(&["check", "rules", file.to_str().expect("UTF-8")]);
}
