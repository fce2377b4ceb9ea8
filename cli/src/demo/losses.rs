//! Frames that did not arrive, told apart: those that were dropped, and those that were under way on a link when it was cut.

use serde::Serialize;

use super::{
    nodes::CUT,
    telemetry::{Causes, Figures, NodeFigures},
};

/// Both nodes' losses by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Dropped at a port or a pipe.
    pub dropped: Causes,
    /// Taken by the cut: dropped at the port that was cut, after that began. Link records only; each exchange of theirs is
    /// resolved over the other link.
    pub taken_by_the_cut: Causes,
}

impl Losses {
    /// What the telemetry at the end says, where `before` is the telemetry before a link was cut.
    pub fn of(before: &Figures, end: &Figures) -> Self {
        let mut losses = Self::default();
        for (before, end) in before.each().into_iter().zip(end.each()) {
            losses.add(before, end);
        }
        losses
    }

    fn add(&mut self, before: &NodeFigures, end: &NodeFigures) {
        merge(&mut self.dropped, &end.pipe_drops);
        for (port, causes) in &end.port_drops {
            if port != CUT {
                merge(&mut self.dropped, causes);
                continue;
            }
            let early = before.port_drops.get(port).cloned().unwrap_or_default();
            merge(&mut self.dropped, &early);
            let late = causes.iter().map(|(cause, count)| {
                (
                    cause.clone(),
                    count - early.get(cause).copied().unwrap_or(0),
                )
            });
            merge(&mut self.taken_by_the_cut, &late.collect());
        }
    }
}

fn merge(sums: &mut Causes, more: &Causes) {
    for (cause, count) in more {
        *sums.entry(cause.clone()).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::nodes::PORTS, *};

    fn figures(cut: u64, other: u64) -> NodeFigures {
        let down = |count| Causes::from([("down".to_owned(), count)]);
        let port_drops = [
            (CUT.to_owned(), down(cut)),
            (PORTS[1].to_owned(), down(other)),
        ];
        NodeFigures {
            port_drops: port_drops.into(),
            ..NodeFigures::default()
        }
    }

    #[test]
    fn only_what_the_cut_port_dropped_after_the_beginning_is_the_cuts() {
        assert_ne!(CUT, PORTS[1], "the sample has one port of each kind");
        let mut losses = Losses::default();
        losses.add(&figures(2, 1), &figures(7, 4));
        assert_eq!(losses.dropped, [("down".to_owned(), 2 + 4)].into());
        assert_eq!(losses.taken_by_the_cut, [("down".to_owned(), 5)].into());
    }
}
