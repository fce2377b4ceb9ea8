//! A triangle: 4³ − 1 = 63 ways in which its cables can fail together, each at every relevant
//! moment.

use super::{fault::MeshFault, time::ROUND_TRIP_UNITS, world::MeshWorld};
use crate::shape::Spot;

/// Each cable is whole, dead towards one end, towards the other, or towards both. All cables whole
/// is no failure.
pub(super) const MODES: u64 = 4_u64.pow(3) - 1;
/// Frames of the start behind each of which it happens.
const START_FRAMES: u64 = 24;
/// Frames of a repair behind each of which it happens.
const REPAIR_FRAMES: u64 = 16;
/// Frames of exchanges between all pairs, behind each of which the failure happens: four messages
/// of two exchanges in each direction of three cables.
const EXCHANGE_FRAMES: u64 = 24;
/// Units within which those frames have come.
const UNITS_MAX: u64 = 40 * ROUND_TRIP_UNITS;

/// When it happens.
enum Moment {
    /// Before any frame, or behind so many frames of the start.
    Start(u32),
    /// When everything is at rest.
    Settled,
    /// Behind so many frames that follow the failure of another cable, or of one of the same.
    Repair(u32),
    /// Behind so many frames after every node submits requests to every other node.
    Exchanges(u32),
}

/// First all modes at rest, noticed and not; then at the other moments.
const MOMENTS: u64 = 1 + (START_FRAMES + 1) + REPAIR_FRAMES + EXCHANGE_FRAMES;

pub(super) const fn cases() -> u64 {
    MOMENTS * first_cases()
}

pub(super) const fn first_cases() -> u64 {
    MODES * 2
}

/// The mode of a case (1 to 63), whether ports notice, and when.
fn case(number: u64) -> (u64, bool, Moment) {
    let (mode, noticed) = (number % MODES + 1, (number / MODES).is_multiple_of(2));
    let at = number / first_cases();
    let (start, repair) = (1 + START_FRAMES + 1, REPAIR_FRAMES);
    let moment = match at {
        0 => Moment::Settled,
        at if at < start => Moment::Start((at - 1) as u32),
        at if at < start + repair => Moment::Repair((at - start) as u32),
        at => Moment::Exchanges((at - start - repair) as u32),
    };
    (mode, noticed, moment)
}

pub(super) fn happen(number: u64, world: &mut MeshWorld) {
    let (mode, noticed, moment) = case(number);
    let soon = |world: &MeshWorld| world.now_units() + UNITS_MAX;
    match moment {
        Moment::Start(frames) => world.run_frames(frames, soon(world)),
        Moment::Settled => world.rest(),
        Moment::Repair(frames) => {
            world.rest();
            let cable = (mode % 3) as u16;
            world.fault(MeshFault::Cut {
                cable,
                towards: [true; 2],
                noticed: [true; 2],
            });
            world.run_frames(frames, soon(world));
        }
        Moment::Exchanges(frames) => {
            world.rest();
            for cable in 0..3 {
                for end in [0, 1, 0, 1] {
                    world.request(Spot { cable, end });
                }
            }
            world.run_frames(frames, soon(world));
        }
    }
    for cable in 0..3 {
        let direction = mode >> (2 * cable) & 3;
        let towards = [direction & 1 != 0, direction & 2 != 0];
        if direction != 0 {
            world.fault(MeshFault::Cut {
                cable,
                towards,
                // An end that receives nothing has no light.
                noticed: towards.map(|dead| dead && noticed),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn cases_cover_every_mode_at_every_moment_noticed_and_not() {
        let all: HashSet<_> = (0..cases())
            .map(|number| {
                let (mode, noticed, moment) = case(number);
                assert!((1..=63).contains(&mode));
                let moment = match moment {
                    Moment::Settled => (0, 0),
                    Moment::Start(frames) => (1, frames),
                    Moment::Repair(frames) => (2, frames),
                    Moment::Exchanges(frames) => (3, frames),
                };
                (mode, noticed, moment)
            })
            .collect();
        assert_eq!(all.len() as u64, cases());
        assert_eq!(cases(), 63 * 2 * (1 + 25 + 16 + 24));
    }
}
