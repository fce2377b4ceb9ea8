//! Tests the shipped alert rules: they use only declared metrics, each has a case in which it
//! fires, and Prometheus agrees with the cases.

use std::collections::BTreeSet;

use crate::{page, promql, promtool};

/// One rule, as far as the tests look at it.
struct Rule {
    name: String,
    expr: String,
    /// The lines of the whole rule.
    text: String,
}

/// Reads the rules line by line: each begins with `- alert:`, and a folded value continues until
/// the next key.
fn rules() -> Vec<Rule> {
    let file = page::committed("configs/alerts.yml");
    let rules: Vec<Rule> = file
        .split("- alert: ")
        .skip(1)
        .map(|text| {
            let (name, rest) = text.split_once('\n').expect("a rule has lines");
            let (_, expr) = rest.split_once("expr: ").expect("a rule has an expression");
            let end = ["        for: ", "        labels: "]
                .iter()
                .filter_map(|key| expr.find(key))
                .min()
                .expect("a rule has labels");
            Rule {
                name: name.to_owned(),
                expr: expr[..end].trim_start_matches(">-").trim().to_owned(),
                text: text.to_owned(),
            }
        })
        .collect();
    assert!(rules.len() > 20, "{}", rules.len());
    rules
}

#[test]
fn every_rule_uses_declared_metrics() {
    let declared = page::declared();
    for Rule { name, expr, .. } in rules() {
        if let Err(problem) = promql::metrics(&expr, &declared) {
            panic!("{name}: {expr}: {problem}");
        }
    }
}

#[test]
fn every_rule_has_a_severity_a_cure_and_a_firing_case() {
    let cases = page::committed("configs/alerts_test.yml");
    let mut names = BTreeSet::new();
    for Rule { name, text, .. } in rules() {
        for needed in ["labels: {severity: ", "summary: \"", "description: \""] {
            assert!(text.contains(needed), "{name} has no {needed}");
        }
        assert!(
            cases.contains(&format!("ALERTS{{alertname=\"{name}\"")),
            "no case of alerts_test.yml has {name} fire"
        );
        assert!(names.insert(name.clone()), "{name} stands twice");
    }
}

#[test]
fn each_rule_fires_in_prometheus_as_its_case_expects() {
    let Some(promtool) = promtool::find() else {
        return;
    };
    promtool.run(&["check", "rules", "alerts.yml"]);
    promtool.run(&["test", "rules", "alerts_test.yml"]);
    promtool.run(&["check", "config", "prometheus.yml"]);
}
