//! Another node on this machine, in messages.

use std::path::Path;

use crate::Config;

/// A running `covalentd` of another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherNode {
    /// The node, its process and its socket, as far as they are known.
    pub found: String,
    /// How to end it.
    pub cure: String,
}

impl OtherNode {
    /// Describes the `covalentd` with this process id, which was started with `file`.
    #[must_use]
    pub fn of(pid: u32, file: Option<&Path>) -> Self {
        let known = file.and_then(|file| Some((file.display(), Config::load(file).ok()?)));
        match known {
            Some((file, config)) => Self {
                found: format!(
                    "node {} (covalentd, process {pid}, socket {})",
                    config.node.name,
                    config.socket_path().display()
                ),
                cure: format!("`covalent down --config {file}` ends that node"),
            },
            None => Self {
                found: format!("a node whose covalentd is process {pid}"),
                cure: "`covalent down --config FILE` with the file of that node ends it".to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_a_readable_file_has_its_process() {
        for file in [None, Some(Path::new("/nonexistent/covalent.toml"))] {
            let other = OtherNode::of(7, file);
            assert!(other.found.contains("process 7"), "{other:?}");
            assert!(other.cure.contains("covalent down --config FILE"));
        }
    }
}
