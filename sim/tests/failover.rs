//! From a cut to the first completion over another link, in round trips of a link.

use covalent_sim::failover::{Gaps, Way, measure};

/// Cuts of each way.
const CUTS: u64 = 200;
/// Round trips within which the first exchange must have ended, in 99 of 100 cuts, that was open on a
/// cable whose ports lost their carrier.
const CARRIER_ROUND_TRIPS: f64 = 3.5;
/// The same where nobody notices: three round trips of the other link, up to one more under way, a
/// question, and up to two to apply afresh what did not happen. No tick is waited for.
const SILENT_ROUND_TRIPS: f64 = 7.0;

#[test]
fn what_was_open_on_a_dead_cable_ends_over_another() {
    for way in Way::ALL {
        let mut gaps = Gaps::default();
        for seed in 0..CUTS {
            gaps.add(measure(seed, way).unwrap_or_else(|problem| panic!("seed {seed}: {problem}")));
        }
        #[expect(clippy::print_stdout, reason = "the figures are reported")]
        {
            println!("{way:?}: {gaps}");
        }
        let most = if way == Way::Carrier {
            CARRIER_ROUND_TRIPS
        } else {
            SILENT_ROUND_TRIPS
        };
        assert!(gaps.first_round_trips(99) <= most, "{way:?}: {gaps}");
    }
}
