//! A 4×4 grid: every cable and every node fails, alone and with every other.

use super::{fault::MeshFault, time::ROUND_TRIP_UNITS, world::MeshWorld};

/// Cables of the grid.
const CABLES: u64 = 24;
/// Parts that can fail: cables and nodes.
const PARTS: u64 = CABLES + 16;
/// Pairs of them.
const PAIRS: u64 = PARTS * (PARTS - 1) / 2;
/// Units between the two failures of a pair.
const GAPS_UNITS: [u64; 3] = [0, ROUND_TRIP_UNITS / 2, 2 * ROUND_TRIP_UNITS];

/// Number of cases: each part alone, detected by all nodes at it or by none, then the pairs,
/// together and one after the other.
pub(super) const fn cases() -> u64 {
    first_cases() + PAIRS * GAPS_UNITS.len() as u64
}

/// Those alone.
pub(super) const fn first_cases() -> u64 {
    2 * PARTS
}

/// The pair with a number below [`PAIRS`], each once, the lower part first.
fn pair(mut number: u64) -> [u64; 2] {
    let mut first = 0;
    while number >= PARTS - 1 - first {
        number -= PARTS - 1 - first;
        first += 1;
    }
    [first, first + 1 + number]
}

const fn fails(part: u64, noticed: bool) -> MeshFault {
    if part < CABLES {
        MeshFault::Cut {
            cable: part as u16,
            towards: [true; 2],
            noticed: [noticed; 2],
        }
    } else {
        MeshFault::Crash {
            node: (part - CABLES) as u16,
            noticed,
        }
    }
}

pub(super) fn happen(number: u64, world: &mut MeshWorld) {
    world.rest();
    if number < first_cases() {
        // No verbs: only the messages of the trees reveal a silent part.
        world.fault(fails(number % PARTS, number < PARTS));
        return;
    }
    let number = number - first_cases();
    let [first, second] = pair(number % PAIRS);
    world.set_load(true);
    world.run_until(world.now_units() + 4 * ROUND_TRIP_UNITS);
    world.fault(fails(first, true));
    world.run_until(world.now_units() + GAPS_UNITS[(number / PAIRS) as usize]);
    world.fault(fails(second, true));
    world.run_until(world.now_units() + 4 * ROUND_TRIP_UNITS);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_pair_occurs_once() {
        let pairs: HashSet<_> = (0..PAIRS).map(pair).collect();
        assert_eq!(pairs.len(), 780);
        let ordered = |[a, b]: &[u64; 2]| a < b && *b < PARTS;
        assert!(pairs.iter().all(ordered));
        assert_eq!((first_cases(), cases()), (80, 80 + 3 * 780));
    }
}
