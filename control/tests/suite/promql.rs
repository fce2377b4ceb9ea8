//! Checks that a query uses only declared metrics and their labels. Prometheus itself parses
//! queries in the other tests. This module checks only names.

use std::collections::{BTreeMap, BTreeSet};

use covalent_control::metrics::{Declared, Kind};

/// Functions that a counter may be given to as it is: presence, not a value.
const PRESENCE: [&str; 2] = ["count", "absent"];

/// The metrics that `query` uses.
///
/// # Errors
/// An undeclared name, or a counter that is not compared with an earlier time.
pub fn metrics<'d>(
    query: &str,
    declared: &'d BTreeMap<&'static str, Declared>,
) -> Result<BTreeSet<&'d str>, String> {
    let tokens = tokens(query);
    let mut found = BTreeSet::new();
    let mut labels = BTreeSet::from(["node", "le", "job", "instance"]);
    for (at, token) in tokens.iter().enumerate() {
        if !token.starts_with("covalent_") {
            continue;
        }
        let metric = find(token, declared).ok_or_else(|| format!("`{token}` is not declared"))?;
        found.insert(metric.family.name);
        labels.extend(metric.labels.iter().copied());
        let selector = selector(&tokens[at + 1..]);
        for label in labels_of(selector) {
            if !metric
                .labels
                .iter()
                .chain(&["node", "le"])
                .any(|known| *known == label)
            {
                return Err(format!("`{token}` has no label `{label}`"));
            }
        }
        let is_compared = tokens
            .get(at + 1 + selector.len())
            .is_some_and(|next| next == "[");
        let grows = metric.kind != Kind::Gauge;
        if grows
            && !is_compared
            && !PRESENCE
                .iter()
                .any(|name| tokens.iter().any(|it| it == name))
        {
            return Err(format!("`{token}` only grows, and is used without `rate`"));
        }
    }
    for (at, token) in tokens.iter().enumerate() {
        if ["by", "on", "without", "ignoring"].contains(&token.as_str()) {
            let inside = tokens[at + 1..].iter().skip(1).take_while(|it| *it != ")");
            for label in inside.filter(|it| *it != ",") {
                if !labels.contains(label.as_str()) {
                    return Err(format!("nothing here has a label `{label}`"));
                }
            }
        }
    }
    if found.is_empty() && !tokens.iter().any(|token| token == "up") {
        return Err("it speaks of no metric of ours".to_owned());
    }
    Ok(found)
}

fn find<'d>(name: &str, declared: &'d BTreeMap<&'static str, Declared>) -> Option<&'d Declared> {
    let histogram = ["_bucket", "_sum", "_count"]
        .iter()
        .filter_map(|suffix| declared.get(name.strip_suffix(suffix)?))
        .find(|metric| metric.kind == Kind::Histogram);
    let plain = || {
        declared
            .get(name)
            .filter(|metric| metric.kind != Kind::Histogram)
    };
    histogram.or_else(plain)
}

/// The braces that follow a metric, if there are any.
fn selector(rest: &[String]) -> &[String] {
    match rest.iter().position(|token| token == "}") {
        Some(end) if rest[0] == "{" => &rest[..=end],
        _ => &[],
    }
}

/// Names before the comparisons in a selector.
fn labels_of(selector: &[String]) -> impl Iterator<Item = &str> {
    let pairs = selector.windows(2);
    let named =
        pairs.filter(|pair| pair[0].starts_with(is_letter) && pair[1].starts_with(['=', '!']));
    named.map(|pair| pair[0].as_str())
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Words, quoted text as `""`, and everything else a character at a time.
fn tokens(query: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        let length = if is_letter(first) {
            rest.find(|c: char| !is_letter(c) && !c.is_ascii_digit())
                .unwrap_or(rest.len())
        } else if first == '"' {
            let end = rest[1..].find('"').expect("a quote that ends");
            tokens.push("\"\"".to_owned());
            rest = &rest[end + 2..];
            continue;
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        if !first.is_whitespace() {
            tokens.push(token.to_owned());
        }
        rest = after;
    }
    tokens
}

#[test]
fn undeclared_names_are_found() {
    let declared = crate::page::declared();
    let problem = |query: &str| metrics(query, &declared).expect_err(query);
    assert!(problem("covalent_link_uup == 0").contains("covalent_link_uup"));
    assert!(problem("covalent_link_up{prot=\"p0\"} == 0").contains("prot"));
    assert!(problem("sum by (lane) (covalent_link_up)").contains("lane"));
    assert!(problem("covalent_link_ups_total > 3").contains("rate"));
    assert!(problem("rate(covalent_control_scrape_seconds[5m])").contains("not declared"));
    assert!(problem("node_load1 > 3").contains("no metric of ours"));
    let both =
        "rate(covalent_link_ups_total{port=~\"p.*\"}[5m]) > 0 and on (node) covalent_up == 1";
    assert_eq!(
        metrics(both, &declared),
        Ok(BTreeSet::from(["covalent_link_ups_total", "covalent_up"]))
    );
}
