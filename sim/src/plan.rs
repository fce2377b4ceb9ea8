//! What a seed decides before anything happens.

use fastrand::Rng;

/// Relative weights of the events, and the shape of the world.
///
/// Every run has some faults and not others, each rare or frequent: runs in which everything fails all the time never
/// get far enough to meet the interesting states.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Events until the faults stop.
    pub steps: u32,
    /// Nodes: 2 or 3, or a hub and more neighbours than it can remember.
    pub nodes: usize,
    /// Nodes whose only port is not cabled at first. The far end of cable 0 goes from one of them to the next, so its
    /// near end, at node 0, has one neighbour after another, and the world ends with whichever is cabled then.
    pub spares: Vec<usize>,
    /// Node 0 asks for something too. A hub that does has no more neighbours than it can wait for.
    pub hub_asks: bool,
    /// Where the counters that wrap start.
    pub first_sequence: u32,
    /// For each cable the two nodes that it joins.
    pub cables: Vec<[usize; 2]>,
    /// Slots of each link.
    pub slots: u8,
    /// Exchanges that each node may have at once.
    pub transactions_max: usize,
    /// Silent paces after which a link is dead.
    pub silent_paces_max: u32,
    /// Longest payload, in bytes.
    pub payload_bytes_max: usize,
    /// Exchanges in ten that are two-phase.
    pub two_phase_in_ten: u8,
    /// Two cables whose second ends are swapped now and then.
    pub swap: Option<[usize; 2]>,
    /// Weights of the events.
    pub weights: Weights,
    /// What happens to frames, in thousandths.
    pub frames: FrameFaults,
}

/// Relative weights of the events.
#[derive(Debug, Clone)]
pub struct Weights {
    /// A program asks for something.
    pub submit: u32,
    /// A node gives out a frame.
    pub transmit: u32,
    /// A frame arrives.
    pub deliver: u32,
    /// A node's pace passes.
    pub tick: u32,
    /// A cable starts losing everything, in one direction or both.
    pub cut: u32,
    /// A cable is whole again.
    pub heal: u32,
    /// An end of a cable loses or finds its carrier.
    pub carrier: u32,
    /// A port reports that it could not transmit.
    pub transmit_failed: u32,
    /// A program does not care any more.
    pub cancel: u32,
    /// A node loses its memory.
    pub crash: u32,
    /// Two cables are swapped at one end.
    pub swap: u32,
    /// Noise arrives.
    pub noise: u32,
}

/// What happens to a frame that is given to a cable, in thousandths.
#[derive(Debug, Clone)]
pub struct FrameFaults {
    /// It is lost.
    pub lost: u32,
    /// Some of its bits flip.
    pub corrupted: u32,
    /// It arrives twice.
    pub duplicated: u32,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn new(rng: &mut Rng) -> Self {
        let hub = rng.u8(..5) == 0;
        let hub_asks = !hub || rng.bool();
        let nodes = match (hub, hub_asks) {
            (true, true) => 4,
            (true, false) => 6,
            (false, _) if rng.u8(..4) == 0 => 3,
            (false, _) => 2,
        };
        let spares = if hub {
            (2..nodes).collect()
        } else {
            Vec::new()
        };
        let first_sequence = match rng.u8(..4) {
            0 => u32::MAX - [2, 20, 200][rng.usize(..3)],
            _ => 0,
        };
        let mut cables: Vec<[usize; 2]> = match nodes {
            2 => vec![[0, 1]; rng.usize(1..=3)],
            _ if hub => vec![[0, 1]],
            _ => vec![[0, 1], [1, 2], [2, 0]],
        };
        if nodes == 3 && rng.bool() {
            cables.push([0, 1]);
        }
        let swap = (cables.len() >= 2 && rng.u8(..4) == 0).then(|| [0, rng.usize(1..cables.len())]);
        let mut fault = |often: u32| match rng.u8(..3) {
            0 => 0,
            1 => often.div_ceil(8),
            _ => often,
        };
        let weights = Weights {
            submit: 120,
            transmit: 400,
            deliver: 400,
            tick: 4 + fault(60),
            cut: fault(8),
            heal: 8,
            carrier: fault(12),
            transmit_failed: fault(3),
            cancel: fault(6),
            crash: fault(2),
            swap: match (swap, hub) {
                (_, true) => 8,
                (Some(_), _) => 2,
                _ => 0,
            },
            noise: fault(4),
        };
        let frames = FrameFaults {
            lost: fault(40),
            corrupted: fault(40),
            duplicated: fault(60),
        };
        Self {
            steps: 2500,
            nodes,
            spares,
            hub_asks,
            first_sequence,
            cables,
            slots: [1, 2, 4, 64][rng.usize(..4)],
            transactions_max: [4, 16, 80][rng.usize(..3)],
            silent_paces_max: rng.u32(2..=8),
            payload_bytes_max: [24, 100, 2200][rng.usize(..3)],
            two_phase_in_ten: [0, 3, 7, 10][rng.usize(..4)],
            swap,
            weights,
            frames,
        }
    }
}
