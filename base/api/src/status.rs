//! Status of a daemon. Every counter starts at 0 at the daemon's start and never decreases.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    agreement::{HeldBrief, PortFacts},
    guid::Guid,
    hex64::Hex64,
    pipe_kind::PipeKind,
    refusal::LinkRefusal,
};

/// Counters with their cause as key, for example `pipe_full`. Causes with a count of zero are
/// listed too.
pub type Causes = BTreeMap<String, u64>;

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct NodeStatus {
    /// Configured name.
    pub node: String,
    /// Identity, which is the address of lane 0 too.
    pub guid: Guid,
    /// Process id of the daemon.
    pub pid: u32,
    /// Nanoseconds since the daemon started.
    pub uptime_ns: u64,
    /// Resident memory of the daemon, in bytes.
    pub resident_bytes: u64,
    /// Lanes, by index.
    pub lanes: Vec<LaneStatus>,
    /// Ports, by number.
    pub ports: Vec<PortStatus>,
    /// Links, one for each port that has one.
    pub links: Vec<LinkStatus>,
    /// Knowledge of the nodes beyond the neighbors. Absent if `[fabric]` is off, and from a daemon
    /// that does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<FabricStatus>,
    /// The other known nodes, sorted by GUID. An unreachable node is removed after five seconds at
    /// the default tick.
    #[serde(default)]
    pub nodes: Vec<FarNodeStatus>,
    /// Paths that end here or that this node opened, by lane.
    #[serde(default)]
    pub paths: Vec<PathStatus>,
    /// Group memberships, as the applications of this node report them.
    #[serde(default)]
    pub groups: Vec<GroupStatus>,
    /// Pipes of every session.
    pub pipes: Vec<PipeStatus>,
    /// Registered regions.
    pub regions: Vec<RegionStatus>,
    /// Durable regions, registered now or not.
    #[serde(default)]
    pub durable_regions: Vec<DurableRegionStatus>,
    /// Verbs.
    pub verbs: VerbStatus,
    /// Current sessions: of attached applications, of applications that have not mapped their
    /// session yet, and ended sessions whose memory is not freed yet.
    pub sessions: u64,
    /// Mappings of the daemon for the sessions' memory: one for each session and each region, three
    /// for each pipe, until they are freed.
    #[serde(default)]
    pub mappings: u64,
    /// Upper limit of these mappings: seven eighths of the system's `vm.max_map_count`. One user
    /// other than root and the daemon's own may use a quarter of that setting, and all such users
    /// together three quarters.
    #[serde(default)]
    pub mappings_max: u64,
    /// Sessions detached so far, by reason class: `closed`, `process_ended`, `violation`.
    pub sessions_detached: Causes,
    /// Sessions detached for a violation, by the violation: `misaligned`, `out_of_range`,
    /// `packet_length`, `mark`, `pipe_number`, `mailbox_full`.
    #[serde(default)]
    pub violations: Causes,
    /// Resources reclaimed from ended sessions, by the reason class of their end.
    #[serde(default)]
    pub reclaimed: ReclaimedStatus,
    /// Socket peers refused so far, by cause: `credentials`, `version`, `bad_message`, `no_hello`,
    /// `too_many`.
    #[serde(default)]
    pub peers_refused: Causes,
    /// Events that the daemon raised so far.
    pub events: u64,
    /// Pipes, regions, groups and nodes omitted from this reply so that it fits into one datagram.
    /// Nothing else is ever omitted.
    #[serde(default)]
    pub omitted: u64,
    /// The configuration in force.
    #[serde(default)]
    pub config: ConfigStatus,
}

/// The configuration in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct ConfigStatus {
    /// Which.
    pub held: HeldBrief,
    /// State of a change to another configuration, if one is in flight.
    pub under_way: Option<String>,
}

impl NodeStatus {
    /// Omits as many of the last nodes, pipes and regions as needed for
    /// [`Reply::Status`](crate::request::Reply::Status) to fit into
    /// [`MAX_DATAGRAM_BYTES`](crate::MAX_DATAGRAM_BYTES), and counts them in
    /// [`NodeStatus::omitted`]. Nodes are omitted first, down to 64. Pipes, regions, groups and the
    /// remaining nodes follow, and durable regions are last.
    pub fn fit(&mut self) {
        // The nodes of a rack; few enough to leave most of the space to other entries.
        const NODES_KEPT: usize = 64;
        // Size of the envelope and of a longer `omitted`, beyond the parts measured here.
        const ENVELOPE_BYTES: usize = 64;
        let length =
            |status: &Self| serde_json::to_vec(status).map_or(usize::MAX, |bytes| bytes.len());
        let mut excess = (length(self) + ENVELOPE_BYTES).saturating_sub(crate::MAX_DATAGRAM_BYTES);
        self.omitted += drop_last(&mut self.nodes, NODES_KEPT, &mut excess)
            + drop_last(&mut self.pipes, 0, &mut excess)
            + drop_last(&mut self.regions, 0, &mut excess)
            + drop_last(&mut self.groups, 0, &mut excess)
            + drop_last(&mut self.nodes, 0, &mut excess)
            + drop_last(&mut self.durable_regions, 0, &mut excess);
    }
}

/// Drops entries from the end until `excess` bytes of JSON are gone or `kept` entries are left.
/// Returns the number of dropped entries.
fn drop_last<T: Serialize>(list: &mut Vec<T>, kept: usize, excess: &mut usize) -> u64 {
    let mut dropped = 0;
    while *excess > 0
        && list.len() > kept
        && let Some(entry) = list.pop()
    {
        let bytes = serde_json::to_vec(&entry).map_or(0, |bytes| bytes.len());
        *excess = excess.saturating_sub(bytes + 1);
        dropped += 1;
    }
    dropped
}

/// Resources reclaimed from ended applications, by the reason class of their end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct ReclaimedStatus {
    /// Pipes.
    pub pipes: Causes,
    /// Bindings: steering rules of the lane, and of the kernel below.
    pub bindings: Causes,
    /// Regions.
    pub regions: Causes,
    /// Verbs in flight to other nodes. They complete there, and no application is notified.
    pub verbs: Causes,
    /// Shared memory that was charged to the sessions, in bytes.
    pub memory_bytes: Causes,
}

/// One lane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct LaneStatus {
    /// Index.
    pub lane: u32,
    /// Address at which verbs of other nodes reach its regions: the node's GUID plus the index.
    /// Absent from a daemon that does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Guid>,
    /// The core that it is pinned to; `None` if it floats.
    pub core: Option<u32>,
    /// `poll`, `adaptive` or `interrupt`.
    pub idle: String,
    /// Times round the loop.
    pub loops: u64,
    /// Of those, rounds that found work.
    pub busy_loops: u64,
    /// Times that the lane slept.
    pub sleeps: u64,
    /// CPU time of the lane's thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Longest round that found work, in nanoseconds: the longest wait of frames, links and other
    /// applications. It includes time in which the system ran other threads on the lane's core.
    #[serde(default)]
    pub longest_round_ns: u64,
    /// Time in rounds that found work, in nanoseconds, including time of other threads as above. 0
    /// from a daemon that does not report it.
    #[serde(default)]
    pub busy_ns: u64,
    /// Its journal, if it keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalStatus>,
}

/// The journal of a lane, which stores its durable regions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct JournalStatus {
    /// Number of the last appended record, counted over all generations of the journal.
    pub appended: u64,
    /// Number of the last record that is on disk with all before it.
    pub durable: u64,
    /// Durable regions.
    pub regions: u64,
    /// Of those, regions that no application has registered again since the start or since their
    /// owner left.
    pub kept: u64,
    /// Their size together, in bytes.
    pub region_bytes: u64,
    /// Verbs of this node that were executed and wait for the disk.
    pub held: u64,
    /// Verbs of other nodes refused because the journal was full or had failed.
    pub refused: u64,
    /// How often a write or a sync was sent again because the kernel lacked means. Left out while
    /// it is zero: version 5 has no such field.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retried: u64,
    /// Why nothing is acknowledged on durable regions any more, if so.
    pub failure: Option<String>,
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct PortStatus {
    /// Configured name.
    pub name: String,
    /// Number of the port, which neighbors see as the peer's port. It is constant while the daemon
    /// runs.
    #[serde(default)]
    pub number: u16,
    /// `af_xdp`, `cable`, `dpdk` or `pcap`; `lane` for an end of an in-memory cable between two
    /// lanes.
    pub kind: String,
    /// Network interface, where there is one.
    pub interface: Option<String>,
    /// Reason why the port has no device, and how to resolve it. Absent while it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// State of its interface when the port was opened. Absent for a port without an interface or
    /// without a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<PortFacts>,
    /// The lane that owns it.
    pub lane: u32,
    /// Whether it has a carrier and is enabled.
    pub carrier: bool,
    /// The mode in effect, read back and not assumed.
    pub mode: PortMode,
    /// Longest frame, in bytes without FCS.
    pub frame_bytes_max: u32,
    /// Frames received by the dataplane.
    pub rx_packets: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Frames given to the wire.
    pub tx_packets: u64,
    /// Their bytes, without FCS.
    pub tx_bytes: u64,
    /// Frames that the XDP program passed to the kernel; 0 where there is no program.
    pub passed_to_kernel_packets: u64,
    /// Frames dropped, by cause.
    pub drops: Causes,
    /// Frames refused at a TX pipe of this port, by cause. The application was notified. On
    /// `pipe_full` it may have waited or retried.
    pub refusals: Causes,
    /// Faults that `[port.faults]` injected into its frames; empty for a port without faults. Lost
    /// frames are also counted in the drops, as `fault_injected`.
    #[serde(default, skip_serializing_if = "Causes::is_empty")]
    pub faults: Causes,
    /// Counters of the port's device, by its driver's names; empty if the device has none. At most
    /// [`DEVICE_COUNTS_MAX`].
    #[serde(default, skip_serializing_if = "Causes::is_empty")]
    pub device_counts: Causes,
    /// Notifications from the device, by event; empty for a port whose device sends none.
    #[serde(default, skip_serializing_if = "Causes::is_empty")]
    pub device_events: Causes,
    /// Kernel counters of the port's AF_XDP sockets, by the kernel's names (`XDP_STATISTICS`),
    /// summed over all queues. Empty for ports of other kinds.
    #[serde(default, skip_serializing_if = "Causes::is_empty")]
    pub xdp_counts: Causes,
    /// Frames that it can accept for transmission now. 0 from a daemon that does not report it.
    #[serde(default)]
    pub tx_room_frames: u64,
}

/// Maximum number of reported counters of one device: some devices have thousands, and a status is
/// one datagram.
pub const DEVICE_COUNTS_MAX: usize = 64;

/// How a port moves frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct PortMode {
    /// `native`, `generic`, or `none` where no XDP program is attached.
    pub xdp: String,
    /// Whether the NIC writes directly into the daemon's memory. `false`: the kernel copies each
    /// frame.
    pub zero_copy: bool,
    /// Whether the kernel requests wakeups, so the daemon need not kick it each time.
    pub need_wakeup: bool,
    /// Page size of the packet memory, in bytes.
    pub page_bytes: u64,
    /// Receive queues in use.
    pub queues: u32,
}

/// One link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct LinkStatus {
    /// Name of its port.
    pub port: String,
    /// `down`, `init` or `up`.
    pub state: String,
    /// The neighbor, once known: the address of a lane of it. While the link is not up, the last
    /// one.
    pub peer: Option<Guid>,
    /// The name of this neighbor. Includes the number of its lane (`NAME.1`) if that is not
    /// lane 0.
    pub peer_name: Option<String>,
    /// The neighbor's number of its port, once known.
    pub peer_port: Option<u16>,
    /// Reason why the link stays in `init` although the other end answers, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<LinkRefusal>,
    /// Epoch in force.
    pub epoch: u32,
    /// Slots with an open exchange that this side started.
    pub open_transactions: u32,
    /// Number of times the link came up.
    pub ups: u64,
    /// Times that it failed, by cause.
    pub failures: Causes,
    /// Frames that it passed to its port, of every kind: exchanges, tree and path messages,
    /// keepalives, handshakes. 0 from a daemon that does not report it.
    #[serde(default)]
    pub tx_frames: u64,
    /// Intact frames received, of every kind. 0 from a daemon that does not report it.
    #[serde(default)]
    pub rx_frames: u64,
    /// Records sent.
    pub tx_records: u64,
    /// Records accepted.
    pub rx_records: u64,
    /// Frames or records dropped, by cause. Includes stale epochs after a re-initialization.
    pub drops: Causes,
    /// Exchanges of this side that committed at the other.
    pub committed: u64,
    /// Exchanges of this side that were refused by the other.
    pub refused: u64,
    /// Exchanges of this side that were reversed and applied again.
    pub reversed: u64,
    /// Exchanges of this side whose outcome was learned by a query after a failure.
    pub resolved: u64,
    /// Of the reversed exchanges, those that the other side had never seen. This field and those
    /// below are 0 from a daemon that does not report them.
    #[serde(default)]
    pub never_seen: u64,
    /// Queries about exchanges with other nodes that the neighbor relayed for this side and
    /// returned a reply to.
    #[serde(default)]
    pub relayed: u64,
    /// Questions of the neighbor that this side passed on to other nodes.
    #[serde(default)]
    pub relays_passed: u64,
    /// Exchanges of the other side that this side executed.
    pub executed: u64,
    /// How long the last failure delayed exchanges, in nanoseconds: from the failure, or from
    /// the first exchange after it if none waited, to the first completed one on any link to
    /// the same neighbor. `None` until a failure delays an exchange.
    pub last_failover_ns: Option<u64>,
    /// Records that may be in flight without a reflection: the credit that the neighbor issued.
    /// This field and those below are 0 from a daemon that does not report them.
    #[serde(default)]
    pub credit_records: u32,
    /// Of those, the records in flight.
    #[serde(default)]
    pub unreflected_records: u32,
    /// Ticks since the last received frame, while the link is up.
    #[serde(default)]
    #[serde(rename = "silent_paces")]
    pub keepalive_misses: u32,
    /// How long words and their reflections took.
    #[serde(default)]
    pub round_trips: RoundTrips,
}

/// Upper bounds of the counts in [`RoundTrips`], in nanoseconds.
pub const ROUND_TRIP_BOUNDS_NS: [u64; 15] = [
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];

/// Round trips of a link, from a ping to its reflection. They include the loop time of the lanes at
/// both ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct RoundTrips {
    /// How many were measured.
    pub count: u64,
    /// Their total duration, in nanoseconds.
    pub sum_ns: u64,
    /// Cumulative counts of round trips not longer than each of [`ROUND_TRIP_BOUNDS_NS`]. Each
    /// count includes the one before it.
    pub within: Vec<u64>,
}

/// A node's knowledge of the nodes beyond its neighbors, from its lane 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct FabricStatus {
    /// Other nodes that are reached.
    pub reached: u64,
    /// Other nodes that are known and cannot be reached, until they are forgotten.
    pub lost: u64,
    /// Largest number of cables between this node and a reachable node. An in-memory cable between
    /// two lanes counts.
    pub hops_max: u64,
    /// Replacements of the path to a node, by type: `at_once` (another neighbor was nearer),
    /// `sought` (a neighbor came nearer), `after_loss` (there was no path in the meantime).
    pub repairs: Causes,
    /// Times that there was no way to a node any more.
    pub losses: u64,
    /// Times that a shorter way was taken.
    pub shortened: u64,
    /// Times that this node began its tree anew.
    pub waves: u64,
    /// Events of paths on all lanes, by type. `opened` and `refused` count paths that this node
    /// requested. `accepted` counts paths that others requested and that end here. `joined` and
    /// `declined` count paths of others that were to lead through this node.
    #[serde(default)]
    pub paths: Causes,
    /// Paths of others that lead through this node now.
    #[serde(default)]
    pub transits: u64,
    /// Records of others that were passed on.
    #[serde(default)]
    pub passed_records: u64,
    /// Records of other nodes that were dropped because their path was closed. The two ends resolve
    /// the affected exchanges.
    #[serde(default)]
    pub dropped_records: u64,
}

/// A path to a node beyond the neighbors that ends here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct PathStatus {
    /// The lane at which it ends.
    pub lane: u32,
    /// The address of the lane at the other end.
    pub far: Guid,
    /// The name of the node there, once it is known.
    pub far_name: Option<String>,
    /// Whether this node requested the path.
    pub opener: bool,
    /// `down` while it is being reserved, then `init`, `up`.
    pub state: String,
    /// Slots with an open exchange that this side started.
    pub open_transactions: u32,
}

/// Another node, however many cables away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct FarNodeStatus {
    /// Its GUID.
    pub guid: Guid,
    /// Its name, once it is known.
    pub name: Option<String>,
    /// `reached`; `seeking`: the path was lost a moment ago, and neighbors are being queried;
    /// `lost`: no neighbor knows a path.
    pub standing: String,
    /// Cables between this node and that node, if it is reachable. An in-memory cable between two
    /// lanes counts.
    pub hops: Option<u16>,
    /// Name of the port over which the way leads, if it is reached.
    pub port: Option<String>,
}

/// One pipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct PipeStatus {
    /// The session that owns it.
    pub session: u64,
    /// Number in that session.
    pub pipe: u32,
    /// The name that its program gave itself. Absent from a daemon that does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Name of the port on which it sends, or from which alone it receives. Absent for a pipe of
    /// verbs, for one that receives from all ports of its lane, and from a daemon that does not
    /// report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Direction and content.
    pub kind: PipeKind,
    /// Ring size in bytes.
    pub capacity_bytes: u64,
    /// Page size of the ring, in bytes: 4096 or 2097152; 0 from a daemon that does not report it.
    #[serde(default)]
    pub page_bytes: u64,
    /// Packets written for the application.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets taken from the application.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Notifications sent to the application.
    pub notifications_sent: u64,
    /// Arrivals that needed none, because one was outstanding.
    pub notifications_suppressed: u64,
    /// Doorbells answered: the application moved its head, or its transmit tail.
    #[serde(default)]
    pub head_updates: u64,
    /// Packets of an RX/TX pipe that the application gave back unsent.
    #[serde(default)]
    pub tx_discarded_packets: u64,
    /// Packets too short for the stamp that the application requested.
    #[serde(default)]
    pub unstamped_packets: u64,
    /// Packets of the application that found its TX pipe full. The application was notified, or
    /// waited.
    #[serde(default)]
    pub tx_full_packets: u64,
    /// Used bytes of the ring: bytes delivered to the application and not returned. In a TX pipe:
    /// bytes submitted and not taken yet.
    #[serde(default)]
    pub used_bytes: u64,
    /// Packets dropped, by cause.
    pub drops: Causes,
    /// Frames lost since it was opened by the ports from which it receives, before their pipe was
    /// known. Each pipe of such a port shows all of them.
    #[serde(default)]
    pub port_lost_packets: u64,
}

/// One region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct RegionStatus {
    /// Name on the node.
    pub name: String,
    /// Its key.
    pub rkey: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The session that owns it.
    pub session: u64,
}

/// One application's membership in a group, as its library reports it, some milliseconds old. A
/// group runs in its members' libraries. The daemon passes on the contents of their memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct GroupStatus {
    /// The group's name.
    pub group: String,
    /// The session of the member.
    pub session: u64,
    /// Which group: two that were founded under one name have different ones; 0 without a view.
    pub id: Hex64,
    /// The incarnation, by which other members identify this one.
    pub stay: Hex64,
    /// `seeking`: without a view; `member`: delivers; `changing`: its view is being replaced;
    /// `minority`: the same, without a reachable quorum; `stopped`: permanently out; `left`.
    pub standing: String,
    /// Number of the view that it is in; 0: none.
    pub view: u64,
    /// Nodes of the view's members, by rank: the first one is the oldest.
    pub members: Vec<Guid>,
    /// How many of them count towards a quorum.
    pub voters: u32,
    /// Views begun.
    pub views: u64,
    /// Messages that the application gave.
    pub multicasts: u64,
    /// Messages delivered.
    pub deliveries: u64,
    /// Envelopes: `sent`, `resent` (of those), `taken`, `duplicate`, `dropped`, `unproven` (of
    /// those).
    pub envelopes: Causes,
}

/// One durable region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct DurableRegionStatus {
    /// Name on the node.
    pub name: String,
    /// The user that owns the region.
    pub uid: u32,
    /// The lane that it belongs to: the one on which it was registered first.
    pub lane: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The session that has it registered; `None` while it waits for its owner.
    pub session: Option<u64>,
}

/// Verbs of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct VerbStatus {
    /// Requests taken from local applications.
    pub submitted: u64,
    /// Of those, completed.
    pub completed: u64,
    /// Of those, waiting for a path to learn their outcome.
    pub in_doubt: u64,
    /// Executed here, by verb.
    pub executed: Causes,
    /// Refused here, by reason.
    pub refused: Causes,
}
