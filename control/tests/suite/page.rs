//! Tests the files generated from the declarations, and whether a scrape shows exactly the declared
//! metrics.

use std::{collections::BTreeMap, fs, path::Path};

use covalent_control::{
    interfaces::Interfaces,
    metrics::{Declared, Kind, OwnMetrics, dashboard, page, render, sections},
};

use crate::{client::config, exposition::Exposition, fixture};

/// Every metric, by name.
pub fn declared() -> BTreeMap<&'static str, Declared> {
    let mut named = BTreeMap::new();
    for declared in sections().into_iter().flat_map(|section| section.metrics) {
        let name = declared.family.name;
        assert!(
            named.insert(name, declared).is_none(),
            "{name} is declared twice"
        );
    }
    named
}

/// A file of the repository.
pub fn committed(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()))
}

#[test]
fn the_page_and_the_dashboard_match_the_declarations() {
    for (name, made) in [
        ("docs/metrics.md", page()),
        ("configs/grafana.json", dashboard()),
    ] {
        let committed = committed(name);
        let mut lines = committed.lines().zip(made.lines());
        let differs = lines.find(|(there, here)| there != here);
        assert!(
            committed == made,
            "{name} differs from the declarations: run `make metrics`. The first lines that \
             differ: {differs:?}"
        );
    }
}

#[test]
fn a_scrape_of_a_full_node_shows_all_declared_metrics() {
    let own = OwnMetrics::new("node-a").expect("lawful declarations");
    let port = "[[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface = \"v0\"\n";
    own.interfaces(Interfaces::of(&config(Path::new("/run"), port).port).statuses());
    let text = render("node-a", &own, Some(&fixture::status())).expect("renders");
    let exposition = Exposition::parse(&text).expect("well-formed");
    let declared = declared();
    let undeclared = exposition
        .families
        .keys()
        .find(|name| !declared.contains_key(name.as_str()));
    assert_eq!(undeclared, None, "this is shown and nowhere declared");
    for (
        &name,
        Declared {
            family,
            kind,
            labels,
        },
    ) in &declared
    {
        let shown = exposition
            .families
            .get(name)
            .unwrap_or_else(|| panic!("the scrape lacks {name}"));
        assert_eq!(
            (shown.kind.as_str(), shown.help.as_str()),
            (kind.as_str(), family.meaning),
            "{name}"
        );
        let mut expected: Vec<&str> = labels.iter().copied().chain(["node"]).collect();
        expected.sort_unstable();
        for sample in &exposition.samples {
            if exposition.family_of(&sample.name) == Some(name) {
                let labels = sample.labels.keys().map(String::as_str);
                let labels: Vec<&str> = labels.filter(|&label| label != "le").collect();
                assert_eq!(labels, expected, "labels of {name}");
            }
        }
    }
}

#[test]
fn units_match_the_names_and_every_metric_has_its_worry() {
    for (name, Declared { family, kind, .. }) in declared() {
        let (unit, worry) = (family.unit, family.worry);
        let stem = name.trim_end_matches("_total");
        for base in [
            "seconds",
            "bytes",
            "packets",
            "frames",
            "records",
            "exchanges",
        ] {
            assert_eq!(
                stem.ends_with(&format!("_{base}")),
                unit == base,
                "{name} is in `{unit}`"
            );
        }
        assert_eq!(name.ends_with("_info"), unit == "–", "{name}");
        assert_eq!(kind == Kind::Counter, name.ends_with("_total"), "{name}");
        assert!(
            worry.ends_with('.') && worry.len() > 10,
            "{name} does not describe when to worry: `{worry}`"
        );
        for words in [family.meaning, worry] {
            assert!(
                !words.contains(['|', '\n']) && !words.contains("  "),
                "{name}: `{words}` does not fit into a table"
            );
        }
    }
}
