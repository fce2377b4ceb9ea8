//! `covalent_remote_region`.

use covalent::{Guid, RemoteRegion};

use crate::{
    argument::value,
    region::{rights_bits, rights_from_bits},
    status::Result,
};

/// A region of some node, as verbs name it. It is plain data that may be copied, stored and used on
/// any thread. Numbers are in the machine's byte order. covalent_verb_queue_open_region fills it,
/// or the application does, from a key that it received by other means. The node that executes a
/// verb checks key, bounds and rights each time.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_remote_region {
    /// The node that has it; 0 for the own node.
    pub node_guid: u64,
    /// Size in bytes when the region was opened.
    pub size_bytes: u64,
    /// The key that verbs show.
    pub rkey: u32,
    /// Rights that it granted when it was opened, a sum of COVALENT_RIGHT_….
    pub rights: u32,
}

impl From<RemoteRegion> for covalent_remote_region {
    fn from(region: RemoteRegion) -> Self {
        Self {
            node_guid: region.node().map_or(0, Guid::bits),
            size_bytes: region.size_bytes(),
            rkey: region.rkey(),
            rights: rights_bits(region.rights()),
        }
    }
}

/// The region that C means.
///
/// # Safety
/// A pointer that is not null points to a region.
pub(crate) unsafe fn remote(region: *const covalent_remote_region) -> Result<RemoteRegion> {
    // SAFETY: the caller's word.
    let region = unsafe { value(region, "region")? };
    let rights = rights_from_bits(region.rights);
    Ok(RemoteRegion::from_key(
        Guid::new(region.node_guid),
        region.rkey,
        region.size_bytes,
        rights,
    ))
}
