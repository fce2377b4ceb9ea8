//! The exposition text: complete, well-formed, and lawful.

use std::collections::BTreeMap;

use covalent_api::{event::EventKind, status::NodeStatus};
use covalent_control::metrics::{OwnMetrics, render};
use serde_json::Value;

use crate::{
    exposition::{Exposition, Sample},
    fixture,
};

fn rendered(status: Option<&NodeStatus>) -> Exposition {
    let own = OwnMetrics::new("node-a").expect("lawful declarations");
    let text = render("node-a", &own, status).expect("renders");
    Exposition::parse(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
}

/// Every number in `value`, with the name of its field.
fn numbers(name: &str, value: &Value, into: &mut Vec<(String, u64)>) {
    match value {
        Value::Number(number) => into.push((
            name.to_owned(),
            number.as_u64().expect("the status counts with u64"),
        )),
        Value::Array(list) => list.iter().for_each(|item| numbers(name, item, into)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(field, item)| numbers(field, item, into)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[test]
fn every_number_of_the_status_is_shown_in_its_base_unit() {
    let status = fixture::status();
    let json = serde_json::to_value(&status).expect("JSON");
    let mut expected = Vec::new();
    numbers("", &json, &mut expected);
    // The key of a region is a right to use it.
    expected.retain(|(field, _)| field != "rkey");
    assert!(
        expected.len() > 70,
        "the fixture is full: {}",
        expected.len()
    );
    let mut distinct: Vec<u64> = expected.iter().map(|(_, number)| *number).collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(
        distinct.len(),
        expected.len(),
        "each number of the fixture is another, so that none can stand for two"
    );

    let exposition = rendered(Some(&status));
    for (field, number) in expected {
        let value = if field.ends_with("_ns") {
            number as f64 / 1e9
        } else {
            number as f64
        };
        let shown = |sample: &Sample| {
            sample.value == value
                || sample
                    .labels
                    .values()
                    .any(|label| *label == number.to_string())
        };
        assert!(
            exposition.samples.iter().any(shown),
            "`{field}` = {number} is nowhere on /metrics"
        );
    }
}

#[test]
fn text_is_exported_in_labels() {
    let exposition = rendered(Some(&fixture::status()));
    let labels = |name: &str, port: &str| -> BTreeMap<String, String> {
        let sample = exposition.samples.iter().find(|sample| {
            sample.name == name && sample.labels.get("port").is_none_or(|label| label == port)
        });
        sample.unwrap_or_else(|| panic!("no {name}")).labels.clone()
    };
    assert_eq!(labels("covalent_node_info", "")["guid"], "0123456789abcdef");
    let port = labels("covalent_port_info", "p0");
    assert_eq!(
        (
            port["kind"].as_str(),
            port["xdp"].as_str(),
            port["zero_copy"].as_str()
        ),
        ("af_xdp", "native", "false")
    );
    assert_eq!(labels("covalent_port_info", "p1")["interface"], "");
    assert_eq!(
        labels("covalent_link_info", "p0")["peer_name"],
        "quote \" back\\slash\nline"
    );
    let states: BTreeMap<&str, f64> = exposition
        .named("covalent_link_state")
        .filter(|sample| sample.labels["port"] == "p0")
        .map(|sample| (sample.labels["state"].as_str(), sample.value))
        .collect();
    assert_eq!(
        states,
        BTreeMap::from([("down", 0.0), ("init", 0.0), ("up", 1.0)])
    );
    let failover: Vec<&Sample> = exposition
        .named("covalent_link_last_failover_seconds")
        .collect();
    assert_eq!(
        failover.len(),
        1,
        "a link that never failed has no failover time"
    );
}

#[test]
fn a_cause_that_never_occurred_is_present_and_zero() {
    let exposition = rendered(Some(&fixture::status()));
    let never = exposition
        .named("covalent_port_dropped_packets_total")
        .find(|sample| sample.labels["cause"] == "never");
    assert_eq!(never.map(|sample| sample.value), Some(0.0));
}

#[test]
fn the_naming_law_holds() {
    let exposition = rendered(Some(&fixture::status()));
    for (name, family) in &exposition.families {
        assert!(
            !family.help.is_empty() && family.help.ends_with('.'),
            "{name}: HELP is one sentence: {}",
            family.help
        );
        let lawful = name.starts_with("covalent_")
            && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        assert!(lawful, "{name}");
        assert_eq!(
            family.kind == "counter",
            name.ends_with("_total"),
            "{name} is a {}",
            family.kind
        );
        for unit in ["ns", "ms", "us", "nanoseconds", "mib", "kib"] {
            assert!(
                !name.split('_').any(|word| word == unit),
                "{name} is not in a base unit"
            );
        }
        let object = name.split('_').nth(1).unwrap_or_default();
        let objects = [
            "up", "node", "lane", "port", "link", "tree", "path", "group", "pipe", "region",
            "verb", "control",
        ];
        assert!(
            objects.contains(&object),
            "{name}: `{object}` is no object of the law"
        );
    }
    for sample in &exposition.samples {
        assert_eq!(
            sample.labels.get("node").map(String::as_str),
            Some("node-a"),
            "{sample:?}"
        );
    }
}

#[test]
fn without_a_daemon_nothing_of_it_is_repeated() {
    let gone = rendered(None);
    assert_eq!(gone.value("covalent_up"), Some(0.0));
    let names: Vec<&String> = gone
        .families
        .keys()
        .filter(|name| !name.starts_with("covalent_control_"))
        .collect();
    assert_eq!(names, ["covalent_up"]);
    assert_eq!(
        rendered(Some(&fixture::status())).value("covalent_up"),
        Some(1.0)
    );
}

#[test]
fn control_exports_metrics_of_itself() {
    let own = OwnMetrics::new("node-a").expect("lawful declarations");
    own.event(&EventKind::Carrier {
        port: "p0".into(),
        up: true,
    });
    own.scrape_seconds.observe(0.003);
    let text = render("node-a", &own, None).expect("renders");
    let exposition = Exposition::parse(&text).expect("well-formed");
    let event = |kind: &str| {
        exposition
            .named("covalent_control_events_total")
            .find(|it| it.labels["event"] == kind)
            .map(|it| it.value)
    };
    assert_eq!((event("carrier"), event("link_up")), (Some(1.0), Some(0.0)));
    assert_eq!(
        exposition.value("covalent_control_scrape_seconds_count"),
        Some(1.0)
    );
    assert!(
        exposition
            .value("covalent_control_resident_bytes")
            .is_some_and(|bytes| bytes > 100_000.0)
    );
    assert!(
        exposition
            .named("covalent_control_build_info")
            .all(|it| it.labels["version"] == env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_thousand_pipes_are_rendered_in_full() {
    let mut status = fixture::status();
    let pipe = status.pipes[0].clone();
    status.pipes = (0..1000)
        .map(|number| covalent_api::status::PipeStatus {
            pipe: number,
            ..pipe.clone()
        })
        .collect();
    let exposition = rendered(Some(&status));
    assert_eq!(
        exposition.named("covalent_pipe_rx_bytes_total").count(),
        1000
    );
}
