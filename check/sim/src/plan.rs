//! Choices that a seed makes before the run.

use fastrand::Rng;

use crate::options::{Fault, NODES, Options, Topology};

/// Events of a run, for each three cables.
const STEPS: u32 = 2500;
/// Weight of the events at the cable of a liar.
const LIE_WEIGHT: u32 = 150;
/// Of so many worlds one has registers with arbitrary contents, where a seed picks the faults.
const ARBITRARY_PART: u8 = 8;
/// Maximum events of a run, unless more are requested.
const STEPS_MAX: u32 = 10_000;

/// Relative weights of the events, and the shape of the world.
///
/// Every run has some faults and not others, each rare or frequent: runs in which everything fails
/// all the time never reach the interesting states.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Events until the faults stop.
    pub steps: u32,
    /// Nodes.
    pub nodes: usize,
    /// Nodes whose only port is not cabled at first. The far end of cable 0 goes from one of them
    /// to the next. So its near end, at node 0, has one neighbor after another, more than it can
    /// remember. The world ends with the neighbor that is cabled then.
    pub spares: Vec<usize>,
    /// Node 0 submits requests too. Such a hub has no more neighbors than it can wait for.
    pub hub_initiates: bool,
    /// Where the counters that wrap start.
    pub first_sequence: u32,
    /// For each cable the two nodes that it joins.
    pub cables: Vec<[usize; 2]>,
    /// Slots of each link.
    pub slots: u8,
    /// Records that every port of each node has space for.
    pub window_records: Vec<u16>,
    /// Exchanges that each node may have at once.
    pub transactions_max: usize,
    /// Missed keepalives after which a link is dead.
    pub keepalive_misses_max: u32,
    /// Round trips of other links after which an unresponsive link is dead; 0 for never.
    pub event_ratio: u32,
    /// Longest payload, in bytes.
    pub payload_bytes_max: usize,
    /// Exchanges in ten that are two-phase.
    pub two_phase_in_ten: u8,
    /// Where the clock of each node starts.
    pub clocks: Vec<u64>,
    /// Nodes that have a journal.
    pub durable: Vec<bool>,
    /// The world begins with arbitrary registers and records in flight.
    pub arbitrary: bool,
    /// Two cables whose second ends are swapped from time to time.
    pub swap: Option<[usize; 2]>,
    /// Weights of the events.
    pub weights: Weights,
    /// Faults of frames, in thousandths.
    pub frames: FrameFaults,
}

/// Relative weights of the events.
#[derive(Debug, Clone, Default)]
pub struct Weights {
    /// A program submits a request.
    pub submit: u32,
    /// A program queries by name an exchange that was in doubt.
    pub query_outcome: u32,
    /// A node gives out a frame.
    pub transmit: u32,
    /// A frame arrives.
    pub deliver: u32,
    /// A node ticks.
    pub tick: u32,
    /// A node's lane received nothing for a while.
    pub quiet: u32,
    /// A cable starts losing everything in one direction.
    pub cut_one_way: u32,
    /// A cable starts losing everything in both directions.
    pub cut_both: u32,
    /// A cable is whole again.
    pub heal: u32,
    /// An end of a cable loses or finds its carrier.
    pub carrier: u32,
    /// A port reports that it could not transmit.
    pub transmit_failed: u32,
    /// A node or a direction of a cable stands still.
    pub stall: u32,
    /// A program does not care any more.
    pub cancel: u32,
    /// A node loses its memory.
    pub crash: u32,
    /// A node restarts with its journal.
    pub restart: u32,
    /// The disk of a node with a journal completes its write.
    pub sync: u32,
    /// Cables are plugged elsewhere.
    pub plug: u32,
    /// Noise arrives.
    pub noise: u32,
    /// Registers and records in flight become arbitrary.
    pub hit: u32,
    /// A sender that receives nothing puts a frame on a cable.
    pub forge: u32,
    /// Something happens at the cable of the liar.
    pub lie: u32,
}

/// Faults of a frame that is given to a cable, in thousandths.
#[derive(Debug, Clone, Default)]
pub struct FrameFaults {
    /// It is lost.
    pub lost: u32,
    /// Some of its bits flip.
    pub corrupted: u32,
    /// It arrives twice.
    pub duplicated: u32,
    /// It overtakes those before it.
    pub reordered: u32,
    /// Its payload changes, and its CRC with it.
    pub forged: u32,
}

impl Plan {
    /// Whether first epochs are random, as a daemon draws them. Needed where a frame that no end
    /// sent just now may arrive: a forged one, or a copy from before both ends lost their memory.
    /// Other worlds reach the wrap of epochs.
    #[must_use]
    pub const fn draws_epochs(&self) -> bool {
        let begins_anew = self.weights.crash > 0 || self.weights.restart > 0;
        self.weights.forge > 0 || (self.frames.duplicated > 0 && begins_anew)
    }

    /// Draws the plan of a seed, within the options.
    #[must_use]
    pub fn new(rng: &mut Rng, options: &Options) -> Self {
        let arbitrary = match options.faults {
            None => rng.u8(..ARBITRARY_PART) == 0,
            Some(named) => named.has(Fault::Arbitrary),
        };
        let shape = Shape::new(rng, options, arbitrary);
        let swap = (shape.spares.is_empty() && shape.cables.len() >= 2 && rng.u8(..4) == 0)
            .then(|| [0, rng.usize(1..shape.cables.len())]);
        let first_sequence = match rng.u8(..4) {
            0 => u32::MAX - [2, 20, 200][rng.usize(..3)],
            _ => 0,
        };
        let often_or_not = |rng: &mut Rng, often: u32| match rng.u8(..3) {
            0 => 0,
            1 => often.div_ceil(8),
            _ => often,
        };
        let tick = 4 + often_or_not(rng, 60);
        let quiet = often_or_not(rng, 60);
        let mut weight = |fault: Fault, often: u32| match options.faults {
            None => often_or_not(rng, often),
            Some(named) if named.has(fault) => {
                if rng.bool() {
                    often
                } else {
                    often.div_ceil(8)
                }
            }
            Some(_) => 0,
        };
        let frames = FrameFaults {
            lost: weight(Fault::Loss, 40),
            corrupted: weight(Fault::Corrupt, 40),
            duplicated: weight(Fault::Duplicate, 60),
            reordered: 0,
            forged: 0,
        };
        let moves = options.faults.is_none_or(|named| named.has(Fault::Move));
        let weights = Weights {
            submit: 120,
            query_outcome: 20,
            transmit: 400,
            deliver: 400,
            tick,
            quiet,
            cut_one_way: weight(Fault::CutOneWay, 5),
            cut_both: weight(Fault::CutBoth, 5),
            heal: 8,
            carrier: weight(Fault::Carrier, 12),
            transmit_failed: weight(Fault::Transmit, 3),
            stall: weight(Fault::Stall, 8),
            cancel: weight(Fault::Cancel, 6),
            crash: weight(Fault::Crash, 2),
            restart: weight(Fault::Restart, 4),
            sync: 0,
            plug: match (moves, swap, shape.spares.is_empty()) {
                (false, ..) | (true, None, true) => 0,
                (true, _, false) => 8,
                (true, Some(_), true) => 2,
            },
            noise: weight(Fault::Noise, 4),
            hit: u32::from(arbitrary),
            // Among arbitrary registers are those that a forger would guess.
            forge: if options.faults.is_some() && !arbitrary {
                weight(Fault::Forge, 20)
            } else {
                0
            },
            lie: if options.faults.is_some_and(|named| named.has(Fault::Lie)) && !arbitrary {
                LIE_WEIGHT
            } else {
                0
            },
        };
        let durable: Vec<bool> = (0..shape.nodes)
            .map(|_| weights.restart > 0 && rng.u8(..3) > 0)
            .collect();
        let clocks = (0..shape.nodes).map(|_| first_clock(rng)).collect();
        let weights = Weights {
            sync: if durable.contains(&true) {
                [4, 20, 100][rng.usize(..3)]
            } else {
                0
            },
            ..weights
        };
        let thirds = u32::try_from(shape.cables.len() / 3).unwrap_or(u32::MAX);
        let windows: [u16; 4] = [250, 250, 100, 32];
        let window_records = (0..shape.nodes)
            .map(|_| windows[rng.usize(..windows.len())])
            .collect();
        Self {
            steps: options
                .steps
                .unwrap_or_else(|| STEPS.saturating_mul(thirds.max(1)).min(STEPS_MAX)),
            nodes: shape.nodes,
            spares: shape.spares,
            hub_initiates: shape.hub_initiates,
            first_sequence,
            cables: shape.cables,
            slots: [1, 2, 4, 64][rng.usize(..4)],
            window_records,
            transactions_max: [4, 16, 80][rng.usize(..3)],
            // With 2, an idle link declares itself dead, because it sends its keepalive at every
            // other tick: that makes many handshakes.
            keepalive_misses_max: rng.u32(2..=8),
            // A node with many links serves them in turn: three round trips of another link pass
            // while one had none.
            event_ratio: [0, if shape.nodes > 8 { 16 } else { 3 }, 32][rng.usize(..3)],
            payload_bytes_max: [24, 100, 1100, 4096][rng.usize(..4)],
            two_phase_in_ten: [0, 3, 7, 10][rng.usize(..4)],
            clocks,
            durable,
            arbitrary,
            swap,
            weights,
            frames,
        }
    }

    /// Longest payload that a node takes: no verb is longer than the first of these.
    #[must_use]
    pub fn message_bytes_max(&self) -> u16 {
        self.payload_bytes_max.max(160) as u16
    }

    /// Returns each class of faults that occurs, with its frequency: per thousand frames, or per
    /// 1,000 events for all other classes.
    #[must_use]
    pub fn faults(&self) -> Vec<(Fault, u32)> {
        let Weights {
            submit,
            query_outcome,
            transmit,
            deliver,
            tick,
            quiet,
            cut_one_way,
            cut_both,
            heal,
            carrier,
            transmit_failed,
            stall,
            cancel,
            crash,
            restart,
            sync,
            plug,
            noise,
            hit,
            forge,
            lie,
        } = self.weights;
        let faults = [
            (Fault::CutOneWay, cut_one_way),
            (Fault::CutBoth, cut_both),
            (Fault::Carrier, carrier),
            (Fault::Transmit, transmit_failed),
            (Fault::Stall, stall),
            (Fault::Crash, crash),
            (Fault::Restart, restart),
            (Fault::Move, plug),
            (Fault::Cancel, cancel),
            (Fault::Noise, noise),
            (Fault::Arbitrary, hit),
            (Fault::Forge, forge),
            (Fault::Lie, lie),
        ];
        let work = submit + query_outcome + transmit + deliver + tick + quiet + heal + sync;
        let total = work + faults.iter().map(|(_, weight)| weight).sum::<u32>();
        let frames = [
            (Fault::Loss, self.frames.lost),
            (Fault::Corrupt, self.frames.corrupted),
            (Fault::Duplicate, self.frames.duplicated),
        ];
        faults
            .into_iter()
            .map(|(fault, weight)| (fault, (weight * 1000).div_ceil(total)))
            .chain(frames)
            .filter(|(_, often)| *often > 0)
            .collect()
    }

    /// A world without faults, with `nodes` nodes and these cables, for a driver.
    #[must_use]
    pub fn led(nodes: usize, cables: Vec<[usize; 2]>) -> Self {
        Self {
            steps: 0,
            nodes,
            spares: Vec::new(),
            hub_initiates: true,
            first_sequence: 0,
            cables,
            slots: 4,
            window_records: vec![250; nodes],
            transactions_max: 64,
            keepalive_misses_max: 4,
            event_ratio: 32,
            payload_bytes_max: 2500,
            two_phase_in_ten: 5,
            clocks: vec![0; nodes],
            durable: vec![false; nodes],
            arbitrary: false,
            swap: None,
            weights: Weights::default(),
            frames: FrameFaults::default(),
        }
    }
}

/// Where a clock starts: at nothing, shortly before its lower half wraps, or eras ahead.
fn first_clock(rng: &mut Rng) -> u64 {
    const ERA: u64 = 1 << 32;
    match rng.u8(..8) {
        0 => ERA - rng.u64(..300),
        1 => rng.u64(1..5) * ERA - rng.u64(..300),
        // As far ahead as a node may follow in one leap.
        2 => rng.u64(..1 << 60) >> 13,
        _ => 0,
    }
}

/// Nodes, and the cables between them.
struct Shape {
    nodes: usize,
    spares: Vec<usize>,
    hub_initiates: bool,
    cables: Vec<[usize; 2]>,
}

impl Shape {
    fn new(rng: &mut Rng, options: &Options, arbitrary: bool) -> Self {
        // A request to a neighbor that is gone for good never ends, so a world with a hub would not
        // converge.
        let free = options.nodes.is_none() && options.topology.is_none() && !arbitrary;
        let moves = options.faults.is_none_or(|named| named.has(Fault::Move));
        if free && moves && rng.u8(..5) == 0 {
            return Self::hub(rng.bool());
        }
        let nodes = options.nodes.unwrap_or_else(|| match rng.u8(..64) {
            0 => rng.usize(9..=*NODES.end()),
            1..=4 => rng.usize(4..=8),
            5..=20 => 3,
            _ => 2,
        });
        let topology = options
            .topology
            .unwrap_or_else(|| Topology::ALL[rng.usize(..Topology::ALL.len())]);
        let mut cables = joined(rng, nodes, topology);
        // Exchanges fail over to other cables between the same two nodes.
        let more = match nodes {
            2 => rng.usize(0..=2),
            _ => rng.usize(0..=1),
        };
        for _ in 0..more {
            cables.push(cables[rng.usize(..cables.len())]);
        }
        Self {
            nodes,
            spares: Vec::new(),
            hub_initiates: true,
            cables,
        }
    }

    /// A node that meets more neighbors than it can remember, one after the other.
    fn hub(initiates: bool) -> Self {
        let nodes = if initiates { 4 } else { 6 };
        Self {
            nodes,
            spares: (2..nodes).collect(),
            hub_initiates: initiates,
            cables: vec![[0, 1]],
        }
    }
}

/// The cables of a topology, one between any two nodes that it joins.
fn joined(rng: &mut Rng, nodes: usize, topology: Topology) -> Vec<[usize; 2]> {
    let line = (1..nodes).map(|node| [node - 1, node]);
    match topology {
        Topology::Line => line.collect(),
        // Between two nodes the ring's second cable is a second one between the same two.
        Topology::Ring => line.chain([[nodes - 1, 0]]).collect(),
        Topology::Full => (1..nodes)
            .flat_map(|b| (0..b).map(move |a| [a, b]))
            .collect(),
        Topology::Random => {
            let mut cables: Vec<_> = (1..nodes).map(|node| [rng.usize(..node), node]).collect();
            for _ in 0..rng.usize(..nodes) {
                let b = rng.usize(1..nodes);
                cables.push([rng.usize(..b), b]);
            }
            cables
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Faults;

    #[test]
    fn a_topology_joins_all_nodes_and_none_to_itself() {
        for seed in 0..200 {
            let mut rng = Rng::with_seed(seed);
            for topology in Topology::ALL {
                let nodes = rng.usize(NODES);
                let cables = joined(&mut rng, nodes, topology);
                let mut reached = vec![false; nodes];
                reached[0] = true;
                for _ in 0..nodes {
                    for &[a, b] in &cables {
                        assert_ne!(a, b, "{topology}");
                        let either = reached[a] || reached[b];
                        (reached[a], reached[b]) = (either, either);
                    }
                }
                assert!(
                    reached.iter().all(|reached| *reached),
                    "{topology} {cables:?}"
                );
            }
        }
    }

    #[test]
    fn only_the_faults_that_were_named_occur() {
        for seed in 0..200 {
            let options = Options {
                faults: Some(Faults::of(&[Fault::CutBoth])),
                ..Options::default()
            };
            let plan = Plan::new(&mut Rng::with_seed(seed), &options);
            let Weights {
                cut_both,
                cut_one_way,
                carrier,
                transmit_failed,
                stall,
                cancel,
                crash,
                restart,
                sync,
                plug,
                noise,
                hit,
                forge,
                ..
            } = plan.weights;
            assert!(cut_both > 0 && plan.spares.is_empty());
            let others = [
                cut_one_way,
                carrier,
                transmit_failed,
                stall,
                cancel,
                crash,
                restart,
                sync,
                plug,
                noise,
                hit,
                forge,
                plan.frames.lost,
                plan.frames.corrupted,
                plan.frames.duplicated,
            ];
            assert_eq!(others, [0; 15], "seed {seed}");
        }
    }
}
