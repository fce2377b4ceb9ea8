//! The types by which a program of version 5 reads messages. Frozen: they never change.
#![allow(dead_code, reason = "fields that are read need not be used")]

use std::collections::BTreeMap;

use serde::Deserialize;

type Causes = BTreeMap<String, u64>;

#[derive(Debug, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Hello {
        version: u32,
        program: String,
    },
    OpenSession {
        lane: u32,
    },
    OpenPipe {
        kind: PipeKind,
        capacity_bytes: u64,
        port: Option<String>,
    },
    OpenPipeAgain {
        pipe: u32,
        kind: PipeKind,
        capacity_bytes: u64,
        port: Option<String>,
    },
    Mapped,
    ClosePipe {
        pipe: u32,
    },
    Bind {
        pipe: u32,
        matches: Match,
        #[serde(default)]
        spread: Option<Spread>,
    },
    Unbind {
        pipe: u32,
        matches: Match,
    },
    TunePipe {
        pipe: u32,
        tuning: Tuning,
    },
    Tap {
        pipe: u32,
        frames: TapFrames,
        snap_bytes: u32,
    },
    RegisterRegion {
        name: String,
        size_bytes: u64,
        rights: Rights,
        #[serde(default)]
        durable: bool,
    },
    RegisterRegionAgain {
        rkey: u32,
        seal: String,
        name: String,
        size_bytes: u64,
        rights: Rights,
        #[serde(default)]
        durable: bool,
    },
    WithdrawRegion {
        rkey: u32,
    },
    DeleteRegion {
        name: String,
    },
    Status,
    Subscribe,
    Events {
        from: u64,
    },
    SetPort {
        port: String,
        enabled: bool,
    },
    SetFaults {
        port: String,
        rx: Faults,
        tx: Faults,
    },
    Agreement,
    AgreedText {
        from_bytes: u64,
    },
    Draft {
        from_bytes: u64,
        text: String,
    },
    Offer {
        epoch: u64,
        believes: Held,
        digest: String,
        #[serde(default)]
        reopen: Vec<String>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipeKind {
    Rx,
    Tx,
    RxTx,
    RxBytes,
    VerbSubmit,
    VerbComplete,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    Hash,
    RoundRobin,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapFrames {
    All,
    Links,
    Data,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    Tcp,
    Udp,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "match", rename_all = "snake_case", deny_unknown_fields)]
pub enum Match {
    FiveTuple {
        transport: Transport,
        src: String,
        src_port: u16,
        dst: String,
        dst_port: u16,
    },
    Destination {
        transport: Transport,
        dst: String,
        dst_port: u16,
    },
    Port {
        transport: Transport,
        dst_port: u16,
    },
    Prefix {
        dst: String,
    },
    Vlan {
        vlan: u16,
    },
    EtherType {
        ethertype: u16,
    },
    Any,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    #[serde(default)]
    rate_limit: Option<RateLimit>,
    #[serde(default)]
    stamp_at_bytes: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    unit: RateUnit,
    per_second: u64,
    burst_us: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateUnit {
    Packets,
    Bits,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    read: bool,
    write: bool,
    atomic: bool,
    #[serde(default)]
    send: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    drop_per_100k: u32,
    corrupt_per_100k: u32,
    duplicate_per_100k: u32,
    blackhole: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    incarnation: String,
    epoch: u64,
    digest: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    Welcome {
        version: u32,
        node: String,
        guid: String,
        lanes: u32,
        ports: Vec<PortBrief>,
    },
    Session {
        session: u64,
        slots: u32,
    },
    Pipe {
        pipe: u32,
        page_bytes: u64,
        frame_bytes_max: u32,
    },
    Region {
        rkey: u32,
        size_bytes: u64,
        seal: String,
    },
    Status(Box<Status>),
    Events {
        events: Vec<Event>,
        next: Option<u64>,
    },
    Agreement {
        held: Held,
    },
    AgreedText {
        held: Held,
        text: String,
        next_bytes: Option<u64>,
    },
    Verdict(Box<Verdict>),
    Done,
    Refused {
        reason: String,
    },
    Event(Event),
}

#[derive(Debug, Deserialize)]
pub struct PortBrief {
    name: String,
    frame_bytes_max: u32,
    lane: u32,
}

#[derive(Debug, Deserialize)]
pub struct Verdict {
    held: Held,
    refused: Option<RefusalBrief>,
    lanes: Vec<LaneHeld>,
    objections: Vec<Objection>,
    changed: Vec<String>,
    beware: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum RefusalBrief {
    Stale,
    NotLater,
    Busy,
    Unready,
    Lane { lane: u32 },
}

#[derive(Debug, Deserialize)]
pub struct LaneHeld {
    lane: u32,
    epoch: u64,
    loops: u64,
    ports: Vec<PortHeld>,
}

#[derive(Debug, Deserialize)]
pub struct PortHeld {
    name: String,
    open: bool,
    link_epoch: Option<u32>,
    #[serde(default)]
    facts: Option<PortFacts>,
}

#[derive(Debug, Deserialize)]
pub struct PortFacts {
    index: u32,
    address: String,
    mtu_bytes: u32,
    queues: u32,
    all_queues: bool,
    program_id: u32,
}

#[derive(Debug, Deserialize)]
pub struct Objection {
    key: String,
    message: String,
}

#[derive(Debug, Deserialize)]
pub struct Event {
    sequence: u64,
    realtime_ns: u64,
    #[serde(flatten)]
    kind: EventKind,
}

#[derive(Debug, Deserialize)]
pub struct LinkRefusal {
    cause: String,
    reason: String,
    cure: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    LinkUp {
        port: String,
        peer: String,
        peer_name: String,
        peer_port: u16,
        epoch: u32,
    },
    LinkDown {
        port: String,
        reason: String,
        open_transactions: u32,
    },
    LinkRefused {
        port: String,
        refusal: LinkRefusal,
    },
    LinkRefusalOver {
        port: String,
    },
    Carrier {
        port: String,
        up: bool,
    },
    PortAbsent {
        port: String,
        reason: String,
    },
    PortOpened {
        port: String,
    },
    NodeReachable {
        guid: String,
        name: String,
        hops: u16,
        port: String,
    },
    NodeUnreachable {
        guid: String,
        name: String,
    },
    FabricProblem {
        cause: String,
        reason: String,
        cure: String,
    },
    Attached {
        session: u64,
        pid: u32,
        program: String,
    },
    Detached {
        session: u64,
        reason: String,
        pipes: u32,
        regions: u32,
    },
    JournalFailed {
        lane: u32,
        reason: String,
    },
    Configured {
        epoch: u64,
        changed: Vec<String>,
    },
    NotConfigured {
        reason: String,
    },
    Stopping,
}

/// The status fields that version 5 requires.
#[derive(Debug, Deserialize)]
pub struct Status {
    node: String,
    guid: String,
    pid: u32,
    uptime_ns: u64,
    resident_bytes: u64,
    lanes: Vec<LaneStatus>,
    ports: Vec<PortStatus>,
    links: Vec<LinkStatus>,
    pipes: Vec<PipeStatus>,
    regions: Vec<RegionStatus>,
    verbs: VerbStatus,
    sessions: u64,
    sessions_detached: Causes,
    events: u64,
    config: ConfigStatus,
}

#[derive(Debug, Deserialize)]
pub struct LaneStatus {
    lane: u32,
    core: Option<u32>,
    idle: String,
    loops: u64,
    busy_loops: u64,
    sleeps: u64,
    cpu_ns: u64,
    journal: JournalStatus,
}

#[derive(Debug, Deserialize)]
pub struct JournalStatus {
    appended: u64,
    durable: u64,
    regions: u64,
    kept: u64,
    region_bytes: u64,
    held: u64,
    refused: u64,
    failure: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct PortStatus {
    name: String,
    kind: String,
    interface: Option<String>,
    facts: Option<PortFacts>,
    lane: u32,
    carrier: bool,
    mode: PortMode,
    frame_bytes_max: u32,
    rx_packets: u64,
    rx_bytes: u64,
    tx_packets: u64,
    tx_bytes: u64,
    passed_to_kernel_packets: u64,
    drops: Causes,
    refusals: Causes,
}

#[derive(Debug, Deserialize)]
pub struct PortMode {
    xdp: String,
    zero_copy: bool,
    need_wakeup: bool,
    page_bytes: u64,
    queues: u32,
}

#[derive(Debug, Deserialize)]
pub struct LinkStatus {
    port: String,
    state: String,
    peer: Option<String>,
    peer_name: Option<String>,
    peer_port: Option<u16>,
    refusal: Option<LinkRefusal>,
    epoch: u32,
    open_transactions: u32,
    ups: u64,
    failures: Causes,
    tx_records: u64,
    rx_records: u64,
    drops: Causes,
    committed: u64,
    refused: u64,
    reversed: u64,
    resolved: u64,
    executed: u64,
    last_failover_ns: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct PipeStatus {
    session: u64,
    pipe: u32,
    kind: PipeKind,
    capacity_bytes: u64,
    rx_packets: u64,
    rx_bytes: u64,
    tx_packets: u64,
    tx_bytes: u64,
    notifications_sent: u64,
    notifications_suppressed: u64,
    drops: Causes,
}

#[derive(Debug, Deserialize)]
pub struct RegionStatus {
    name: String,
    rkey: u32,
    size_bytes: u64,
    session: u64,
}

#[derive(Debug, Deserialize)]
pub struct VerbStatus {
    submitted: u64,
    completed: u64,
    in_doubt: u64,
    executed: Causes,
    refused: Causes,
}

#[derive(Debug, Deserialize)]
pub struct ConfigStatus {
    held: Held,
    under_way: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    Version,
    Neighbors,
    Links,
    Interfaces,
    Reload,
    Agreed,
    Rules {
        from: u32,
    },
    Steer {
        #[serde(default)]
        remove: Vec<Match>,
        #[serde(default)]
        add: Vec<Rule>,
    },
}

#[derive(Debug, Deserialize)]
pub struct Rule {
    #[serde(flatten)]
    matches: Match,
    action: Action,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Kernel,
    Dataplane,
    Drop,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum ControlReply {
    Version(ControlVersion),
    Neighbors {
        daemon_connected: bool,
        neighbors: Vec<Neighbor>,
    },
    Links {
        daemon_connected: bool,
        links: Vec<LinkBrief>,
    },
    Interfaces {
        interfaces: Vec<InterfaceStatus>,
    },
    Reloaded {
        epoch: u64,
        changed: Vec<KeyChange>,
        #[serde(default)]
        beware: Vec<String>,
    },
    NotReloaded {
        problems: Vec<String>,
    },
    Agreed {
        agreed: Option<Held>,
        is_shared: bool,
    },
    Rules {
        held: Held,
        rules: Vec<RuleBrief>,
        next: Option<u32>,
    },
    Refused {
        reason: String,
    },
}

#[derive(Debug, Deserialize)]
pub struct ControlVersion {
    api: u32,
    program: String,
    pid: u32,
    uptime_ns: u64,
    node: String,
    guid: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Neighbor {
    guid: String,
    name: String,
    links: Vec<LinkBrief>,
}

#[derive(Debug, Deserialize)]
pub struct LinkBrief {
    port: String,
    up: bool,
    peer: Option<String>,
    peer_name: Option<String>,
    peer_port: Option<u16>,
    epoch: u32,
    last_failure: Option<String>,
    changed_realtime_ns: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct InterfaceStatus {
    port: String,
    interface: String,
    index: Option<u32>,
    admin_up: bool,
    carrier: bool,
    mtu_bytes: u32,
    brought_up: bool,
    #[serde(default)]
    programs: Vec<XdpProgram>,
}

#[derive(Debug, Deserialize)]
pub struct XdpProgram {
    mode: String,
    id: u32,
}

#[derive(Debug, Deserialize)]
pub struct KeyChange {
    key: String,
    from: String,
    to: String,
    effect: Effect,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    Live,
    LiveForNew,
    Port,
    ByControl,
    Restart,
}

#[derive(Debug, Deserialize)]
pub struct RuleBrief {
    #[serde(flatten)]
    rule: Rule,
    in_file: Option<bool>,
}
