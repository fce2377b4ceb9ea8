//! The receive queue of an incarnation. It is withdrawn with the incarnation, so that members that
//! still count it are refused.

use covalent_protocol::Name;

use crate::{Error, Message, ReceiveQueue, Result};

/// Prefix of the group's name in the name of its members' receive queues.
const QUEUE_PREFIX: &str = "g.";

/// The receive queue of one incarnation; `None` once that has ended.
pub(super) struct MemberQueue<'d>(Option<ReceiveQueue<'d>>);

impl<'d> MemberQueue<'d> {
    pub(super) const fn new(queue: ReceiveQueue<'d>) -> Self {
        Self(Some(queue))
    }

    pub(super) fn recv(&mut self) -> Result<Option<Message<'_>>> {
        let Some(queue) = &mut self.0 else {
            return Ok(None);
        };
        queue.try_recv()
    }

    /// The incarnation has ended.
    pub(super) fn withdraw(&mut self) {
        if let Some(queue) = self.0.take() {
            // This fails only if the daemon is gone, and the queue with it, or is about to be.
            let _ = queue.withdraw();
        }
    }
}

impl Drop for MemberQueue<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// The name that a group's members' receive queues have.
pub(super) fn queue_name(name: Name) -> String {
    format!("{QUEUE_PREFIX}{name}")
}

/// # Errors
/// [`Error::Invalid`] if `name` is not a valid group name.
pub(super) fn group_name(name: &str) -> Result<Name> {
    let longest = Name::BYTES_MAX - QUEUE_PREFIX.len();
    let checked = Name::new(name).ok().filter(|_| name.len() <= longest);
    checked.ok_or_else(|| {
        Error::Invalid(format!(
            "group name `{name}`: expected 1 to {longest} ASCII letters, digits, `-`, `_` and `.`"
        ))
    })
}
