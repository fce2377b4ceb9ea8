//! One exchange is damaged at each of its points, in every way.

use std::time::Instant;

use covalent_sim::{Report, sweep};

#[test]
fn an_exchange_survives_damage_behind_each_of_its_steps() {
    let start = Instant::now();
    let mut sum = Report::default();
    let mut cases = 0;
    for case in sweep::all() {
        let report = sweep::walk(&case).unwrap_or_else(|problem| panic!("{case}: {problem}"));
        sum.add(&report);
        cases += 1;
    }
    // Bounded and complete: no case is left out silently.
    assert_eq!(cases, CASES);
    for (what, count) in sum.figures() {
        let happens = !matches!(
            what,
            "refused" | "damaged" | "stalls" | "forgotten" | "wrapped" | "in_doubt"
        );
        assert!(!happens || count > 0, "{what} never happened");
    }
    #[expect(clippy::print_stdout, reason = "the figures are reported")]
    {
        println!(
            "{cases} cases in {:.1} s: {sum:?}",
            start.elapsed().as_secs_f64()
        );
    }
}

/// 14 points, three kinds of load; 6 crashes and stalls and 36 cuts, and with a second link 81 cuts of both.
const CASES: u32 = 14 * 3 * (42 + 42 + 81);
