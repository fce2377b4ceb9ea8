//! The nine points: one exchange is damaged behind each of its steps, in every way, under other
//! load.
//!
//! ```text
//!  point  0         1        2         3        4         5        6         7        8
//!         │a sends 1│b gets 1│b sends 2│a gets 2│a sends 3│b gets 3│b sends 4│a gets 4│
//! ```
//!
//! A one-phase exchange ends at point 4. [`all`] is complete within its bounds: every mode, point,
//! damage, detection, outcome of the frames in flight, other path and kind of load. A second link
//! is cut as well, behind each step of the recovery.

use std::fmt;

use covalent_protocol::Mode;

use crate::{
    book::Ended, journal::LastBatch, operation::Operation, plan::Plan, report::Report, world::World,
};

/// The initiator and the responder.
const A: usize = 0;
const B: usize = 1;
/// The neighbor of both.
const C: usize = 2;
/// Steps of a recovery behind which the second link is cut.
const RECOVERY_STEPS: usize = 8;
/// Requests and replies of the exchange that is watched: short, and in three frames.
const MESSAGE_BYTES: [usize; 2] = [0, 2500];
/// How far the disk of a responder is that restarts with its journal.
const DISKS: [Disk; 3] = [
    Disk::Synced,
    Disk::Writing(LastBatch::Whole),
    Disk::Writing(LastBatch::Torn),
];
/// Outcomes of the frames in flight.
const IN_FLIGHT: [InFlight; 4] = [
    InFlight::Lost,
    InFlight::First,
    InFlight::Arrives,
    InFlight::Late,
];
/// Exchanges of each side that make up the load; with the one that is watched they take every slot.
const LOAD: usize = 3;
/// Bytes of their requests.
const LOAD_BYTES: [usize; LOAD] = [0, 1500, 200];

/// One way to damage an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// How the exchange is made.
    pub mode: Mode,
    /// Steps that it has taken.
    pub point: usize,
    /// The damage at that point.
    pub damage: Damage,
    /// Other path to the peer.
    pub path: Path,
    /// Other load.
    pub load: Load,
    /// Bytes of its request and its reply: those of one record, or of several frames.
    pub message_bytes: usize,
}

/// Path to the peer besides the damaged link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Nothing.
    None,
    /// A second link.
    Link,
    /// A neighbor that has links to both.
    Neighbor,
}

/// Damage to the link, or to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The cable is cut.
    Cut {
        /// Towards the initiator, towards the responder.
        towards: [bool; 2],
        /// The initiator's port notices, the responder's port notices.
        noticed: [bool; 2],
        /// Outcome of the frames in flight.
        in_flight: InFlight,
        /// The second link is cut behind so many steps of the recovery over it.
        second_cut: Option<usize>,
    },
    /// One direction, by its receiving end, stalls: for fewer ticks than make a link dead, or for
    /// more.
    Stall {
        /// The end that receives nothing.
        end: usize,
        /// Number of ticks.
        ticks: u32,
    },
    /// A node restarts without its memory.
    Crash {
        /// Which.
        node: usize,
    },
    /// The responder, which has a journal, restarts with it.
    Restart {
        /// Part of the journal that is on disk.
        disk: Disk,
    },
}

/// How far the disk of a node with a journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// Everything is on it as soon as it is executed.
    Synced,
    /// It is being written and was not yet acknowledged; the write becomes this.
    Writing(LastBatch),
}

/// Outcome of the frames in flight when a cable is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// It is lost.
    Lost,
    /// It arrives.
    Arrives,
    /// The first frame arrives, those behind it are lost.
    First,
    /// It arrives when the exchange has been resolved.
    Late,
}

/// Other load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Nothing.
    None,
    /// The initiator has other exchanges open.
    Initiator,
    /// Both have.
    Both,
}

/// Every case.
pub fn all() -> impl Iterator<Item = Case> {
    let exchanges = [(Mode::OnePhase, 4), (Mode::TwoPhase, 8)]
        .into_iter()
        .flat_map(|(mode, steps)| (0..=steps).map(move |point| (mode, point)));
    exchanges.flat_map(|(mode, point)| {
        let loads = [Load::None, Load::Initiator, Load::Both];
        let places = [Path::None, Path::Link, Path::Neighbor]
            .into_iter()
            .flat_map(move |path| loads.into_iter().map(move |load| (path, load)));
        places.flat_map(move |(path, load)| {
            damages(path).into_iter().flat_map(move |damage| {
                MESSAGE_BYTES.map(|message_bytes| Case {
                    mode,
                    point,
                    damage,
                    path,
                    load,
                    message_bytes,
                })
            })
        })
    })
}

fn damages(path: Path) -> Vec<Damage> {
    let mut damages = vec![Damage::Crash { node: A }, Damage::Crash { node: B }];
    damages.extend(DISKS.map(|disk| Damage::Restart { disk }));
    for end in [A, B] {
        for ticks in [2, 6] {
            damages.push(Damage::Stall { end, ticks });
        }
    }
    for towards in [[true, false], [false, true], [true, true]] {
        for in_flight in IN_FLIGHT {
            for noticed in [[false, false], [true, false], [false, true], [true, true]] {
                damages.push(Damage::Cut {
                    towards,
                    noticed,
                    in_flight,
                    second_cut: None,
                });
            }
            if path == Path::Link {
                damages.extend((0..=RECOVERY_STEPS).map(|step| Damage::Cut {
                    towards,
                    noticed: [true, true],
                    in_flight,
                    second_cut: Some(step),
                }));
            }
        }
    }
    damages
}

/// Runs the exchange of a case to its point, damages it, and waits for its outcome.
///
/// # Errors
/// Returns the broken invariant.
pub fn walk(case: &Case) -> Result<Report, String> {
    let (nodes, cables) = match case.path {
        Path::None => (2, vec![[A, B]]),
        Path::Link => (2, vec![[A, B], [A, B]]),
        Path::Neighbor => (3, vec![[A, B], [A, C], [C, B]]),
    };
    let mut plan = Plan::led(nodes, cables);
    let disk = match case.damage {
        Damage::Restart { disk } => Some(disk),
        _ => None,
    };
    plan.durable[B] = disk.is_some();
    let mut world = World::led(plan, 1);
    world.pass_ticks(2);
    start_load(&mut world, case.load);
    let count = Operation::Count { delta: 1 };
    let token = world
        .submit(
            A,
            B,
            case.mode,
            count,
            case.message_bytes,
            case.message_bytes,
        )
        .ok_or("there is no room for the exchange")?;
    for step in 0..case.point {
        take_step(&mut world, 0, step);
        if disk == Some(Disk::Synced) {
            while world.sync(B) {}
        }
    }
    // Verify the walk: the exchange ends behind its last step and not before.
    let last = match case.mode {
        Mode::OnePhase => 4,
        Mode::TwoPhase => 8,
    };
    let is_reported = !matches!(disk, Some(Disk::Writing(_)));
    if (ended(&world, token) == Some(Ended::Committed)) != (case.point == last && is_reported) {
        return Err(format!("behind step {} it stands otherwise", case.point));
    }
    damage(&mut world, case);
    let survives = !matches!(case.damage, Damage::Crash { .. } | Damage::Restart { .. });
    let resolved = match case.path {
        Path::None => false,
        Path::Link => !matches!(
            case.damage,
            Damage::Cut {
                second_cut: Some(_),
                ..
            }
        ),
        // An undone exchange waits for a link before it is applied again.
        Path::Neighbor => executed(&world, token) && matches!(case.damage, Damage::Cut { .. }),
    };
    if survives && resolved && ended(&world, token) != Some(Ended::Committed) {
        return Err("it did not end over the other path while its link was damaged".into());
    }
    let report = world
        .conclude()
        .map_err(|violation| format!("{}: {}", violation.checker, violation.what))?;
    if survives && ended(&world, token) != Some(Ended::Committed) {
        return Err(format!("it ended as {:?}", ended(&world, token)));
    }
    Ok(report)
}

fn executed(world: &World, token: u64) -> bool {
    let exchange = world.witness().book.exchange(token);
    exchange.is_some_and(|exchange| exchange.executed.is_some())
}

fn ended(world: &World, token: u64) -> Option<Ended> {
    world.witness().book.exchange(token)?.ended
}

/// Opens other exchanges, each one step further than the next.
fn start_load(world: &mut World, load: Load) {
    let sides: &[usize] = match load {
        Load::None => &[],
        Load::Initiator => &[A],
        Load::Both => &[A, B],
    };
    for at in 0..LOAD {
        for &from in sides {
            let mode = [Mode::TwoPhase, Mode::OnePhase][at % 2];
            world.submit(
                from,
                1 - from,
                mode,
                Operation::Count { delta: 1 },
                LOAD_BYTES[at],
                200,
            );
            world.transmit(0, from);
        }
        for &from in sides {
            world.deliver(0, 1 - from);
        }
    }
}

/// Performs one step of an exchange: one end sends or receives everything.
fn take_step(world: &mut World, cable: usize, step: usize) {
    match step % 4 {
        0 => while world.transmit(cable, A) {},
        1 => while world.deliver(cable, B) {},
        2 => while world.transmit(cable, B) {},
        _ => while world.deliver(cable, A) {},
    }
}

fn damage(world: &mut World, case: &Case) {
    match case.damage {
        Damage::Cut {
            towards,
            noticed,
            in_flight,
            second_cut,
        } => {
            if in_flight == InFlight::First {
                world.lose_behind_first(0);
            }
            world.cut(0, towards, in_flight == InFlight::Lost);
            if in_flight == InFlight::Late {
                world.hold(0, A);
                world.hold(0, B);
            }
            for end in [A, B] {
                if noticed[end] {
                    world.set_carrier(0, end, false);
                }
            }
            if let Some(steps) = second_cut {
                for step in 0..steps {
                    take_step(world, 1, step);
                }
                world.cut(1, [true; 2], true);
                world.set_carrier(1, A, false);
                world.set_carrier(1, B, false);
            }
            world.pass_ticks(1);
            for end in [A, B] {
                world.release(0, end);
            }
            // Long enough for silence to be noticed.
            world.pass_ticks(7);
        }
        Damage::Stall { end, ticks } => {
            world.hold(0, end);
            world.pass_ticks(ticks);
            world.release(0, end);
            world.pass_ticks(2);
        }
        Damage::Crash { node } => {
            world.crash(node);
            world.pass_ticks(1);
        }
        Damage::Restart { disk } => {
            let last = match disk {
                Disk::Synced => LastBatch::Torn,
                Disk::Writing(last) => {
                    world.submit_to_disk(B);
                    last
                }
            };
            world.restart(B, last);
            world.pass_ticks(1);
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
