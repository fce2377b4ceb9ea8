//! Choices that a seed makes before the run.

use fastrand::Rng;

use super::options::{Fault, Faults, NODES, Options};
use crate::shape::{BadShape, Form, Shape, VALENCE_MAX};

/// Nodes of a world, if the options do not set their number.
const USUAL_NODES: std::ops::RangeInclusive<usize> = 3..=8;
/// Most deeds of a run.
const DEEDS_MAX: usize = 6;
/// Most units of one way over one cable.
pub const HOP_UNITS: u64 = 16;

/// An action on the world, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deed {
    /// How long after the deed before.
    pub behind: Gap,
    /// Class of the fault.
    pub fault: Fault,
}

/// Delay before a deed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// So many eighths of a round trip.
    Eighths(u64),
    /// Until everything able to come to rest has done so.
    Calm,
}

/// The shape of a world and its planned events.
///
/// Every run has some classes of faults and not others: runs in which everything fails all the time
/// never reach the interesting states.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Shape of the cabling.
    pub shape: Shape,
    /// Units of one way over one cable, from and to; the most is [`HOP_UNITS`].
    pub hop_units: [u64; 2],
    /// Maximum units until an application processes its events.
    pub lag_units: u64,
    /// Round trips in a tick interval.
    pub tick_round_trips: u64,
    /// Faults of envelopes, in thousandths.
    pub envelopes: EnvelopeFaults,
    /// Planned deeds.
    pub deeds: Vec<Deed>,
    /// The classes that `deeds` and `envelopes` were drawn from.
    pub faults: Faults,
    /// Maximum messages that all applications together request.
    pub messages_max: u64,
    /// Eighths of a round trip between two turns of an application at asking, at most.
    pub request_eighths: u64,
    /// Most messages of one turn.
    pub burst_max: u64,
    /// Most bytes of a message.
    pub message_bytes_max: usize,
    /// Members with which the group is founded; 0 if it begins with a view of all nodes.
    pub founders: u8,
}

/// Faults of an envelope, in thousandths.
#[derive(Debug, Clone, Default)]
pub struct EnvelopeFaults {
    /// It takes up to eight times as long.
    pub late: u32,
    /// It arrives twice.
    pub duplicated: u32,
    /// It ends unclear.
    pub unclear: u32,
    /// It is refused because a queue is full.
    pub refused: u32,
}

impl Plan {
    /// Draws the plan of a seed, within the options.
    ///
    /// # Errors
    /// There is no such shape.
    pub fn new(rng: &mut Rng, options: &Options) -> Result<Self, BadShape> {
        let nodes = options.nodes.or_else(|| {
            let named = matches!(
                options.shape,
                Some(Form::File(_) | Form::Grid(Some(_)) | Form::Torus(Some(_)))
            );
            (!named).then(|| rng.usize(USUAL_NODES))
        });
        let form = match &options.shape {
            Some(form) => form.clone(),
            None => [
                Form::Full,
                Form::Full,
                Form::Ring,
                Form::Chords(2),
                Form::Random(3),
            ][rng.usize(..5)]
            .clone(),
        };
        let shape = form.shape(nodes, VALENCE_MAX, rng)?;
        if !NODES.contains(&shape.nodes) {
            return Err(BadShape::Nodes { found: shape.nodes });
        }
        let faults = options.faults.unwrap_or_else(|| {
            // Draw from a separate generator: a seed without a forger keeps its world.
            let forges = Rng::with_seed(!rng.clone().u64(..)).u8(..4) == 0;
            let classes: Vec<Fault> = Fault::ALL
                .into_iter()
                .filter(|fault| match fault {
                    Fault::Forge => forges,
                    _ => rng.u8(..3) == 0,
                })
                .collect();
            Faults::of(&classes)
        });
        let mut often = |fault: Fault, often: u32| match (faults.has(fault), rng.bool()) {
            (false, _) => 0,
            (true, true) => often,
            (true, false) => often.div_ceil(8),
        };
        let envelopes = EnvelopeFaults {
            late: often(Fault::Late, 200),
            duplicated: often(Fault::Duplicate, 40),
            unclear: often(Fault::Unclear, 40),
            refused: often(Fault::Refuse, 40),
        };
        let mut deeds = deeds(rng, faults);
        if let Some(churn) = options.churn {
            deeds.truncate(churn as usize);
        }
        let founders = if faults.has(Fault::Join) && rng.bool() {
            // Where more would than are needed, they are at least more than half.
            let fewest = if rng.u8(..4) == 0 {
                shape.nodes / 2 + 1
            } else {
                shape.nodes
            };
            rng.usize(fewest..=shape.nodes) as u8
        } else {
            0
        };
        // So many batches that the number sent but not taken reaches its bound.
        let bulk = faults.has(Fault::Full) && rng.u8(..16) == 0;
        Ok(Self {
            shape,
            hop_units: [[1, HOP_UNITS / 2, HOP_UNITS][rng.usize(..3)], HOP_UNITS],
            lag_units: [0, 2, HOP_UNITS][rng.usize(..3)],
            tick_round_trips: [2, 10, 50][rng.usize(..3)],
            envelopes,
            deeds,
            faults,
            messages_max: if bulk {
                1_500
            } else {
                [0, 20, 100, 300][rng.usize(..4)]
            },
            request_eighths: if bulk { 1 } else { [1, 8, 40][rng.usize(..3)] },
            burst_max: if bulk { 1 } else { [1, 4, 30][rng.usize(..3)] },
            message_bytes_max: [32, 32, 300, 3_000][rng.usize(..4)],
            founders,
        })
    }

    /// A world in which only its driver acts. One hop over a cable always takes [`HOP_UNITS`].
    #[must_use]
    pub const fn led(shape: Shape) -> Self {
        Self {
            shape,
            hop_units: [HOP_UNITS; 2],
            lag_units: 0,
            tick_round_trips: 100,
            envelopes: EnvelopeFaults {
                late: 0,
                duplicated: 0,
                unclear: 0,
                refused: 0,
            },
            deeds: Vec::new(),
            faults: Faults::NONE,
            messages_max: 0,
            request_eighths: 1,
            burst_max: 1,
            message_bytes_max: 32,
            founders: 0,
        }
    }

    /// The two nodes of each cable.
    #[must_use]
    pub fn cables(&self) -> Vec<[usize; 2]> {
        let cables = self.shape.cables.iter();
        cables.map(|ends| ends.map(usize::from)).collect()
    }
}

/// Deeds of the classes that are there.
fn deeds(rng: &mut Rng, faults: Faults) -> Vec<Deed> {
    let of_envelopes = |fault: &Fault| {
        matches!(
            fault,
            Fault::Late | Fault::Duplicate | Fault::Unclear | Fault::Refuse
        )
    };
    let classes: Vec<Fault> = faults.iter().filter(|fault| !of_envelopes(fault)).collect();
    if classes.is_empty() {
        return Vec::new();
    }
    (0..rng.usize(1..=DEEDS_MAX))
        .map(|_| Deed {
            behind: match rng.u8(..4) {
                0 | 1 => Gap::Eighths(rng.u64(0..24)),
                2 => Gap::Eighths(rng.u64(0..160)),
                _ => Gap::Calm,
            },
            fault: classes[rng.usize(..classes.len())],
        })
        .collect()
}
