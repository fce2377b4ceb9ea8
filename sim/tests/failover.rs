//! From a cut to the first completion over another link, in round trips of a link.

use covalent_sim::failover::{Gaps, PACE_UNITS, ROUND_TRIP_UNITS, Way, measure};

/// Cuts of each way.
const CUTS: u64 = 200;
/// Round trips within which the first exchange must have ended that was open on a cable whose ports lost their carrier.
const CARRIER_ROUND_TRIPS: f64 = 4.0;
/// Paces within which that is so where nobody notices: those that mean death, and the one under way.
const SILENT_PACES: u32 = 12;

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
            f64::from(SILENT_PACES * PACE_UNITS / ROUND_TRIP_UNITS)
        };
        assert!(gaps.first_round_trips(99) < most, "{way:?}: {gaps}");
    }
}
