//! Figures of a run: round trips to settle, frames, and outcomes.

use covalent_protocol::tree::Standing;

use super::{
    book::Reported, content::FrameKind, fact::MeshFact, fault::MeshFault, scene::MeshScene,
    spread::Spread, time::ROUND_TRIP_UNITS,
};
use crate::harness::report;

/// Figures so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    report: MeshReport,
    /// Frames, by [`FrameKind`].
    frames: [u64; FrameKind::ALL.len()],
    has_rested: bool,
}

impl Figures {
    pub fn record(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) {
        let report = &mut self.report;
        match *fact {
            MeshFact::Sent { content, .. } => {
                self.frames[content.kind as usize] += 1;
                report.records += content.records as u64;
                report.adverts += content.adverts;
                report.searches += content.searches;
                report.denials += content.denials;
            }
            MeshFact::Attached { .. } => {
                if let Some(fall) = scene.risen() {
                    let spread = if fall.bound_units.is_some() {
                        report.lost_early += u64::from(fall.lost);
                        &mut report.repairs_local
                    } else if fall.lost {
                        &mut report.found_again
                    } else {
                        &mut report.repairs_other
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
                        report.stretch = report.stretch.max(stretch);
                        report.waves = report.waves.max(view.label.wave());
                    }
                }
            }
            MeshFact::Lost { .. } => report.lost += 1,
            MeshFact::Up { .. } => report.link_ups += 1,
            MeshFact::Down { .. } => report.link_failures += 1,
            MeshFact::PathUp { .. } => report.path_ups += 1,
            MeshFact::PathDown { .. } => report.path_failures += 1,
            MeshFact::Requested { .. } => report.asked += 1,
            MeshFact::Reported { how, token, .. } => match how {
                Reported::Committed(_) => {
                    report.committed += 1;
                    let request = scene.book.request(token);
                    let is_far = request
                        .is_some_and(|request| !scene.are_cabled(request.from.0, request.to.0));
                    report.committed_far += u64::from(is_far);
                }
                Reported::Refused => report.refused += 1,
                Reported::NotExecuted => report.not_executed += 1,
                Reported::Restarted => {
                    report.restarted += 1;
                    let request = scene.book.request(token);
                    let is_same_incarnation = request
                        .is_some_and(|request| scene.incarnation(request.to.0) == request.to.1);
                    report.forgotten += u64::from(is_same_incarnation);
                }
            },
            MeshFact::Doubted { .. } => report.doubted += 1,
            MeshFact::Fault(MeshFault::Mend { .. } | MeshFault::Start { .. }) => {}
            MeshFact::Fault(_) => report.faults += 1,
            MeshFact::AtRest { ticks, counts, .. } => {
                report.paces_to_rest = report.paces_to_rest.max(ticks.into());
                if !std::mem::replace(&mut self.has_rested, true) {
                    let for_each = |count: u64| count as f64 / scene.shape.nodes as f64;
                    let entries = counts.iter().map(|counts| counts.tree_entries);
                    let bytes = counts.iter().map(|counts| counts.tree_bytes);
                    report.settle_rt = scene.changed_units() as f64 / ROUND_TRIP_UNITS as f64;
                    report.settle_frames_per_node = for_each(self.frames.iter().sum());
                    report.settle_adverts_per_node = for_each(report.adverts);
                    report.tree_entries_per_node = for_each(entries.sum());
                    report.tree_bytes_per_node = for_each(bytes.sum());
                }
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
        let of = |kind: FrameKind| self.frames[kind as usize];
        MeshReport {
            runs: 1,
            nodes: scene.shape.nodes as u64,
            cables: scene.shape.cables.len() as u64,
            diameter_hops: u64::from(scene.truth().diameter()),
            frames: self.frames.iter().sum(),
            keepalives: of(FrameKind::Keepalive),
            handshakes: of(FrameKind::Handshake),
            exchanges: of(FrameKind::Exchange),
            questions: of(FrameKind::Question),
            fingerprint,
            ..self.report.clone()
        }
    }
}

report! {
    /// Figures of a run, or of several together: the maximum of measurements and the sum of counts.
    MeshReport {
        /// Runs.
        runs: u64 = sum,
        /// Nodes.
        nodes: u64 = most,
        /// Cables.
        cables: u64 = most,
        /// Cables between the two nodes farthest from each other, in the final state of the mesh.
        diameter_hops: u64 = most,
        /// Round trips of a link from nothing until everything had settled.
        settle_rt: f64 = most,
        /// Frames for each node until the mesh was seen at rest for the first time.
        settle_frames_per_node: f64 = most,
        /// Adverts for each node until then.
        settle_adverts_per_node: f64 = most,
        /// Mean entries of a node in its tree tables then: one for each root, and one more for each
        /// of its ports.
        tree_entries_per_node: f64 = most,
        /// Bytes of these.
        tree_bytes_per_node: f64 = most,
        /// Ticks from the last fault until rest.
        paces_to_rest: u64 = most,
        /// Frames sent.
        frames: u64 = sum,
        /// Records in them.
        records: u64 = sum,
        /// Frames with only keepalives.
        keepalives: u64 = sum,
        /// Frames with a handshake.
        handshakes: u64 = sum,
        /// Frames with requests or answers.
        exchanges: u64 = sum,
        /// Frames with questions about exchanges of failed links, or their answers.
        questions: u64 = sum,
        /// Link ends that came up.
        link_ups: u64 = sum,
        /// Ends of links that failed.
        link_failures: u64 = sum,
        /// Faults, without repairs.
        faults: u64 = sum,
        /// Adverts of a root to a neighbor.
        adverts: u64 = sum,
        /// Requests to a neighbor to come nearer to a root.
        searches: u64 = sum,
        /// Denials of such requests.
        denials: u64 = sum,
        /// Times that a node reported a root unreachable.
        lost: u64 = sum,
        /// From the loss of a parent until the node is attached again. A cable was cut, nothing
        /// else happened, and an attached neighbor was not behind the node.
        repairs_local: Spread = both,
        /// The same for all other nodes that did not report the root unreachable.
        repairs_other: Spread = both,
        /// The same for nodes that did, until they found a route again.
        found_again: Spread = both,
        /// Number of local repairs in which the node reported the root unreachable meanwhile.
        lost_early: u64 = sum,
        /// Longest way at any rest, over the shortest one that there is.
        stretch: f64 = most,
        /// The latest wave of any root.
        waves: u64 = most,
        /// Exchanges submitted.
        asked: u64 = sum,
        /// Path ends that came up.
        path_ups: u64 = sum,
        /// Ends of paths that failed, or were given back.
        path_failures: u64 = sum,
        /// Exchanges that committed.
        committed: u64 = sum,
        /// Of these, exchanges with nodes that are not neighbors.
        committed_far: u64 = sum,
        /// Exchanges that were refused.
        refused: u64 = sum,
        /// Exchanges that were reported as not executed to an initiator that queried by name.
        not_executed: u64 = sum,
        /// Exchanges whose peer restarted.
        restarted: u64 = sum,
        /// Of these, exchanges whose peer kept running and had forgotten them.
        forgotten: u64 = sum,
        /// Exchanges that were reported in doubt.
        doubted: u64 = sum,
        /// A 64-bit mix of everything that happened.
        fingerprint: u64 = xor,
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
