//! Links of the node, if it runs: those that do not come up although somebody answers.

use covalent_api::status::NodeStatus;

use super::finding::Finding;

/// What keeps each of them from coming up. Links that are only down, or to which nobody answers, are no finding.
pub fn links(status: &NodeStatus) -> Vec<Finding> {
    let refused = status.links.iter().filter_map(|link| {
        let refusal = link.refusal.as_ref()?;
        let check = format!("link {}", link.port);
        Some(Finding::failed(check, &refusal.reason, &refusal.cure))
    });
    refused.collect()
}
