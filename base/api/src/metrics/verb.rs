//! Metrics of the verbs.

use crate::status::VerbStatus;

use super::{
    family::Family,
    series::{Object, Series, as_f64, none},
};

/// Metrics of the verbs.
pub const VERB: Object<VerbStatus> = Object {
    labels: &[],
    values: none,
    series: &[
        Series::count(
            Family {
                name: "covalent_verb_submitted_total",
                unit: "requests",
                meaning: "Requests taken from local applications.",
                worry: "It grows faster than `covalent_verb_completed_total` and stays ahead.",
            },
            |it| it.submitted,
        ),
        Series::count(
            Family {
                name: "covalent_verb_completed_total",
                unit: "requests",
                meaning: "Requests of local applications that completed.",
                worry: "It does not grow while `covalent_verb_submitted_total` grows.",
            },
            |it| it.completed,
        ),
        Series::gauge(
            Family {
                name: "covalent_verb_in_doubt",
                unit: "requests",
                meaning: "Requests of local applications that wait for a path to resolve their \
                          outcome.",
                worry: "Above 0 for longer than a restart of the neighbor takes: no path to it has \
                        returned.",
            },
            |it| as_f64(it.in_doubt),
        ),
        Series::counts_by(
            Family {
                name: "covalent_verb_executed_total",
                unit: "requests",
                meaning: "Requests executed on this node's regions, by verb.",
                worry: "Never on its own.",
            },
            "verb",
            |it| &it.executed,
        ),
        Series::causes(
            Family {
                name: "covalent_verb_refused_total",
                unit: "requests",
                meaning: "Requests refused on this node's regions, by cause.",
                worry: "Any growth but that of `busy` and `queue_full`: an application requests \
                        something that does not exist, is not allowed or is malformed \
                        (`misaligned`, `bad_length`, `duplicate`). `no_resources`: this node has \
                        no room for more at once. `busy` grows as fast as \
                        `covalent_verb_executed_total`: many clients contend for the same words. \
                        `queue_full` grows all the time: a receiver does not keep up with its \
                        senders.",
            },
            |it| &it.refused,
        ),
    ],
};
