//! What a node keeps grows with the mesh and with nothing else.

use super::{MeshChecker, Verdict};
use crate::mesh::{
    fact::{Counts, MeshFact},
    scene::MeshScene,
};

/// Bytes of what a node keeps of a tree, and of what each of its ports may have said of it, at most.
const TREE_BYTES: u64 = 192;
const SAID_BYTES: u64 = 40;

/// Records of a path that may wait at a node between, in each direction: what one end may have said that is not reflected, and its handshakes.
const WAITING_RECORDS: u64 = 48;

/// At rest a node has an entry for each root of the mesh at most, and one more for each of its ports, of so many bytes. Whatever was cut or restarted
/// before leaves nothing.
#[derive(Debug)]
pub(super) struct Bounded;

impl MeshChecker for Bounded {
    fn name(&self) -> &'static str {
        "bounded"
    }

    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let counts = match fact {
            MeshFact::AtRest { counts, .. } => counts,
            MeshFact::Looked(counts) => return passes_no_more(counts, scene),
            _ => return Ok(()),
        };
        let roots = scene.lied_roots_max.unwrap_or(scene.shape.nodes as u64);
        for counts in *counts {
            let cables = scene.shape.cables.iter();
            let ports = cables.filter(|ends| ends.contains(&counts.node)).count() as u64;
            let ports = ports + u64::from(scene.lied_roots_max.is_some());
            let entries = roots * (1 + ports);
            let bytes = roots * (TREE_BYTES + ports * SAID_BYTES);
            if counts.tree_entries > entries || counts.tree_bytes > bytes {
                return Err(format!(
                    "{} keeps {} entries of trees in {} B; {entries} in {bytes} B are the most for {roots} roots and {ports} ports",
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
