//! Regions as verbs name them.

use covalent_api::{guid::Guid, request::Rights};

/// A region of some node, as verbs name it: the node, the key, and the node's description of the
/// region.
///
/// [`Verbs::open_region`](crate::Verbs::open_region) or a completed
/// [lookup](crate::Verbs::post_lookup) returns it, or the application creates it from a key that it
/// received by other means. It is only a name: the node that executes a verb checks
/// key, bounds and rights each time. It is plain data: any thread may use it, on any device
/// attached to the same node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteRegion {
    /// As on the wire: 0 is the own node.
    target: u64,
    rkey: u32,
    size_bytes: u64,
    rights: Rights,
}

impl RemoteRegion {
    /// Creates a region from a key that was received by other means. `node` is `None` for the local
    /// node. Size and rights are the caller's assumptions, for its own use.
    #[must_use]
    pub fn from_key(node: Option<Guid>, rkey: u32, size_bytes: u64, rights: Rights) -> Self {
        Self {
            target: node.map_or(0, Guid::bits),
            rkey,
            size_bytes,
            rights,
        }
    }

    /// The node that has it; `None` for the own node.
    #[must_use]
    pub const fn node(&self) -> Option<Guid> {
        Guid::new(self.target)
    }

    /// The key that verbs show.
    #[must_use]
    pub const fn rkey(&self) -> u32 {
        self.rkey
    }

    /// Returns the size in bytes when the region was opened.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the rights that the region granted when it was opened.
    #[must_use]
    pub const fn rights(&self) -> Rights {
        self.rights
    }

    pub(crate) const fn target(&self) -> u64 {
        self.target
    }
}
