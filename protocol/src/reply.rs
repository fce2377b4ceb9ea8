//! A bounded reply.

use alloc::{boxed::Box, vec};
use core::fmt;

use crate::{Moment, wire::MAX_PAYLOAD_BYTES};

/// The reply to an executed request, kept until the initiator's slot advances. Its length is
/// bounded by the limits of both ends:
/// [`NodeConfig::message_bytes_max`](crate::NodeConfig::message_bytes_max).
#[derive(Clone)]
pub struct Reply {
    bytes: Box<[u8]>,
    len: usize,
    /// Most bytes of the reply that is being written.
    limit: usize,
    moment: Moment,
}

impl Reply {
    /// An empty reply with capacity for [`MAX_PAYLOAD_BYTES`] bytes. Allocates: keep it and
    /// [`Reply::clear`] it.
    #[must_use]
    pub fn new() -> Self {
        Self::with_room(MAX_PAYLOAD_BYTES)
    }

    /// An empty reply with capacity for `bytes_max` bytes. Allocates them.
    #[must_use]
    pub fn with_room(bytes_max: usize) -> Self {
        Self {
            bytes: vec![0; bytes_max].into_boxed_slice(),
            len: 0,
            limit: bytes_max,
            moment: Moment::default(),
        }
    }

    /// Makes it empty.
    #[inline]
    pub fn clear(&mut self) {
        self.begin(self.bytes.len(), Moment::default());
    }

    /// Resets it to an empty reply for an execution by the caller itself at `moment`, from
    /// [`Node::execute_here`](crate::Node::execute_here).
    #[inline]
    pub fn clear_at(&mut self, moment: Moment) {
        self.begin(self.bytes.len(), moment);
    }

    /// Resets it to an empty reply for an execution at `moment`, with a limit of `bytes_max` bytes.
    #[inline]
    pub(crate) fn begin(&mut self, bytes_max: usize, moment: Moment) {
        self.len = 0;
        self.limit = bytes_max.min(self.bytes.len());
        self.moment = moment;
    }

    /// The moment at which the request is executed.
    #[inline]
    #[must_use]
    pub const fn moment(&self) -> Moment {
        self.moment
    }

    /// Calls `change` on the content.
    #[inline]
    pub(crate) fn amend(&mut self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.bytes[..self.len]);
    }

    /// Replaces the content by the bytes that `write` puts into the buffer; `write` returns the
    /// length. A length beyond the buffer is truncated to it.
    #[inline]
    pub fn write_with(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        self.len = write(&mut self.bytes[..self.limit]).min(self.limit);
    }

    /// Replaces the content by `bytes`. Returns `false`, and keeps the content, when `bytes` is
    /// longer than a reply to this request may be.
    #[inline]
    #[must_use]
    pub fn set(&mut self, bytes: &[u8]) -> bool {
        let Some(space) = self.bytes[..self.limit].get_mut(..bytes.len()) else {
            return false;
        };
        space.copy_from_slice(bytes);
        self.len = bytes.len();
        true
    }

    /// The content.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reply").field(&self.as_bytes()).finish()
    }
}
