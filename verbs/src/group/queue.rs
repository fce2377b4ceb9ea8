//! The receive queue of an incarnation. It is withdrawn with the incarnation, so that members that
//! still count it are refused.

use covalent_protocol::Name;

use crate::{
    device::Device,
    error::{Error, Result},
    receive::{Message, ReceiveQueue},
};

/// Prefix of the group's name in the name of its members' receive queues.
const QUEUE_PREFIX: &str = "g.";

/// The receive queue of one incarnation.
pub(super) struct MemberQueue<'d> {
    device: &'d Device,
    queue: ReceiveQueue<'d>,
}

impl<'d> MemberQueue<'d> {
    pub(super) fn open(device: &'d Device, name: &str, capacity_bytes: u64) -> Result<Self> {
        let queue = device.receive_queue(name, capacity_bytes)?;
        Ok(Self { device, queue })
    }

    pub(super) const fn rkey(&self) -> u32 {
        self.queue.rkey()
    }

    pub(super) fn recv(&mut self) -> Result<Option<Message<'_>>> {
        self.queue.try_recv()
    }
}

impl Drop for MemberQueue<'_> {
    fn drop(&mut self) {
        self.device.withdraw(self.queue.rkey());
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
