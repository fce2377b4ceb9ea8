//! Frames that did not arrive, in two classes: dropped frames, and frames in flight on a link when
//! it was cut.

use serde::Serialize;

use super::{
    nodes::CUT,
    telemetry::{Causes, Figures, NodeFigures},
};

/// Causes of drops at the cut port that the cut explains: the device had no carrier, or the cable
/// was pulled. Every other drop there is a real loss.
const OF_A_CUT: [&str; 3] = ["tx_dropped_by_device", "link_down", "port_disabled"];

/// Causes of dropped records that a failure and a new epoch explain: records arrive late, twice, or
/// for a past epoch. Damage is never explained.
const OF_A_FAILURE: [&str; 5] = ["duplicate", "late", "not_up", "stale_epoch", "stale_init"];

/// Both nodes' losses by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Frames dropped at a port or a pipe.
    pub dropped: Causes,
    /// Frames lost to the cut: dropped at the cut port, after the cut, for a cause that the cut
    /// explains. They carry link records only.
    pub taken_by_the_cut: Causes,
    /// Records dropped by links, but for those that the failure explains.
    pub records_dropped: Causes,
    /// Records dropped by links during startup, after the cut, or around an earlier failure, for a
    /// cause that the failure explains.
    pub records_outdated: Causes,
    /// Failures of links before one was cut, by reason, of both nodes: there should be none.
    pub failures_before: Causes,
}

impl Losses {
    /// Computes the losses from the telemetry. `start` is the telemetry when all links were up,
    /// `before` right before the cut, `end` at the end. `pipes` counts the drops at applications'
    /// pipes.
    pub fn of(start: &Figures, before: &Figures, end: &Figures, pipes: &Causes) -> Self {
        let mut losses = Self {
            dropped: pipes.clone(),
            ..Self::default()
        };
        // A link fails at both ends; each end reports its own reason.
        for (start, before) in start.each().into_iter().zip(before.each()) {
            for (reason, count) in &before.link_failures {
                let at_start = start.link_failures.get(reason).copied().unwrap_or(0);
                *losses.failures_before.entry(reason.clone()).or_default() +=
                    count.saturating_sub(at_start);
            }
        }
        let nodes = start.each().into_iter().zip(before.each()).zip(end.each());
        for ((start, before), end) in nodes {
            losses.add(start, before, end);
        }
        losses
    }

    fn add(&mut self, start: &NodeFigures, before: &NodeFigures, end: &NodeFigures) {
        let none = Causes::new();
        for (port, causes) in &end.port_drops {
            let early = before.port_drops.get(port).unwrap_or(&none);
            let explained: &[&str] = if port == CUT { &OF_A_CUT } else { &[] };
            split(
                [&none, early, causes],
                explained,
                &mut self.dropped,
                &mut self.taken_by_the_cut,
            );
        }
        // If a link failed before the cut too, its own failure explains them.
        let quiet_until = if self.failures_before.values().all(|&count| count == 0) {
            &before.link_drops
        } else {
            &start.link_drops
        };
        split(
            [&start.link_drops, quiet_until, &end.link_drops],
            &OF_A_FAILURE,
            &mut self.records_dropped,
            &mut self.records_outdated,
        );
    }
}

/// Adds the counts at the end to `sums`. Of an explained cause, only the difference between `start`
/// and `before` goes there, and the rest to `explained_sums`.
fn split(
    [start, before, end]: [&Causes; 3],
    explained: &[&str],
    sums: &mut Causes,
    explained_sums: &mut Causes,
) {
    for (cause, count) in end {
        if explained.contains(&cause.as_str()) {
            let count_in = |causes: &Causes| causes.get(cause).copied().unwrap_or(0);
            let unexplained = count_in(before).saturating_sub(count_in(start));
            *sums.entry(cause.clone()).or_default() += unexplained;
            *explained_sums.entry(cause.clone()).or_default() += count.saturating_sub(unexplained);
        } else {
            *sums.entry(cause.clone()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{super::nodes::PORTS, *};

    fn figures(cause: &str, cut: u64, other: u64) -> NodeFigures {
        let of = |count| Causes::from([(cause.to_owned(), count)]);
        NodeFigures {
            port_drops: [(CUT.to_owned(), of(cut)), (PORTS[1].to_owned(), of(other))].into(),
            ..NodeFigures::default()
        }
    }

    #[test]
    fn only_drops_of_the_cut_port_after_the_cut_belong_to_the_cut() {
        assert_ne!(CUT, PORTS[1], "the sample has one port of each kind");
        for cause in OF_A_CUT {
            let mut losses = Losses::default();
            let before = figures(cause, 2, 1);
            losses.add(&NodeFigures::default(), &before, &figures(cause, 7, 4));
            assert_eq!(losses.dropped, [(cause.to_owned(), 2 + 4)].into());
            assert_eq!(losses.taken_by_the_cut, [(cause.to_owned(), 5)].into());
        }
    }

    #[test]
    fn a_cut_explains_no_drop_of_another_cause() {
        let mut losses = Losses::default();
        let cause = "rx_ring_full";
        let before = figures(cause, 0, 0);
        losses.add(&before, &before, &figures(cause, 5, 0));
        assert_eq!(losses.dropped, [(cause.to_owned(), 5)].into());
        assert_eq!(losses.taken_by_the_cut, Causes::new());
    }

    #[test]
    fn an_outdated_record_is_explained_but_while_all_links_are_up_and_a_damaged_one_never() {
        let figures = |late, crc| NodeFigures {
            link_drops: [("late".to_owned(), late), ("crc".to_owned(), crc)].into(),
            ..NodeFigures::default()
        };
        let mut losses = Losses::default();
        losses.add(&figures(5, 0), &figures(6, 0), &figures(9, 2));
        let dropped = [("late".to_owned(), 1), ("crc".to_owned(), 2)];
        assert_eq!(losses.records_dropped, dropped.into());
        assert_eq!(losses.records_outdated, [("late".to_owned(), 5 + 3)].into());
    }

    #[test]
    fn a_failure_before_the_cut_is_reported_and_explains_outdated_records() {
        let of = |failures, late| {
            let node = |node| NodeFigures {
                node,
                link_failures: [("peer_silent".to_owned(), failures)].into(),
                link_drops: [("late".to_owned(), late), ("crc".to_owned(), late)].into(),
                ..NodeFigures::default()
            };
            Figures {
                at: Instant::now(),
                a: node("a"),
                b: node("b"),
            }
        };
        let losses = Losses::of(&of(1, 0), &of(2, 3), &of(3, 3), &Causes::new());
        assert_eq!(
            losses.failures_before,
            [("peer_silent".to_owned(), 2)].into()
        );
        let dropped = [("late".to_owned(), 0), ("crc".to_owned(), 6)];
        assert_eq!(losses.records_dropped, dropped.into());
        assert_eq!(losses.records_outdated, [("late".to_owned(), 6)].into());
    }
}
