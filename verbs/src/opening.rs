//! What a device opens: pipes, queues, groups. It has no state of its own.

use crate::{
    bytes::BytePipe,
    device::Device,
    error::Result,
    group::{Group, GroupBuilder, GroupOptions},
    notice::Notice,
    queue::Verbs,
    receive::ReceiveQueue,
    rx::RxPipe,
    rx_tx::RxTxPipe,
    tx::TxPipe,
};

#[cfg(doc)]
use crate::error::Error;

impl Device {
    /// Opens a pipe that receives from every port of the lane. It receives nothing until it is
    /// bound. `capacity_bytes` is a power of two, 64 KiB to 1 GiB. The default
    /// `dataplane.session_memory_max_mib` allows 128 MiB.
    ///
    /// # Errors
    /// [`Error::Refused`] (for example by the session's memory limit), [`Error::DaemonGone`],
    /// [`Error::Deadline`], [`Error::System`].
    pub fn rx_pipe(&self, capacity_bytes: u64) -> Result<RxPipe<'_>> {
        RxPipe::open(self, capacity_bytes, None)
    }

    /// As [`Device::rx_pipe`], for the packets that arrive on one port.
    ///
    /// # Errors
    /// As [`Device::rx_pipe`]. [`Error::UnknownPort`] if the node has no such port,
    /// [`Error::Refused`] if another lane owns it.
    pub fn rx_pipe_on(&self, capacity_bytes: u64, port: &str) -> Result<RxPipe<'_>> {
        RxPipe::open(self, capacity_bytes, Some(port))
    }

    /// Opens a pipe that receives the payloads of UDP datagrams, without gaps, from every port of
    /// the lane. It receives nothing until it is bound.
    ///
    /// # Errors
    /// As [`Device::rx_pipe`].
    pub fn byte_pipe(&self, capacity_bytes: u64) -> Result<BytePipe<'_>> {
        BytePipe::open(self, capacity_bytes, None)
    }

    /// As [`Device::byte_pipe`], for the datagrams that arrive on one port.
    ///
    /// # Errors
    /// As [`Device::rx_pipe_on`].
    pub fn byte_pipe_on(&self, capacity_bytes: u64, port: &str) -> Result<BytePipe<'_>> {
        BytePipe::open(self, capacity_bytes, Some(port))
    }

    /// Opens a pipe that sends on a port.
    ///
    /// # Errors
    /// As [`Device::rx_pipe_on`].
    pub fn tx_pipe(&self, capacity_bytes: u64, port: &str) -> Result<TxPipe<'_>> {
        TxPipe::open(self, capacity_bytes, port)
    }

    /// Opens a pipe that receives packets from a port and sends them back on it in place, without a
    /// copy by the application. The lane copies them to the port.
    ///
    /// # Errors
    /// As [`Device::rx_pipe_on`].
    pub fn rx_tx_pipe(&self, capacity_bytes: u64, port: &str) -> Result<RxTxPipe<'_>> {
        RxTxPipe::open(self, capacity_bytes, port)
    }

    /// Registers a queue for messages from this and other nodes, under a name that is unique on the
    /// node (1 to 32 bytes). It stays registered until the device is dropped. It is one of the
    /// session's 64 regions.
    ///
    /// `capacity_bytes` limits the messages that wait together. It is a multiple of 8,
    /// [`RECEIVE_QUEUE_BYTES_MIN`](crate::RECEIVE_QUEUE_BYTES_MIN) to 1 GiB less 128 bytes. Each
    /// message takes 32 bytes more than its length, rounded up to a multiple of 8.
    ///
    /// # Errors
    /// As [`Device::register_region`].
    pub fn receive_queue(&self, name: &str, capacity_bytes: u64) -> Result<ReceiveQueue<'_>> {
        ReceiveQueue::open(self, name, capacity_bytes)
    }

    /// Opens a verb queue with room for [`VERBS_DEPTH`](crate::VERBS_DEPTH) verbs in flight. A
    /// device may have several. Each has completions of its own, and verbs that wait for an
    /// unreachable node do not hold up those of another queue. The queues of a device together have
    /// at most 512 verbs in flight at other nodes, and one of several at most 256. Further verbs
    /// wait in their queues.
    ///
    /// # Errors
    /// [`Error::Refused`] if the session has as many pipes as the configuration allows: a queue is
    /// two pipes. [`Error::DaemonGone`], [`Error::Deadline`], [`Error::System`].
    pub fn verbs(&self) -> Result<Verbs<'_>> {
        self.verbs_with_depth(crate::VERBS_DEPTH)
    }

    /// As [`Device::verbs`], with room for `depth` verbs in flight, 1 to
    /// [`VERBS_DEPTH_MAX`](crate::VERBS_DEPTH_MAX).
    ///
    /// # Errors
    /// As [`Device::verbs`]. [`Error::Invalid`] for another depth.
    pub fn verbs_with_depth(&self, depth: u32) -> Result<Verbs<'_>> {
        Verbs::open(self, depth)
    }

    /// Opens a notice, with which the program publishes words about itself. It is empty at first.
    /// Does not block.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this device has [`NOTICES_MAX`](crate::NOTICES_MAX) notices. Each of
    /// its groups has one of them. [`Error::Forked`].
    pub fn notice(&self) -> Result<Notice<'_>> {
        Notice::open(self)
    }

    /// Joins the group `name` as a new incarnation, or founds it with others if
    /// [`GroupOptions::founders`] is set. The name is 1 to 30 ASCII letters, digits, `-`, `_` and
    /// `.`. Returns at once. The first [`GroupEvent::View`](crate::GroupEvent::View) reports that
    /// this member is in the group.
    ///
    /// The device finds members by the name of their receive queues, `g.NAME`, first at the node's
    /// neighbors. The group has a verb queue of its own.
    ///
    /// # Errors
    /// - [`Error::Refused`] if an application of this node is in the group already (the name is
    ///   taken).
    /// - [`Error::Invalid`] for an invalid name or invalid options, and for more than
    ///   [`GROUPS_MAX`](crate::GROUPS_MAX) groups, [notices](Device::notice) included.
    /// - Otherwise as [`Device::receive_queue`].
    pub fn group(&self, name: &str, options: GroupOptions) -> Result<Group<'_>> {
        GroupBuilder::take(self, name, options)?.join()
    }

    /// Takes a seat in the group `name`. All its members start the group together and know each
    /// other's contacts: see [`GroupBuilder::begin`]. Otherwise as [`Device::group`].
    ///
    /// # Errors
    /// As [`Device::group`].
    pub fn group_builder(&self, name: &str, options: GroupOptions) -> Result<GroupBuilder<'_>> {
        GroupBuilder::take(self, name, options)
    }
}
