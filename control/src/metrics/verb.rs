//! Metrics of the verbs.

use covalent_api::status::VerbStatus;

use super::series::{Label, Object, Series, as_f64};

fn labels(_: &VerbStatus) -> Vec<Label> {
    Vec::new()
}

pub(super) const VERB: Object<VerbStatus> = Object {
    labels,
    series: &[
        Series::count(
            "covalent_verb_submitted_total",
            "Requests taken from local applications.",
            |it| it.submitted,
        ),
        Series::count(
            "covalent_verb_completed_total",
            "Requests of local applications that completed.",
            |it| it.completed,
        ),
        Series::gauge(
            "covalent_verb_in_doubt",
            "Requests of local applications that wait for a path to learn their outcome.",
            |it| as_f64(it.in_doubt),
        ),
        Series::counts_by(
            "covalent_verb_executed_total",
            "Requests executed on this node's regions, by verb.",
            "verb",
            |it| &it.executed,
        ),
        Series::causes(
            "covalent_verb_refused_total",
            "Requests refused on this node's regions, by cause.",
            |it| &it.refused,
        ),
    ],
};
