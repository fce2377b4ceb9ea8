//! Checks that the memory of a node depends on the size of the mesh and on nothing else.

use super::{Checker, Meshes, Verdict};
use crate::mesh::{
    fact::{Counts, MeshFact},
    scene::MeshScene,
};

/// Maximum bytes that a node keeps per tree, and per tree and port for a neighbor's report.
const TREE_BYTES: u64 = 192;
const NEIGHBOR_BYTES: u64 = 40;

/// Maximum records of a path that wait at a transit node, per direction: unreflected records of one
/// end, and its handshakes.
const WAITING_RECORDS: u64 = 48;

/// At rest, a node has at most one entry per root of the mesh, and one more per root for each of
/// its ports, of bounded size. Earlier cuts and restarts leave nothing behind.
#[derive(Debug)]
pub(super) struct Bounded;

impl Checker<Meshes> for Bounded {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let counts = match fact {
            MeshFact::AtRest { counts, .. } => counts,
            MeshFact::Sampled(counts) => return passes_no_more(counts, scene),
            _ => return Ok(()),
        };
        let roots = scene.lied_roots_max.unwrap_or(scene.shape.nodes as u64);
        for counts in *counts {
            let cables = scene.shape.cables.iter();
            let ports = cables.filter(|ends| ends.contains(&counts.node)).count() as u64;
            let ports = ports + u64::from(scene.lied_roots_max.is_some());
            let entries = roots * (1 + ports);
            let bytes = roots * (TREE_BYTES + ports * NEIGHBOR_BYTES);
            if counts.tree_entries > entries || counts.tree_bytes > bytes {
                return Err(format!(
                    "{} keeps {} entries of trees in {} B; {entries} in {bytes} B are the most for \
                     {roots} roots and {ports} ports",
                    scene.shape.node_name(usize::from(counts.node)),
                    counts.tree_entries,
                    counts.tree_bytes
                ));
            }
        }
        Ok(())
    }
}

fn passes_no_more(counts: &Counts, scene: &MeshScene) -> Verdict {
    let records_max = 2 * WAITING_RECORDS * counts.transits;
    if counts.transits <= counts.transits_max && counts.waiting_records <= records_max {
        return Ok(());
    }
    Err(format!(
        "{} passes on {} records on {} paths of others; it has room for {} paths",
        scene.shape.node_name(usize::from(counts.node)),
        counts.waiting_records,
        counts.transits,
        counts.transits_max
    ))
}
