//! What is counted is what happened.

use super::{MeshChecker, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// At rest the counters of each node's links say as much as its program saw: exchanges that committed and that a restart ended, as
/// it was told, and exchanges of others that it executed. Records of
/// paths of others that were taken were passed on, or dropped because their path was over, or wait.
#[derive(Debug)]
pub(super) struct Books;

impl MeshChecker for Books {
    fn name(&self) -> &'static str {
        "books"
    }

    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let MeshFact::AtRest { counts, .. } = fact else {
            return Ok(());
        };
        for counts in *counts {
            let [committed, restarted] = scene.told(counts.node);
            let executed = scene.executed(counts.node);
            if (counts.committed, counts.forgotten, counts.executed)
                != (committed, restarted, executed)
            {
                return Err(format!(
                    "{} was told {committed} committed and {restarted} restarted and executed {executed}; its links count {counts:?}",
                    scene.shape.node_name(usize::from(counts.node))
                ));
            }
            let passed = counts.passed;
            let left = passed.passed_records + passed.dropped_records + counts.waiting_records;
            if passed.taken_records != left {
                return Err(format!(
                    "{} took {} records to be passed on, and {left} are where they should be: {passed:?}",
                    scene.shape.node_name(usize::from(counts.node)),
                    passed.taken_records
                ));
            }
        }
        Ok(())
    }
}
