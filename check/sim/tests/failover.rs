//! From a cut to the first completion over another link, in round trips of a link.

use covalent_sim::failover::{CutKind, Gaps, measure};

/// Cuts of each way.
const CUTS: u64 = 200;
/// Round trips within which the first exchange that was open on a cable must have ended, in 99 of
/// 100 cuts. The ports of the cable lost their carrier.
const CARRIER_ROUND_TRIPS: f64 = 3.5;
/// The same without detection by a port: three round trips of the other link, up to one more in
/// flight, a query, and up to two to apply again what did not happen. Nothing waits for a tick.
const SILENT_ROUND_TRIPS: f64 = 7.0;

#[test]
fn exchanges_open_on_a_dead_cable_complete_over_another() {
    for kind in CutKind::ALL {
        let mut gaps = Gaps::default();
        for seed in 0..CUTS {
            gaps.add(
                measure(seed, kind).unwrap_or_else(|problem| panic!("seed {seed}: {problem}")),
            );
        }
        #[expect(clippy::print_stdout, reason = "the figures are reported")]
        {
            println!("{kind:?}: {gaps}");
        }
        let most = if kind == CutKind::Carrier {
            CARRIER_ROUND_TRIPS
        } else {
            SILENT_ROUND_TRIPS
        };
        assert!(gaps.first_round_trips(99) <= most, "{kind:?}: {gaps}");
    }
}
