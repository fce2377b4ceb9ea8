//! A strict reader of the Prometheus text format 0.0.4, stricter than Prometheus itself. Each
//! family has HELP and TYPE once, before its contiguous samples. No sample occurs twice. Every
//! value is a number.

use std::collections::{BTreeMap, BTreeSet};

/// The parsed text.
#[derive(Debug, Default)]
pub struct Exposition {
    /// By name.
    pub families: BTreeMap<String, Family>,
    /// In the order of the text.
    pub samples: Vec<Sample>,
}

/// HELP and TYPE.
#[derive(Debug, Default)]
pub struct Family {
    /// HELP.
    pub help: String,
    /// TYPE.
    pub kind: String,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// With a histogram's suffix.
    pub name: String,
    /// Unescaped.
    pub labels: BTreeMap<String, String>,
    /// The number.
    pub value: f64,
}

impl Exposition {
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.ends_with('\n') {
            return Err("the last line does not end".to_owned());
        }
        let mut read = Self::default();
        let mut current = String::new();
        let mut seen = BTreeSet::new();
        for line in text.lines() {
            let wrong = |what: &str| format!("{what}: {line}");
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest
                    .split_once(' ')
                    .ok_or_else(|| wrong("HELP without text"))?;
                let family = Family {
                    help: help.to_owned(),
                    kind: String::new(),
                };
                if read.families.insert(name.to_owned(), family).is_some() {
                    return Err(wrong("a second HELP"));
                }
                current = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest
                    .split_once(' ')
                    .ok_or_else(|| wrong("TYPE without a type"))?;
                let family = read
                    .families
                    .get_mut(name)
                    .filter(|family| family.kind.is_empty() && name == current);
                family
                    .ok_or_else(|| wrong("TYPE does not follow its HELP"))?
                    .kind = kind.to_owned();
                if !["counter", "gauge", "histogram"].contains(&kind) {
                    return Err(wrong("an unknown type"));
                }
            } else {
                let sample = sample(line).ok_or_else(|| wrong("not a sample"))?;
                if read.family_of(&sample.name) != Some(current.as_str()) {
                    return Err(wrong("a sample outside of its family"));
                }
                if !seen.insert((sample.name.clone(), sample.labels.clone())) {
                    return Err(wrong("the same sample twice"));
                }
                read.samples.push(sample);
            }
        }
        Ok(read)
    }

    /// The family that a sample of this name belongs to.
    pub fn family_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let histogram = |stem: &&str| {
            self.families
                .get(*stem)
                .is_some_and(|family| family.kind == "histogram")
        };
        let stems = ["_bucket", "_sum", "_count"]
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix));
        stems
            .into_iter()
            .find(histogram)
            .or_else(|| self.families.contains_key(name).then_some(name))
    }

    /// The samples of that name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.samples
            .iter()
            .filter(move |sample| sample.name == name)
    }

    /// The value of the only sample of that name.
    pub fn value(&self, name: &str) -> Option<f64> {
        let mut found = self.named(name);
        let value = found.next()?.value;
        found.next().is_none().then_some(value)
    }
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, after) = inside.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            if let Some(after) = after.strip_prefix('}') {
                rest = after;
                break;
            }
            inside = after.strip_prefix(',')?;
        }
    }
    let value: f64 = rest.strip_prefix(' ')?.parse().ok()?;
    is_name(name).then(|| Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

/// The text up to the closing quote, and the rest after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (at, '"') => return Some((value, text.get(at + 1..)?)),
            (_, '\\') => value.push(match characters.next()?.1 {
                'n' => '\n',
                escaped @ ('\\' | '"') => escaped,
                _ => return None,
            }),
            (_, character) => value.push(character),
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}
