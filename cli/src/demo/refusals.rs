//! Refused frames, in two classes: frames that a port cannot carry, and frames for which it
//! temporarily had no space or no carrier.

use serde::Serialize;

use super::telemetry::{Causes, Figures};

/// Causes of a temporary refusal: the lane retries the frame, and no application is notified.
const FOR_NOW: [&str; 2] = ["down", "full"];

/// Both nodes' refusals by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Refusals {
    /// Frames of applications that were never sent.
    pub refused: Causes,
    /// Attempts to send that a port deferred.
    pub put_off: Causes,
}

impl Refusals {
    /// Computes the refusals from the telemetry. Omits causes that never occurred.
    pub fn of(figures: &Figures) -> Self {
        let mut refusals = Self::default();
        for (cause, &count) in figures.each().into_iter().flat_map(|node| &node.refusals) {
            let sums = if FOR_NOW.contains(&cause.as_str()) {
                &mut refusals.put_off
            } else {
                &mut refusals.refused
            };
            if count > 0 {
                *sums.entry(cause.clone()).or_default() += count;
            }
        }
        refusals
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{super::telemetry::NodeFigures, *};

    #[test]
    fn both_nodes_count_and_postponed_frames_are_not_refused() {
        let node = |list: &[(&str, u64)]| NodeFigures {
            refusals: list
                .iter()
                .map(|&(cause, count)| (cause.to_owned(), count))
                .collect(),
            ..NodeFigures::default()
        };
        let refusals = Refusals::of(&Figures {
            at: Instant::now(),
            a: node(&[("runt", 2), ("too_long", 5), ("full", 7)]),
            b: node(&[("runt", 1), ("link_type", 0), ("down", 3)]),
        });
        let causes = |list: [(&str, u64); 2]| {
            Causes::from(list.map(|(cause, count)| (cause.to_owned(), count)))
        };
        assert_eq!(refusals.refused, causes([("runt", 3), ("too_long", 5)]));
        assert_eq!(refusals.put_off, causes([("down", 3), ("full", 7)]));
    }
}
