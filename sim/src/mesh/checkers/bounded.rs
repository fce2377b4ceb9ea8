//! What a node keeps grows with the mesh and with nothing else.

use super::{MeshChecker, Verdict};
use crate::mesh::{fact::MeshFact, scene::MeshScene};

/// Bytes of what a node keeps of a tree, and of what each of its ports may have said of it, at most.
const TREE_BYTES: u64 = 192;
const SAID_BYTES: u64 = 40;

/// At rest a node has an entry for each root of the mesh at most, and one more for each of its ports, of so many bytes. Whatever was cut or restarted
/// before leaves nothing.
#[derive(Debug)]
pub(super) struct Bounded;

impl MeshChecker for Bounded {
    fn name(&self) -> &'static str {
        "bounded"
    }

    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        let MeshFact::AtRest { counts, .. } = fact else {
            return Ok(());
        };
        let roots = scene.shape.nodes as u64;
        for counts in *counts {
            let cables = scene.shape.cables.iter();
            let ports = cables.filter(|ends| ends.contains(&counts.node)).count() as u64;
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
