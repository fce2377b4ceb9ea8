//! `docs/metrics.md` says what `/metrics` shows: the same series with the same type, labels, unit and meaning, no more and no less.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use covalent_control::{
    interfaces::Interfaces,
    metrics::{OwnMetrics, declared, render},
};

use crate::{client::config, exposition::Exposition, fixture};

/// One series.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    kind: String,
    /// All but `node`, which every series has, and `le`, which every histogram has.
    labels: BTreeSet<String>,
    meaning: String,
}

/// What the page has besides, by name.
#[derive(Debug)]
struct Advice {
    unit: String,
    worry: String,
}

/// The words between a pair of backquotes, one after the other; the dash stands for none.
fn quoted(cell: &str) -> BTreeSet<String> {
    match cell {
        "–" => BTreeSet::new(),
        cell => cell
            .split(", ")
            .map(|word| word.trim_matches('`').to_owned())
            .collect(),
    }
}

/// The rows of the page's tables.
fn page() -> (BTreeMap<String, Entry>, BTreeMap<String, Advice>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let text = fs::read_to_string(&path).expect("the page is there");
    let (mut entries, mut advice) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, unit, meaning, worry] = cells[..] else {
            panic!("not six cells: {line}");
        };
        let name = name.trim_matches('`').to_owned();
        let entry = Entry {
            kind: kind.to_owned(),
            labels: quoted(labels),
            meaning: meaning.to_owned(),
        };
        assert!(
            entries.insert(name.clone(), entry).is_none(),
            "{name} stands twice"
        );
        advice.insert(
            name,
            Advice {
                unit: unit.to_owned(),
                worry: worry.to_owned(),
            },
        );
    }
    (entries, advice)
}

/// Every series that `/metrics` can show, from a scrape of a node that has one of everything.
fn shown() -> BTreeMap<String, Entry> {
    let own = OwnMetrics::new("node-a").expect("lawful declarations");
    let port = "[[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface = \"v0\"\n";
    own.interfaces(&Interfaces::of(&config(Path::new("/run"), port).port));
    let text = render("node-a", &own, Some(&fixture::status())).expect("renders");
    let exposition = Exposition::parse(&text).expect("well-formed");
    for series in declared() {
        assert!(
            exposition.families.contains_key(series.name),
            "the scrape lacks {}",
            series.name
        );
    }
    let families = exposition.families.iter();
    families
        .map(|(name, family)| {
            let samples = exposition
                .samples
                .iter()
                .filter(|sample| exposition.family_of(&sample.name) == Some(name));
            let labels = samples
                .flat_map(|sample| sample.labels.keys())
                .filter(|label| !["node", "le"].contains(&label.as_str()));
            let entry = Entry {
                kind: family.kind.clone(),
                labels: labels.cloned().collect(),
                meaning: family.help.clone(),
            };
            (name.clone(), entry)
        })
        .collect()
}

#[test]
fn the_page_and_the_scrape_have_the_same_series() {
    let (page, _) = page();
    let shown = shown();
    let names = |of: &BTreeMap<String, Entry>| of.keys().cloned().collect::<BTreeSet<_>>();
    let (written, scraped) = (names(&page), names(&shown));
    assert_eq!(
        scraped.difference(&written).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "docs/metrics.md lacks these"
    );
    assert_eq!(
        written.difference(&scraped).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "docs/metrics.md has these, and nothing shows them"
    );
    for (name, entry) in &shown {
        assert_eq!(&page[name], entry, "{name}: docs/metrics.md, then the code");
    }
}

#[test]
fn the_page_names_the_unit_that_the_name_carries_and_says_when_to_worry() {
    let (_, advice) = page();
    for (name, Advice { unit, worry }) in &advice {
        let stem = name.trim_end_matches("_total");
        for base in [
            "seconds",
            "bytes",
            "packets",
            "frames",
            "records",
            "transactions",
        ] {
            assert_eq!(
                stem.ends_with(&format!("_{base}")),
                unit == base,
                "{name} is in `{unit}`"
            );
        }
        assert_eq!(name.ends_with("_info"), unit == "–", "{name}");
        assert!(
            worry.ends_with('.') && worry.len() > 10,
            "{name} does not say when to worry: `{worry}`"
        );
    }
}
