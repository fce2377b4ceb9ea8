//! A run for people at a terminal.

use std::fmt::Write as _;

use super::results::{DOORBELL, Figures, LaneCalls, Results, YIELD};
use crate::cell;

/// The other calls of a lane by name, the most frequent first.
pub fn others(lane: &LaneCalls) -> String {
    let mut others: Vec<_> = lane
        .calls
        .iter()
        .filter(|(name, _)| ![DOORBELL, YIELD].contains(&name.as_str()))
        .collect();
    others.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let listed: Vec<_> = others
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if listed.is_empty() {
        "none".to_owned()
    } else {
        listed.join(", ")
    }
}

/// Describes a load.
pub fn load_words(load: &Figures) -> String {
    match load.depth {
        1 => format!("{} additions, one at a time", load.verbs),
        depth => format!("{} additions, {depth} in flight", load.verbs),
    }
}

/// The whole run.
pub fn table(results: &Results) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "system-calls: calls of the lanes' threads, counted by \
         strace\n  {:<38}{:<11}{:>9}{:>10}{:>11}{:>13}  others",
        "", "lane", "frames", DOORBELL, "per verb", YIELD
    );
    for load in &results.loads {
        for lane in &load.lanes {
            let bells = lane.of(DOORBELL);
            let _ = writeln!(
                out,
                "  {:<38}{:<11}{:>9}{bells:>10}{:>11.3}{:>13}  {}",
                load_words(load),
                lane.lane,
                lane.frames,
                bells as f64 / load.verbs as f64,
                lane.of(YIELD),
                others(lane)
            );
        }
    }
    for verdict in &results.goals {
        let _ = writeln!(
            out,
            "  {}: {}: {:.2}",
            cell::met(verdict.met),
            verdict.target,
            verdict.measured
        );
    }
    let _ = writeln!(
        out,
        "  lanes {}; {}",
        results.setup.idle,
        results.host.words()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn doorbells_stand_beside_frames_and_verbs() {
        let table = table(&example::results());
        for words in [
            "  100000 additions, 512 in flight       asking          5000      4000      \
             0.040        30000  write 3\n",
            "answering       5000      5000      0.050            0  none\n",
            "  met: no more doorbells than frames, in a hundred frames: 100.00",
        ] {
            assert!(table.contains(words), "{words:?} is not in\n{table}");
        }
    }
}
