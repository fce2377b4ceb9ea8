//! Filter of the series that a client requests.

use std::collections::BTreeMap;

use covalent_grpc_schema::v1::{self, Family, Series};

use crate::metrics;

/// Most names of families.
const FAMILIES_MAX: usize = 64;

/// Most labels.
const LABELS_MAX: usize = 16;

/// The requested series. Each part matches a declared metric.
pub struct Filter {
    families: Vec<String>,
    labels: BTreeMap<String, String>,
}

impl Filter {
    /// Parses the request, or returns the problem.
    pub fn new(wanted: v1::Filter) -> Result<Self, String> {
        let v1::Filter { families, labels } = wanted;
        if families.len() > FAMILIES_MAX || labels.len() > LABELS_MAX {
            return Err(format!(
                "filter has {} families and {} labels; expected at most {FAMILIES_MAX} and \
                 {LABELS_MAX}",
                families.len(),
                labels.len()
            ));
        }
        let declared = || {
            let sections = metrics::sections().into_iter();
            sections.flat_map(|section| section.metrics)
        };
        let answers = |wanted: &String| declared().any(|it| is_meant(wanted, it.family.name));
        if let Some(unknown) = families.iter().find(|wanted| !answers(wanted)) {
            return Err(format!(
                "filter.families names `{unknown}`, which matches no metric; expected a name of \
                 docs/metrics.md (the method Describe lists them), or a common prefix, such as \
                 `covalent_port`"
            ));
        }
        let is_label = |label: &String| {
            label == "node" || declared().any(|it| it.labels.contains(&label.as_str()))
        };
        if let Some(unknown) = labels.keys().find(|label| !is_label(label)) {
            return Err(format!(
                "filter.labels names `{unknown}`, a label that no metric has"
            ));
        }
        Ok(Self { families, labels })
    }

    /// The requested series of these families, without families that have none.
    pub fn of(&self, families: &[Family]) -> Vec<Family> {
        let wanted = families.iter().filter(|family| self.wants(&family.name));
        let some = wanted.filter_map(|family| {
            let series = family
                .series
                .iter()
                .filter(|series| self.has_labels(series));
            let series: Vec<_> = series.cloned().collect();
            (!series.is_empty()).then(|| Family {
                name: family.name.clone(),
                kind: family.kind,
                series,
            })
        });
        some.collect()
    }

    fn wants(&self, name: &str) -> bool {
        self.families.is_empty() || self.families.iter().any(|wanted| is_meant(wanted, name))
    }

    fn has_labels(&self, series: &Series) -> bool {
        let mut wanted = self.labels.iter();
        wanted.all(|(label, value)| series.labels.get(label) == Some(value))
    }
}

/// Whether `wanted` equals `name`, or is a prefix of it that ends before an underscore.
fn is_meant(wanted: &str, name: &str) -> bool {
    let rest = name.strip_prefix(wanted);
    !wanted.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(families: &[&str], labels: &[(&str, &str)]) -> Result<Filter, String> {
        let owned = |text: &&str| (*text).to_owned();
        Filter::new(v1::Filter {
            families: families.iter().map(owned).collect(),
            labels: labels
                .iter()
                .map(|(label, value)| (owned(label), owned(value)))
                .collect(),
        })
    }

    #[test]
    fn a_name_selects_itself_and_its_extensions() {
        let name = "covalent_port_rx_packets_total";
        for wanted in [name, "covalent_port", "covalent_port_rx", "covalent"] {
            assert!(is_meant(wanted, name), "{wanted}");
        }
        for other in ["covalent_por", "covalent_ports", "port", ""] {
            assert!(!is_meant(other, name), "{other}");
        }
    }

    #[test]
    fn an_unknown_family_or_label_is_refused_by_name() {
        assert!(filter(&["covalent_port"], &[("port", "p0")]).is_ok());
        for (families, labels, named) in [
            (&["covalent_prot"][..], &[][..], "`covalent_prot`"),
            (&[""], &[], "``"),
            (&[], &[("prot", "p0")], "`prot`"),
            (&["covalent"; 65], &[], "65 families"),
        ] {
            let refused = filter(families, labels).err().unwrap_or_default();
            assert!(refused.contains(named), "{refused}");
        }
    }

    #[test]
    fn series_without_the_label_are_left_out_and_families_without_series_too() {
        let series = |labels: &[(&str, &str)]| Series {
            labels: labels
                .iter()
                .map(|(label, value)| ((*label).to_owned(), (*value).to_owned()))
                .collect(),
            value: None,
        };
        let family = |name: &str, series| Family {
            name: name.to_owned(),
            kind: 0,
            series,
        };
        let all = [
            family("covalent_up", vec![series(&[])]),
            family(
                "covalent_port_carrier",
                vec![series(&[("port", "p0")]), series(&[("port", "p1")])],
            ),
        ];
        let of_p1 = filter(&[], &[("port", "p1")]).expect("known").of(&all);
        assert_eq!(
            of_p1,
            [family(
                "covalent_port_carrier",
                vec![series(&[("port", "p1")])]
            )]
        );
        assert_eq!(filter(&[], &[]).expect("known").of(&all), all);
        let of_name = filter(&["covalent_up"], &[]).expect("known").of(&all);
        assert_eq!(of_name, all[..1]);
    }
}
