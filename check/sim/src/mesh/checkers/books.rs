//! Checks that counters match events.

use super::{Checker, Meshes, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// At rest, the counters of each node's links match what its program observed: exchanges reported
/// committed, exchanges that a restart ended, and executed exchanges of others. Every record taken
/// for a path of others was forwarded, or dropped because the path was closed, or waits.
#[derive(Debug)]
pub(super) struct Books;

impl Checker<Meshes> for Books {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let MeshFact::AtRest { counts, .. } = fact else {
            return Ok(());
        };
        for counts in *counts {
            let [committed, restarted] = scene.reported(counts.node);
            let executed = scene.executed(counts.node);
            if (counts.committed, counts.forgotten, counts.executed)
                != (committed, restarted, executed)
            {
                return Err(format!(
                    "{} was notified of {committed} committed and {restarted} restarted, and \
                     executed {executed}; its links count {counts:?}",
                    scene.shape.node_name(usize::from(counts.node))
                ));
            }
            let passed = counts.passed;
            let left = passed.passed_records + passed.dropped_records + counts.waiting_records;
            if passed.taken_records != left {
                return Err(format!(
                    "{} took {} records to be passed on, and {left} are where they should be: \
                     {passed:?}",
                    scene.shape.node_name(usize::from(counts.node)),
                    passed.taken_records
                ));
            }
        }
        Ok(())
    }
}
