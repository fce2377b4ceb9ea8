//! The Prometheus text format (version 0.0.4), as far as counters and gauges need it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// One sample.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// A page of samples.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    samples: Vec<Sample>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// Names the line that is not a sample.
    pub fn parse(text: &str) -> Result<Self> {
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples = lines
            .map(|line| sample(line).with_context(|| format!("not a metric: `{line}`")))
            .collect::<Result<_>>()?;
        Ok(Self { samples })
    }

    /// The sum of all samples of `name` that carry these labels; `None` if there is none.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.matching(name, labels)
            .map(|sample| sample.value)
            .reduce(|sum, value| sum + value)
    }

    /// The largest sample of `name`; `None` if there is none.
    pub fn max(&self, name: &str) -> Option<f64> {
        self.matching(name, &[])
            .map(|sample| sample.value)
            .reduce(f64::max)
    }

    /// As [`Page::sum`], for a counter of integers.
    ///
    /// # Errors
    /// Fails if there is no such sample: a page without it is the wrong page.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> Result<u64> {
        let sum = self
            .sum(name, labels)
            .with_context(|| format!("there is no metric `{name}` with {labels:?}"))?;
        // Whole below 2^53, which at ten million a second is 28 years away.
        Ok(sum as u64)
    }

    /// The samples of `name` that carry `labels`, summed for each value of `label`.
    pub fn by_label(
        &self,
        name: &str,
        label: &str,
        labels: &[(&str, &str)],
    ) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for sample in self.matching(name, labels) {
            if let Some(value) = sample.labels.get(label) {
                *sums.entry(value.clone()).or_default() += sample.value as u64;
            }
        }
        sums
    }

    fn matching<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&str, &str)],
    ) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| {
            sample.name == name
                && labels.iter().all(|(label, value)| {
                    sample
                        .labels
                        .get(*label)
                        .is_some_and(|found| found == value)
                })
        })
    }
}

/// `name{label="value",…} value [timestamp]`
fn sample(line: &str) -> Result<Sample> {
    let end_of_name = line.find(['{', ' ', '\t']).context("no value")?;
    let (name, mut rest) = line.split_at(end_of_name);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = read_labels(inside, &mut labels)?;
    }
    let value = rest.split_whitespace().next().context("no value")?;
    Ok(Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().context("the value is not a number")?,
    })
}

/// Parses labels up to the closing brace. Returns the rest.
fn read_labels<'a>(mut text: &'a str, labels: &mut BTreeMap<String, String>) -> Result<&'a str> {
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Ok(rest);
        }
        let (name, rest) = text.split_once("=\"").context("a label has no value")?;
        let (value, rest) = quoted(rest)?;
        labels.insert(name.trim().to_owned(), value);
        text = rest;
    }
}

/// Reads up to the closing quote, undoing `\\`, `\"` and `\n`.
fn quoted(text: &str) -> Result<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[place + 1..])),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped)) => value.push(escaped),
                None => break,
            },
            plain => value.push(plain),
        }
    }
    bail!("a label's value does not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"
# HELP covalent_port_rx_packets_total Frames received by the dataplane.
# TYPE covalent_port_rx_packets_total counter
covalent_port_rx_packets_total{node="a",port="p0"} 120
covalent_port_rx_packets_total{node="a",port="p1"} 3
covalent_port_dropped_packets_total{cause="no_pipe",node="a",port="p0"} 2
covalent_port_dropped_packets_total{cause="no_pipe",node="a",port="p1"} 1
covalent_port_dropped_packets_total{cause="runt",node="a",port="p1"} 0
covalent_link_last_failover_seconds{node="a",port="p1"} 0.0015 1700000000000
covalent_node_info{node="odd \"name\" \\ {x=\"y\"}, z"} 1
covalent_up 1
"#;

    #[test]
    fn samples_are_summed_by_name_and_label() {
        let page = Page::parse(PAGE).expect("valid");
        let count = |name, labels: &[(&str, &str)]| page.count(name, labels).ok();
        assert_eq!(count("covalent_port_rx_packets_total", &[]), Some(123));
        assert_eq!(
            count("covalent_port_rx_packets_total", &[("port", "p1")]),
            Some(3)
        );
        assert_eq!(
            count("covalent_port_rx_packets_total", &[("port", "p2")]),
            None
        );
        assert_eq!(count("covalent_up", &[]), Some(1));
        assert_eq!(
            page.max("covalent_link_last_failover_seconds"),
            Some(0.0015)
        );
        assert_eq!(page.max("covalent_absent"), None);
        assert_eq!(
            page.by_label("covalent_port_dropped_packets_total", "cause", &[]),
            [("no_pipe".to_owned(), 3), ("runt".to_owned(), 0)].into()
        );
        assert_eq!(
            count(
                "covalent_node_info",
                &[("node", "odd \"name\" \\ {x=\"y\"}, z")]
            ),
            Some(1)
        );
    }

    #[test]
    fn a_line_that_is_no_sample_is_named() {
        for text in [
            "covalent_up",
            "covalent_up{a=\"b\" 1",
            "covalent_up{a} 1",
            "covalent_up one",
            "x{a=\"b\\",
        ] {
            let error = Page::parse(text).expect_err("malformed").to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
