//! What a run counts: round trips to settle, frames, and how things ended.

use serde::Serialize;

use super::{
    book::Told, content::FrameKind, fact::MeshFact, fault::MeshFault, scene::MeshScene,
    time::ROUND_TRIP_UNITS,
};

/// What was counted so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    /// Frames, by [`FrameKind`].
    frames: [u64; FrameKind::ALL.len()],
    records: u64,
    ups: u64,
    failures: u64,
    asked: u64,
    committed: u64,
    refused: u64,
    restarted: u64,
    doubted: u64,
    faults: u64,
    /// Paces of the rest that took most of them.
    paces_to_rest: u32,
    /// The first rest: when the last thing changed before it, and frames until it.
    settled: Option<(u64, u64)>,
}

impl Figures {
    pub fn note(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) {
        match *fact {
            MeshFact::Sent { kind, records, .. } => {
                self.frames[kind as usize] += 1;
                self.records += records as u64;
            }
            MeshFact::Up { .. } => self.ups += 1,
            MeshFact::Down { .. } => self.failures += 1,
            MeshFact::Asked { .. } => self.asked += 1,
            MeshFact::Told { how, .. } => match how {
                Told::Committed(_) => self.committed += 1,
                Told::Refused => self.refused += 1,
                Told::Restarted => self.restarted += 1,
            },
            MeshFact::Doubted { .. } => self.doubted += 1,
            MeshFact::Fault(MeshFault::Mend { .. } | MeshFault::Start { .. }) => {}
            MeshFact::Fault(_) => self.faults += 1,
            MeshFact::AtRest { paces, .. } => {
                self.paces_to_rest = self.paces_to_rest.max(paces);
                let frames = self.frames.iter().sum();
                self.settled.get_or_insert((scene.changed_units(), frames));
            }
            MeshFact::Executed { .. } => {}
        }
    }

    /// What they come to.
    pub fn report(&self, scene: &MeshScene, fingerprint: u64) -> MeshReport {
        let (settled_units, settled_frames) = self.settled.unwrap_or_default();
        let nodes = scene.shape.nodes as u64;
        MeshReport {
            runs: 1,
            nodes,
            cables: scene.shape.cables.len() as u64,
            diameter_hops: u64::from(scene.truth().diameter()),
            settle_rt: settled_units as f64 / ROUND_TRIP_UNITS as f64,
            settle_frames_per_node: settled_frames as f64 / nodes as f64,
            paces_to_rest: u64::from(self.paces_to_rest),
            frames: self.frames.iter().sum(),
            records: self.records,
            balls: self.frames[FrameKind::Ball as usize],
            handshakes: self.frames[FrameKind::Handshake as usize],
            exchanges: self.frames[FrameKind::Exchange as usize],
            questions: self.frames[FrameKind::Question as usize],
            link_ups: self.ups,
            link_failures: self.failures,
            faults: self.faults,
            asked: self.asked,
            committed: self.committed,
            refused: self.refused,
            restarted: self.restarted,
            doubted: self.doubted,
            fingerprint,
        }
    }
}

/// What a run did, or several together: then what is measured is the most of all, and what is counted the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct MeshReport {
    /// Runs.
    pub runs: u64,
    /// Nodes.
    pub nodes: u64,
    /// Cables.
    pub cables: u64,
    /// Cables between the two nodes that are furthest from each other, as the mesh stood in the end.
    pub diameter_hops: u64,
    /// Round trips of a link from nothing until everything had settled.
    pub settle_rt: f64,
    /// Frames for each node until the mesh was seen at rest for the first time.
    pub settle_frames_per_node: f64,
    /// Paces from the last fault until rest.
    pub paces_to_rest: u64,
    /// Frames sent.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Frames with nothing but balls.
    pub balls: u64,
    /// Frames with a handshake.
    pub handshakes: u64,
    /// Frames with requests or answers.
    pub exchanges: u64,
    /// Frames with questions about exchanges of failed links, or their answers.
    pub questions: u64,
    /// Ends of links that came up.
    pub link_ups: u64,
    /// Ends of links that failed.
    pub link_failures: u64,
    /// Faults, without repairs.
    pub faults: u64,
    /// Exchanges asked for.
    pub asked: u64,
    /// Exchanges that committed.
    pub committed: u64,
    /// Exchanges that were refused.
    pub refused: u64,
    /// Exchanges whose peer restarted.
    pub restarted: u64,
    /// Exchanges of which somebody was told that they are in doubt.
    pub doubted: u64,
    /// A 64-bit mix of everything that happened.
    pub fingerprint: u64,
}

impl MeshReport {
    /// Adds what another run did.
    pub fn add(&mut self, other: &Self) {
        let most = |a: f64, b: f64| a.max(b);
        *self = Self {
            runs: self.runs + other.runs,
            nodes: self.nodes.max(other.nodes),
            cables: self.cables.max(other.cables),
            diameter_hops: self.diameter_hops.max(other.diameter_hops),
            settle_rt: most(self.settle_rt, other.settle_rt),
            settle_frames_per_node: most(self.settle_frames_per_node, other.settle_frames_per_node),
            paces_to_rest: self.paces_to_rest.max(other.paces_to_rest),
            frames: self.frames + other.frames,
            records: self.records + other.records,
            balls: self.balls + other.balls,
            handshakes: self.handshakes + other.handshakes,
            exchanges: self.exchanges + other.exchanges,
            questions: self.questions + other.questions,
            link_ups: self.link_ups + other.link_ups,
            link_failures: self.link_failures + other.link_failures,
            faults: self.faults + other.faults,
            asked: self.asked + other.asked,
            committed: self.committed + other.committed,
            refused: self.refused + other.refused,
            restarted: self.restarted + other.restarted,
            doubted: self.doubted + other.doubted,
            // Whatever the order in which runs end.
            fingerprint: self.fingerprint ^ other.fingerprint,
        };
    }

    /// Every figure with its name and its value, for people.
    #[must_use]
    pub fn figures(&self) -> Vec<(&'static str, String)> {
        let count = |name, value: u64| (name, value.to_string());
        vec![
            count("runs", self.runs),
            count("nodes", self.nodes),
            count("cables", self.cables),
            count("diameter, in hops", self.diameter_hops),
            (
                "round trips to settle from nothing",
                format!("{:.1}", self.settle_rt),
            ),
            (
                "frames for each node until the first rest",
                format!("{:.1}", self.settle_frames_per_node),
            ),
            count("paces from the last fault to rest", self.paces_to_rest),
            count("faults", self.faults),
            count("ends of links that came up", self.link_ups),
            count("ends of links that failed", self.link_failures),
            count("frames", self.frames),
            count("records", self.records),
            count("frames with balls alone", self.balls),
            count("frames with a handshake", self.handshakes),
            count("frames with exchanges", self.exchanges),
            count("frames with questions", self.questions),
            count("exchanges asked for", self.asked),
            count("exchanges committed", self.committed),
            count("exchanges refused", self.refused),
            count("exchanges whose peer restarted", self.restarted),
            count("exchanges in doubt for a while", self.doubted),
        ]
    }
}
