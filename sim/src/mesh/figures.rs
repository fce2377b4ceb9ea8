//! Figures of a run: round trips to settle, frames, and outcomes.

use covalent_protocol::tree::Standing;
use serde::Serialize;

use super::{
    book::Reported, content::FrameKind, fact::MeshFact, fault::MeshFault, scene::MeshScene,
    spread::Spread, time::ROUND_TRIP_UNITS,
};
use crate::common::Tally;

/// Figures so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    /// Frames, by [`FrameKind`].
    frames: [u64; FrameKind::ALL.len()],
    records: u64,
    ups: u64,
    failures: u64,
    asked: u64,
    path_ups: u64,
    path_failures: u64,
    committed: u64,
    committed_far: u64,
    refused: u64,
    not_executed: u64,
    restarted: u64,
    forgotten: u64,
    doubted: u64,
    faults: u64,
    /// Ticks of the rest that took most of them.
    paces_to_rest: u32,
    settled: Option<Settled>,
    adverts: u64,
    searches: u64,
    denials: u64,
    lost: u64,
    local: Spread,
    other: Spread,
    found_again: Spread,
    lost_early: u64,
    stretch: f64,
    waves: u64,
}

/// The first rest.
#[derive(Debug, Clone, Copy, Default)]
struct Settled {
    /// When the last thing changed before it.
    units: u64,
    /// Frames until it.
    frames: u64,
    /// Adverts until it.
    adverts: u64,
    /// Entries of all nodes in their tables of trees.
    tree_entries: u64,
    /// Bytes of these.
    tree_bytes: u64,
}

impl Figures {
    pub fn record(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) {
        match *fact {
            MeshFact::Sent { content, .. } => {
                self.frames[content.kind as usize] += 1;
                self.records += content.records as u64;
                self.adverts += content.adverts;
                self.searches += content.searches;
                self.denials += content.denials;
            }
            MeshFact::Attached { .. } => {
                if let Some(fall) = scene.risen() {
                    let spread = if fall.bound_units.is_some() {
                        self.lost_early += u64::from(fall.lost);
                        &mut self.local
                    } else if fall.lost {
                        &mut self.found_again
                    } else {
                        &mut self.other
                    };
                    spread.add(scene.now_units - fall.at_units);
                }
            }
            MeshFact::Tree {
                views,
                root,
                at_rest: true,
            } => {
                let shortest = scene.truth().hops_to(usize::from(root));
                for (view, shortest) in views.iter().zip(shortest) {
                    if let Some(view) = view
                        && view.standing == Standing::Attached
                        && shortest > 0
                    {
                        let stretch = f64::from(view.hops) / f64::from(shortest);
                        self.stretch = self.stretch.max(stretch);
                        self.waves = self.waves.max(view.label.wave());
                    }
                }
            }
            MeshFact::Lost { .. } => self.lost += 1,
            MeshFact::Up { .. } => self.ups += 1,
            MeshFact::Down { .. } => self.failures += 1,
            MeshFact::PathUp { .. } => self.path_ups += 1,
            MeshFact::PathDown { .. } => self.path_failures += 1,
            MeshFact::Requested { .. } => self.asked += 1,
            MeshFact::Reported { how, token, .. } => match how {
                Reported::Committed(_) => {
                    self.committed += 1;
                    let request = scene.book.request(token);
                    let is_far = request
                        .is_some_and(|request| !scene.are_cabled(request.from.0, request.to.0));
                    self.committed_far += u64::from(is_far);
                }
                Reported::Refused => self.refused += 1,
                Reported::NotExecuted => self.not_executed += 1,
                Reported::Restarted => {
                    self.restarted += 1;
                    let request = scene.book.request(token);
                    let is_same_incarnation = request
                        .is_some_and(|request| scene.incarnation(request.to.0) == request.to.1);
                    self.forgotten += u64::from(is_same_incarnation);
                }
            },
            MeshFact::Doubted { .. } => self.doubted += 1,
            MeshFact::Fault(MeshFault::Mend { .. } | MeshFault::Start { .. }) => {}
            MeshFact::Fault(_) => self.faults += 1,
            MeshFact::AtRest { ticks, counts, .. } => {
                self.paces_to_rest = self.paces_to_rest.max(ticks);
                let frames = self.frames.iter().sum();
                self.settled.get_or_insert(Settled {
                    units: scene.changed_units(),
                    frames,
                    adverts: self.adverts,
                    tree_entries: counts.iter().map(|counts| counts.tree_entries).sum(),
                    tree_bytes: counts.iter().map(|counts| counts.tree_bytes).sum(),
                });
            }
            MeshFact::Executed { .. }
            | MeshFact::GaveUp { .. }
            | MeshFact::Tree { .. }
            | MeshFact::Idle { .. }
            | MeshFact::Sampled(_)
            | MeshFact::Took { .. }
            | MeshFact::Searches { .. }
            | MeshFact::Complained { .. } => {}
        }
    }

    /// Converts the figures to a report.
    pub fn report(&self, scene: &MeshScene, fingerprint: u64) -> MeshReport {
        let settled = self.settled.unwrap_or_default();
        let nodes = scene.shape.nodes as u64;
        MeshReport {
            runs: 1,
            nodes,
            cables: scene.shape.cables.len() as u64,
            diameter_hops: u64::from(scene.truth().diameter()),
            settle_rt: settled.units as f64 / ROUND_TRIP_UNITS as f64,
            settle_frames_per_node: settled.frames as f64 / nodes as f64,
            settle_adverts_per_node: settled.adverts as f64 / nodes as f64,
            tree_entries_per_node: settled.tree_entries as f64 / nodes as f64,
            tree_bytes_per_node: settled.tree_bytes as f64 / nodes as f64,
            paces_to_rest: u64::from(self.paces_to_rest),
            frames: self.frames.iter().sum(),
            records: self.records,
            keepalives: self.frames[FrameKind::Keepalive as usize],
            handshakes: self.frames[FrameKind::Handshake as usize],
            exchanges: self.frames[FrameKind::Exchange as usize],
            questions: self.frames[FrameKind::Question as usize],
            link_ups: self.ups,
            link_failures: self.failures,
            faults: self.faults,
            adverts: self.adverts,
            searches: self.searches,
            denials: self.denials,
            lost: self.lost,
            repairs_local: self.local.clone(),
            repairs_other: self.other.clone(),
            found_again: self.found_again.clone(),
            lost_early: self.lost_early,
            stretch: self.stretch,
            waves: self.waves,
            asked: self.asked,
            path_ups: self.path_ups,
            path_failures: self.path_failures,
            committed: self.committed,
            committed_far: self.committed_far,
            refused: self.refused,
            not_executed: self.not_executed,
            restarted: self.restarted,
            forgotten: self.forgotten,
            doubted: self.doubted,
            fingerprint,
        }
    }
}

/// Figures of a run, or of several together: the maximum of measurements and the sum of counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MeshReport {
    /// Runs.
    pub runs: u64,
    /// Nodes.
    pub nodes: u64,
    /// Cables.
    pub cables: u64,
    /// Cables between the two nodes farthest from each other, in the final state of the mesh.
    pub diameter_hops: u64,
    /// Round trips of a link from nothing until everything had settled.
    pub settle_rt: f64,
    /// Frames for each node until the mesh was seen at rest for the first time.
    pub settle_frames_per_node: f64,
    /// Adverts for each node until then.
    pub settle_adverts_per_node: f64,
    /// Mean entries of a node in its tree tables then: one for each root, and one more for each of
    /// its ports.
    pub tree_entries_per_node: f64,
    /// Bytes of these.
    pub tree_bytes_per_node: f64,
    /// Ticks from the last fault until rest.
    pub paces_to_rest: u64,
    /// Frames sent.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Frames with only keepalives.
    pub keepalives: u64,
    /// Frames with a handshake.
    pub handshakes: u64,
    /// Frames with requests or answers.
    pub exchanges: u64,
    /// Frames with questions about exchanges of failed links, or their answers.
    pub questions: u64,
    /// Link ends that came up.
    pub link_ups: u64,
    /// Ends of links that failed.
    pub link_failures: u64,
    /// Faults, without repairs.
    pub faults: u64,
    /// Adverts of a root to a neighbor.
    pub adverts: u64,
    /// Requests to a neighbor to come nearer to a root.
    pub searches: u64,
    /// Denials of such requests.
    pub denials: u64,
    /// Times that a node reported a root unreachable.
    pub lost: u64,
    /// From the loss of a parent until the node is attached again. A cable was cut, nothing else
    /// happened, and an attached neighbor was not behind the node.
    pub repairs_local: Spread,
    /// The same for all other nodes that did not report the root unreachable.
    pub repairs_other: Spread,
    /// The same for nodes that did, until they found a route again.
    pub found_again: Spread,
    /// Number of local repairs in which the node reported the root unreachable meanwhile.
    pub lost_early: u64,
    /// Longest way at any rest, over the shortest one that there is.
    pub stretch: f64,
    /// The latest wave of any root.
    pub waves: u64,
    /// Exchanges submitted.
    pub asked: u64,
    /// Path ends that came up.
    pub path_ups: u64,
    /// Ends of paths that failed, or were given back.
    pub path_failures: u64,
    /// Exchanges that committed.
    pub committed: u64,
    /// Of these, exchanges with nodes that are not neighbors.
    pub committed_far: u64,
    /// Exchanges that were refused.
    pub refused: u64,
    /// Exchanges that were reported as not executed to an initiator that queried by name.
    pub not_executed: u64,
    /// Exchanges whose peer restarted.
    pub restarted: u64,
    /// Of these, exchanges whose peer kept running and had forgotten them.
    pub forgotten: u64,
    /// Exchanges that were reported in doubt.
    pub doubted: u64,
    /// A 64-bit mix of everything that happened.
    pub fingerprint: u64,
}

impl Tally for MeshReport {
    fn add(&mut self, other: &Self) {
        let most = |a: f64, b: f64| a.max(b);
        *self = Self {
            runs: self.runs + other.runs,
            nodes: self.nodes.max(other.nodes),
            cables: self.cables.max(other.cables),
            diameter_hops: self.diameter_hops.max(other.diameter_hops),
            settle_rt: most(self.settle_rt, other.settle_rt),
            settle_frames_per_node: most(self.settle_frames_per_node, other.settle_frames_per_node),
            settle_adverts_per_node: most(
                self.settle_adverts_per_node,
                other.settle_adverts_per_node,
            ),
            tree_entries_per_node: most(self.tree_entries_per_node, other.tree_entries_per_node),
            tree_bytes_per_node: most(self.tree_bytes_per_node, other.tree_bytes_per_node),
            paces_to_rest: self.paces_to_rest.max(other.paces_to_rest),
            frames: self.frames + other.frames,
            records: self.records + other.records,
            keepalives: self.keepalives + other.keepalives,
            handshakes: self.handshakes + other.handshakes,
            exchanges: self.exchanges + other.exchanges,
            questions: self.questions + other.questions,
            link_ups: self.link_ups + other.link_ups,
            link_failures: self.link_failures + other.link_failures,
            faults: self.faults + other.faults,
            adverts: self.adverts + other.adverts,
            searches: self.searches + other.searches,
            denials: self.denials + other.denials,
            lost: self.lost + other.lost,
            repairs_local: self.repairs_local.clone().and(&other.repairs_local),
            repairs_other: self.repairs_other.clone().and(&other.repairs_other),
            found_again: self.found_again.clone().and(&other.found_again),
            lost_early: self.lost_early + other.lost_early,
            stretch: most(self.stretch, other.stretch),
            waves: self.waves.max(other.waves),
            asked: self.asked + other.asked,
            path_ups: self.path_ups + other.path_ups,
            path_failures: self.path_failures + other.path_failures,
            committed: self.committed + other.committed,
            committed_far: self.committed_far + other.committed_far,
            refused: self.refused + other.refused,
            not_executed: self.not_executed + other.not_executed,
            restarted: self.restarted + other.restarted,
            forgotten: self.forgotten + other.forgotten,
            doubted: self.doubted + other.doubted,
            // XOR does not depend on the order in which runs end.
            fingerprint: self.fingerprint ^ other.fingerprint,
        };
    }
}

impl MeshReport {
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
            (
                "adverts for each node until then",
                format!("{:.1}", self.settle_adverts_per_node),
            ),
            (
                "entries of each node in its tables of trees",
                format!("{:.1}", self.tree_entries_per_node),
            ),
            ("bytes of these", format!("{:.0}", self.tree_bytes_per_node)),
            count("ticks from the last fault to rest", self.paces_to_rest),
            count("faults", self.faults),
            (
                "local repairs, in round trips",
                self.repairs_local.to_string(),
            ),
            (
                "other repairs, in round trips",
                self.repairs_other.to_string(),
            ),
            (
                "from lost to found again, in round trips",
                self.found_again.to_string(),
            ),
            (
                "longest route over the shortest",
                format!("{:.2}", self.stretch),
            ),
            count(
                "local repairs reported as unreachable meanwhile",
                self.lost_early,
            ),
            count("latest wave", self.waves),
            count("adverts", self.adverts),
            count("searches", self.searches),
            count("denials", self.denials),
            count("reported unreachable", self.lost),
            count("ends of links that came up", self.link_ups),
            count("ends of links that failed", self.link_failures),
            count("frames", self.frames),
            count("records", self.records),
            count("frames with keepalives only", self.keepalives),
            count("frames with a handshake", self.handshakes),
            count("frames with exchanges", self.exchanges),
            count("frames with queries", self.questions),
            count("ends of paths that came up", self.path_ups),
            count(
                "ends of paths that failed or were given back",
                self.path_failures,
            ),
            count("exchanges requested", self.asked),
            count("exchanges committed", self.committed),
            count("those with nodes that are no neighbors", self.committed_far),
            count("exchanges refused", self.refused),
            count(
                "exchanges queried by name that were not executed",
                self.not_executed,
            ),
            count("exchanges whose peer restarted", self.restarted),
            count("those whose live peer had forgotten them", self.forgotten),
            count("exchanges in doubt for a while", self.doubted),
        ]
    }
}
