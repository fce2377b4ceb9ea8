//! A [`NodeStatus`] as tables.

use std::fmt::Write;

use covalent_api::{
    control::InterfaceStatus,
    refusal::LinkRefusal,
    request::PipeKind,
    status::{
        Causes, GroupStatus, LaneStatus, LinkStatus, NodeStatus, PipeStatus, PortMode, PortStatus,
        RegionStatus,
    },
};

use super::{durable, interfaces, nodes};
use crate::output::{Cell, Color, Table, Theme, bytes, column, counted, duration, grouped, wide};

/// Above everything that did not go through.
const LOSSES: &str = "drops, refusals and failures (those that are not zero)";

/// Renders the whole status, with the control process's data about the interfaces. Omits empty
/// tables.
pub fn render(status: &NodeStatus, interfaces: &[InterfaceStatus], theme: Theme) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "node {} ({}), process {}, up {}, {} resident, {} attached, {} of {} mappings",
        status.node,
        status.guid,
        status.pid,
        duration(status.uptime_ns),
        bytes(status.resident_bytes),
        status.sessions,
        grouped(status.mappings),
        grouped(status.mappings_max),
    );
    let held = &status.config.held;
    let _ = writeln!(
        text,
        "configuration: revision {}, digest {}{}",
        held.epoch,
        held.digest,
        match &status.config.under_way {
            Some(what) => format!("; {what}"),
            None => String::new(),
        }
    );
    section(&mut text, "lanes", lanes(theme, &status.lanes));
    section(&mut text, "ports", ports(theme, &status.ports));
    for port in &status.ports {
        if let Some(reason) = &port.absent {
            let _ = writeln!(text, "port {} is gone: {reason}", port.name);
        }
    }
    section(
        &mut text,
        "interfaces",
        interfaces::table(theme, interfaces),
    );
    section(&mut text, "links", links(theme, &status.links));
    refusals(&mut text, &status.links);
    section(&mut text, "frames of links", frames(theme, &status.links));
    if let Some(fabric) = &status.fabric {
        let _ = writeln!(text, "\nfabric: {}", nodes::summary(fabric));
    }
    section(&mut text, "groups", groups(theme, &status.groups));
    section(&mut text, "pipes", pipes(theme, &status.pipes));
    section(&mut text, "regions", regions(theme, &status.regions));
    section(
        &mut text,
        "durable regions",
        durable::regions(theme, &status.durable_regions),
    );
    section(
        &mut text,
        "journals",
        durable::journals(theme, &status.lanes),
    );
    for failure in durable::failures(&status.lanes) {
        let _ = writeln!(text, "{failure}");
    }
    section(&mut text, "verbs", verbs(theme, status));
    section(
        &mut text,
        "ended applications, and what was reclaimed from them",
        ended(theme, status),
    );
    section(&mut text, LOSSES, losses(theme, status));
    left_out(&mut text, status.omitted);
    text
}

/// The links alone.
pub fn of_links(all: &[LinkStatus], theme: Theme) -> String {
    if all.is_empty() {
        return "no port of this node has a link".to_owned();
    }
    let mut text = String::new();
    section(&mut text, "links", links(theme, all));
    refusals(&mut text, all);
    section(&mut text, "frames of links", frames(theme, all));
    let mut losses = Losses::new(theme);
    losses.of_links(all);
    section(&mut text, LOSSES, losses.table);
    text.trim().to_owned()
}

/// Renders only the groups.
pub fn of_groups(all: &[GroupStatus], theme: Theme) -> String {
    if all.is_empty() {
        return "no application on this node is in a group".to_owned();
    }
    let mut text = String::new();
    section(&mut text, "groups", groups(theme, all));
    for stay in all {
        let members: Vec<String> = stay.members.iter().map(ToString::to_string).collect();
        if !members.is_empty() {
            let _ = writeln!(
                text,
                "{} (session {}): view {} is {}",
                stay.group,
                stay.session,
                stay.view,
                members.join(", ")
            );
        }
    }
    text.trim().to_owned()
}

/// Renders only the pipes. `omitted` counts the nodes, pipes and regions that are missing from the
/// status.
pub fn of_pipes(all: &[PipeStatus], omitted: u64, theme: Theme) -> String {
    let mut text = String::new();
    if all.is_empty() {
        text.push_str("no application has a pipe\n");
    }
    section(&mut text, "pipes", pipes(theme, all));
    let mut losses = Losses::new(theme);
    losses.of_pipes(all);
    section(&mut text, LOSSES, losses.table);
    left_out(&mut text, omitted);
    text.trim().to_owned()
}

/// Returns the finding and the remedy for a link that has a carrier and never received a frame.
pub fn silence(link: &LinkStatus) -> Option<(String, &'static str)> {
    let is_silent = link.state == "init"
        && link.refusal.is_none()
        && (link.ups, link.rx_frames) == (0, 0)
        && link.tx_frames > 0;
    is_silent.then(|| {
        let found = format!(
            "init, {} sent, none received: no Covalent node answers",
            counted(link.tx_frames, "frame")
        );
        (
            found,
            "start the other node, or check that its port has `link = true`",
        )
    })
}

fn refusals(text: &mut String, links: &[LinkStatus]) {
    for link in links {
        if let Some((found, cure)) = silence(link) {
            let _ = writeln!(text, "link {}: {found}\n  cure: {cure}", link.port);
        }
        if let Some(LinkRefusal { reason, cure, .. }) = &link.refusal {
            let _ = writeln!(
                text,
                "link {} is refused: {reason}\n  cure: {cure}",
                link.port
            );
        }
    }
}

fn left_out(text: &mut String, omitted: u64) {
    if omitted > 0 {
        let _ = writeln!(
            text,
            "\n{omitted} nodes, pipes and regions are not shown: the answer would not fit one \
             datagram"
        );
    }
}

/// Describes a port's effective mode, for example `native XDP, copy, need_wakeup, 2 MiB pages, 2
/// queues`.
pub fn mode(kind: &str, mode: &PortMode) -> String {
    let page = if mode.page_bytes >= 1 << 20 {
        format!("{} MiB pages", mode.page_bytes >> 20)
    } else {
        format!("{} KiB pages", mode.page_bytes >> 10)
    };
    if mode.xdp == "none" {
        return format!("{kind}, {page}");
    }
    format!(
        "{} XDP, {}, {}, {page}, {}",
        mode.xdp,
        if mode.zero_copy { "zero-copy" } else { "copy" },
        if mode.need_wakeup {
            "need_wakeup"
        } else {
            "no need_wakeup"
        },
        counted(mode.queues.into(), "queue"),
    )
}

/// A lane in words, for example `lane 0 on core 1, adaptive`.
pub fn lane(lane: &LaneStatus) -> String {
    let place = lane
        .core
        .map_or_else(|| "floating".to_owned(), |core| format!("on core {core}"));
    format!("lane {} {place}, {}", lane.lane, lane.idle)
}

fn section(text: &mut String, title: &str, table: Table) {
    if !table.is_empty() {
        let _ = writeln!(text, "\n{title}\n{table}");
    }
}

pub(super) fn number(value: u64) -> Cell {
    Cell::right(grouped(value))
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

fn lanes(theme: Theme, lanes: &[LaneStatus]) -> Table {
    let mut table = theme.new_table([
        column("lane"),
        column("address"),
        column("core"),
        column("idle"),
        wide("rounds"),
        wide("busy"),
        wide("sleeps"),
        column("CPU time"),
        column("longest round"),
    ]);
    for lane in lanes {
        table.add_row([
            Cell::new(lane.lane),
            Cell::new(or_dash(lane.address)),
            Cell::new(
                lane.core
                    .map_or_else(|| "floats".to_owned(), |core| core.to_string()),
            ),
            Cell::new(&lane.idle),
            number(lane.loops),
            number(lane.busy_loops),
            number(lane.sleeps),
            Cell::whole(duration(lane.cpu_ns)),
            Cell::whole(duration(lane.longest_round_ns)),
        ]);
    }
    table
}

fn ports(theme: Theme, ports: &[PortStatus]) -> Table {
    let mut table = theme.new_table([
        column("port"),
        column("interface"),
        wide("number"),
        wide("lane"),
        column("carrier"),
        column("mode in effect"),
        wide("longest"),
        column("rx packets"),
        wide("rx bytes"),
        column("tx packets"),
        wide("tx bytes"),
        wide("to kernel"),
    ]);
    for port in ports {
        let carrier = if port.absent.is_some() {
            theme.cell("gone", Color::Red)
        } else if port.carrier {
            theme.cell("yes", Color::Green)
        } else {
            theme.cell("no", Color::Red)
        };
        table.add_row([
            Cell::new(&port.name),
            Cell::new(or_dash(port.interface.as_ref())),
            Cell::new(port.number),
            Cell::new(port.lane),
            carrier,
            Cell::new(match port.absent {
                Some(_) => or_dash(None::<&str>),
                None => mode(&port.kind, &port.mode),
            }),
            Cell::whole(format!("{} B", port.frame_bytes_max)),
            number(port.rx_packets),
            number(port.rx_bytes),
            number(port.tx_packets),
            number(port.tx_bytes),
            number(port.passed_to_kernel_packets),
        ]);
    }
    table
}

fn links(theme: Theme, links: &[LinkStatus]) -> Table {
    let mut table = theme.new_table([
        column("port"),
        column("state"),
        column("peer"),
        column("peer's port"),
        wide("epoch"),
        wide("ups"),
        column("open"),
        column("committed"),
        wide("refused"),
        wide("reversed"),
        wide("resolved"),
        wide("never seen"),
        wide("by neighbor"),
        wide("passed on"),
        wide("executed"),
        column("failover"),
    ]);
    for link in links {
        let color = if link.state == "up" {
            Color::Green
        } else {
            Color::Red
        };
        table.add_row([
            Cell::new(&link.port),
            theme.cell(
                &match &link.refusal {
                    None => link.state.clone(),
                    Some(refusal) => format!("{}: {}", link.state, refusal.cause),
                },
                color,
            ),
            Cell::new(match (&link.peer_name, link.peer) {
                (Some(name), Some(guid)) => format!("{name} ({guid})"),
                (_, guid) => or_dash(guid),
            }),
            // The neighbor sends the number of its port, and no name. A number alone would read as
            // a count.
            Cell::whole(or_dash(link.peer_port.map(|port| format!("number {port}")))),
            Cell::new(link.epoch),
            number(link.ups),
            number(link.open_transactions.into()),
            number(link.committed),
            number(link.refused),
            number(link.reversed),
            number(link.resolved),
            number(link.never_seen),
            number(link.relayed),
            number(link.relays_passed),
            number(link.executed),
            Cell::whole(or_dash(link.last_failover_ns.map(duration))),
        ]);
    }
    table
}

/// Renders the frames and records of links. The ports count these packets too.
fn frames(theme: Theme, links: &[LinkStatus]) -> Table {
    let mut table = theme.new_table([
        column("port"),
        column("rx frames"),
        column("tx frames"),
        wide("rx records"),
        wide("tx records"),
    ]);
    for link in links {
        table.add_row([
            Cell::new(&link.port),
            number(link.rx_frames),
            number(link.tx_frames),
            number(link.rx_records),
            number(link.tx_records),
        ]);
    }
    table
}

fn groups(theme: Theme, groups: &[GroupStatus]) -> Table {
    let mut table = theme.new_table([
        column("group"),
        column("session"),
        column("standing"),
        column("view"),
        column("members"),
        wide("voters"),
        wide("views begun"),
        column("multicast"),
        column("delivered"),
        wide("envelopes"),
        wide("resent"),
        column("dropped"),
    ]);
    for stay in groups {
        let color = match stay.standing.as_str() {
            "member" => Color::Green,
            "minority" | "stopped" => Color::Red,
            _ => Color::Yellow,
        };
        let envelopes = |what: &str| number(stay.envelopes.get(what).copied().unwrap_or(0));
        table.add_row([
            Cell::new(&stay.group),
            Cell::new(stay.session),
            theme.cell(&stay.standing, color),
            number(stay.view),
            number(stay.members.len() as u64),
            number(stay.voters.into()),
            number(stay.views),
            number(stay.multicasts),
            number(stay.deliveries),
            envelopes("sent"),
            envelopes("resent"),
            envelopes("dropped"),
        ]);
    }
    table
}

fn pipes(theme: Theme, pipes: &[PipeStatus]) -> Table {
    let mut table = theme.new_table([
        column("session"),
        column("program"),
        column("pipe"),
        column("kind"),
        column("port"),
        wide("ring"),
        wide("pages"),
        column("to application"),
        wide("bytes"),
        column("from application"),
        wide("bytes"),
        wide("notified"),
        wide("needed none"),
    ]);
    for pipe in pipes {
        table.add_row([
            Cell::new(pipe.session),
            Cell::new(or_dash(pipe.program.as_ref())),
            Cell::new(pipe.pipe),
            Cell::new(kind(pipe.kind)),
            Cell::new(match (&pipe.port, pipe.kind) {
                (Some(port), _) => port.clone(),
                (None, PipeKind::Rx | PipeKind::RxBytes) => "all".to_owned(),
                (None, _) => or_dash(None::<&str>),
            }),
            Cell::whole(bytes(pipe.capacity_bytes)),
            Cell::whole(or_dash(
                (pipe.page_bytes > 0).then(|| bytes(pipe.page_bytes)),
            )),
            number(pipe.rx_packets),
            number(pipe.rx_bytes),
            number(pipe.tx_packets),
            number(pipe.tx_bytes),
            number(pipe.notifications_sent),
            number(pipe.notifications_suppressed),
        ]);
    }
    table
}

/// A kind of pipe, for people.
pub const fn kind(kind: PipeKind) -> &'static str {
    match kind {
        PipeKind::Rx => "RX",
        PipeKind::Tx => "TX",
        PipeKind::RxTx => "RX/TX",
        PipeKind::RxBytes => "RX bytes",
        PipeKind::VerbSubmit => "verbs out",
        PipeKind::VerbComplete => "verbs done",
    }
}

fn regions(theme: Theme, regions: &[RegionStatus]) -> Table {
    let mut table = theme.new_table(["region", "key", "size", "session"]);
    for region in regions {
        table.add_row([
            Cell::new(&region.name),
            Cell::new(format!("{:#010x}", region.rkey)),
            Cell::whole(bytes(region.size_bytes)),
            Cell::new(region.session),
        ]);
    }
    table
}

fn verbs(theme: Theme, status: &NodeStatus) -> Table {
    let mut table = theme.new_table(["verbs", "count"]);
    let verbs = &status.verbs;
    if verbs.submitted == 0 && verbs.executed.values().all(|&count| count == 0) {
        return table;
    }
    for (name, count) in [
        ("submitted here", verbs.submitted),
        ("completed", verbs.completed),
        ("in doubt", verbs.in_doubt),
    ] {
        table.add_row([Cell::new(name), number(count)]);
    }
    for (verb, &count) in &verbs.executed {
        table.add_row([Cell::new(format!("executed here: {verb}")), number(count)]);
    }
    table
}

/// Everything that did not go through, by place and cause.
fn losses(theme: Theme, status: &NodeStatus) -> Table {
    let mut losses = Losses::new(theme);
    losses.of_ports(&status.ports);
    losses.of_links(&status.links);
    losses.of_pipes(&status.pipes);
    losses.add("verbs", "refused here", &status.verbs.refused);
    losses.add("shared memory", "application detached", &status.violations);
    losses.add("socket", "turned away", &status.peers_refused);
    losses.table
}

struct Losses {
    table: Table,
}

impl Losses {
    fn new(theme: Theme) -> Self {
        Self {
            table: theme.new_table(["where", "what", "cause", "count"]),
        }
    }

    fn add(&mut self, place: &str, what: &str, causes: &Causes) {
        for (cause, &count) in causes.iter().filter(|(_, count)| **count > 0) {
            self.table.add_row([
                Cell::new(place),
                Cell::new(what),
                Cell::new(cause),
                number(count),
            ]);
        }
    }

    fn of_ports(&mut self, ports: &[PortStatus]) {
        for port in ports {
            let place = format!("port {}", port.name);
            self.add(&place, "dropped", &port.drops);
            self.add(&place, "refused to the sender", &port.refusals);
            self.add(&place, "damaged on purpose", &port.faults);
            self.add(&place, "reported by the device", &port.device_events);
        }
    }

    fn of_links(&mut self, links: &[LinkStatus]) {
        for link in links {
            let place = format!("link {}", link.port);
            self.add(&place, "failed", &link.failures);
            self.add(&place, "dropped", &link.drops);
        }
    }

    fn of_pipes(&mut self, pipes: &[PipeStatus]) {
        for pipe in pipes {
            let place = format!("session {} pipe {}", pipe.session, pipe.pipe);
            self.add(&place, "dropped", &pipe.drops);
            let full = Causes::from([("full".to_owned(), pipe.tx_full_packets)]);
            self.add(&place, "refused to the sender", &full);
            let unstamped = Causes::from([("too_short".to_owned(), pipe.unstamped_packets)]);
            self.add(&place, "passed without a stamp", &unstamped);
            let lost = Causes::from([("port".to_owned(), pipe.port_lost_packets)]);
            self.add(&place, "lost before any pipe", &lost);
        }
    }
}

fn ended(theme: Theme, status: &NodeStatus) -> Table {
    let mut table = theme.new_table([
        column("how"),
        column("sessions"),
        wide("pipes"),
        wide("bindings"),
        wide("regions"),
        column("verbs in flight"),
        column("memory"),
    ]);
    let reclaimed = &status.reclaimed;
    let ended = status.sessions_detached.iter();
    for (how, &sessions) in ended.filter(|(_, sessions)| **sessions > 0) {
        let count = |causes: &Causes| causes.get(how).copied().unwrap_or(0);
        table.add_row([
            Cell::new(how),
            number(sessions),
            number(count(&reclaimed.pipes)),
            number(count(&reclaimed.bindings)),
            number(count(&reclaimed.regions)),
            number(count(&reclaimed.verbs)),
            Cell::right(bytes(count(&reclaimed.memory_bytes))),
        ]);
    }
    table
}

#[cfg(test)]
pub(super) mod tests {
    use covalent_api::{
        guid::Guid,
        hex64::Hex64,
        status::{
            ConfigStatus, DurableRegionStatus, FabricStatus, FarNodeStatus, JournalStatus,
            PathStatus, ReclaimedStatus, VerbStatus,
        },
    };

    use super::*;
    use crate::output::walk;

    fn causes(pairs: &[(&str, u64)]) -> Causes {
        pairs
            .iter()
            .map(|(cause, count)| ((*cause).to_owned(), *count))
            .collect()
    }

    pub(in crate::status) fn sample() -> NodeStatus {
        NodeStatus {
            node: "a".into(),
            guid: Guid::new(0xabc).expect("not zero"),
            pid: 4711,
            uptime_ns: 2_500_000_000,
            resident_bytes: 12 << 20,
            lanes: vec![LaneStatus {
                address: Guid::new(0xabc),
                lane: 0,
                core: Some(1),
                idle: "adaptive".into(),
                loops: 1_234_567,
                busy_loops: 10,
                sleeps: 3,
                cpu_ns: 5_000_000,
                longest_round_ns: 770_000,
                busy_ns: 9,
                journal: Some(JournalStatus {
                    appended: 9_799,
                    durable: 9_501,
                    failure: Some("journal.0: write: No space left on device. Mend it".into()),
                    ..JournalStatus::default()
                }),
            }],
            ports: vec![PortStatus {
                number: 0,
                absent: None,
                facts: None,
                name: "p0".into(),
                kind: "af_xdp".into(),
                interface: Some("eth1".into()),
                lane: 0,
                carrier: true,
                mode: PortMode {
                    xdp: "native".into(),
                    zero_copy: false,
                    need_wakeup: true,
                    page_bytes: 2 << 20,
                    queues: 2,
                },
                frame_bytes_max: 1514,
                rx_packets: 98_765,
                rx_bytes: 1,
                tx_packets: 2,
                tx_bytes: 3,
                passed_to_kernel_packets: 4,
                drops: causes(&[("runt", 0), ("no_pipe", 17)]),
                refusals: causes(&[("too_long", 5)]),
                faults: causes(&[("rx_corrupted", 3)]),
                device_counts: Causes::new(),
                device_events: causes(&[("removed", 1)]),
                xdp_counts: Causes::new(),
                tx_room_frames: 4,
            }],
            links: vec![LinkStatus {
                port: "p0".into(),
                state: "up".into(),
                peer: Guid::new(0xdef),
                peer_name: Some("b".into()),
                peer_port: Some(1),
                refusal: None,
                epoch: 7,
                open_transactions: 0,
                ups: 2,
                failures: causes(&[("carrier_lost", 1)]),
                tx_frames: 27_182,
                rx_frames: 28_459,
                tx_records: 0,
                rx_records: 0,
                drops: causes(&[("stale_epoch", 2)]),
                committed: 500_000,
                refused: 0,
                reversed: 6,
                resolved: 8,
                never_seen: 3_141,
                relayed: 5_926,
                relays_passed: 5_358,
                executed: 9,
                last_failover_ns: Some(1_500_000),
                credit_records: 250,
                unreflected_records: 3,
                keepalive_misses: 1,
                round_trips: covalent_api::status::RoundTrips::default(),
            }],
            groups: vec![GroupStatus {
                group: "orders".into(),
                session: 3,
                id: Hex64(9),
                stay: Hex64(0xabc),
                standing: "minority".into(),
                view: 12,
                members: [1, 2].into_iter().filter_map(Guid::new).collect(),
                voters: 2,
                views: 12,
                multicasts: 1_500,
                deliveries: 4_200,
                envelopes: [("sent".to_owned(), 900), ("dropped".to_owned(), 2)].into(),
            }],
            pipes: Vec::new(),
            regions: vec![RegionStatus {
                name: "bank".into(),
                rkey: 0x1f,
                size_bytes: 4096,
                session: 3,
            }],
            durable_regions: vec![DurableRegionStatus {
                name: "ledger".into(),
                uid: 1042,
                lane: 0,
                size_bytes: 8192,
                session: None,
            }],
            fabric: Some(FabricStatus {
                reached: 2,
                lost: 1,
                hops_max: 3,
                ..FabricStatus::default()
            }),
            nodes: vec![
                FarNodeStatus {
                    guid: Guid::new(0x100).expect("not zero"),
                    name: Some("corner".into()),
                    standing: "reached".into(),
                    hops: Some(3),
                    port: Some("p1".into()),
                },
                FarNodeStatus {
                    guid: Guid::new(0x200).expect("not zero"),
                    name: None,
                    standing: "lost".into(),
                    hops: None,
                    port: None,
                },
            ],
            paths: vec![PathStatus {
                lane: 0,
                far: Guid::new(0x100).expect("not zero"),
                far_name: Some("corner".into()),
                opener: true,
                state: "up".into(),
                open_transactions: 5,
            }],
            verbs: VerbStatus {
                submitted: 11,
                completed: 11,
                ..VerbStatus::default()
            },
            sessions: 2,
            mappings: 17,
            mappings_max: 57_337,
            sessions_detached: causes(&[("closed", 0), ("process_ended", 21)]),
            violations: causes(&[("misaligned", 3)]),
            reclaimed: ReclaimedStatus {
                pipes: causes(&[("process_ended", 1042)]),
                bindings: causes(&[("process_ended", 4096)]),
                memory_bytes: causes(&[("process_ended", 68 << 20)]),
                ..ReclaimedStatus::default()
            },
            peers_refused: Causes::new(),
            events: 0,
            omitted: 0,
            config: ConfigStatus::default(),
        }
    }

    /// A node with the longest names and counts.
    pub(in crate::status) fn widest() -> NodeStatus {
        let name = || walk::NAME.to_owned();
        let guid = Guid::new(u64::MAX);
        let most = u64::MAX;
        let cause = || causes(&[("control_message_too_long", most)]);
        let mut node = sample();
        node.node = name();
        for lane in &mut node.lanes {
            lane.address = guid;
            (lane.loops, lane.busy_loops, lane.sleeps) = (most, most, most);
            (lane.cpu_ns, lane.longest_round_ns) = (most, most);
            if let Some(journal) = &mut lane.journal {
                (journal.appended, journal.durable) = (most, most);
                (journal.held, journal.refused) = (most, most);
                (journal.regions, journal.kept) = (most, most);
                journal.region_bytes = most;
            }
        }
        for port in &mut node.ports {
            port.name = name();
            port.interface = Some(walk::INTERFACE.into());
            (port.rx_packets, port.rx_bytes) = (most, most);
            (port.tx_packets, port.tx_bytes) = (most, most);
            port.passed_to_kernel_packets = most;
            port.drops = cause();
        }
        for link in &mut node.links {
            link.port = name();
            (link.peer, link.peer_name, link.peer_port) = (guid, Some(name()), Some(u16::MAX));
            (link.epoch, link.open_transactions) = (u32::MAX, u32::MAX);
            (link.rx_frames, link.tx_frames) = (most, most);
            (link.rx_records, link.tx_records) = (most, most);
            (link.ups, link.committed, link.refused) = (most, most, most);
            (link.reversed, link.resolved, link.never_seen) = (most, most, most);
            (link.relayed, link.relays_passed, link.executed) = (most, most, most);
            link.last_failover_ns = Some(most);
            link.failures = cause();
        }
        for group in &mut node.groups {
            group.group = name();
            (group.session, group.view, group.views) = (most, most, most);
            (group.multicasts, group.deliveries) = (most, most);
            group.envelopes = ["sent", "resent", "dropped"]
                .map(|what| (what.to_owned(), most))
                .into();
        }
        node.pipes = vec![PipeStatus {
            session: most,
            pipe: u32::MAX,
            program: Some(name()),
            port: Some(name()),
            kind: PipeKind::VerbComplete,
            capacity_bytes: most,
            page_bytes: most,
            rx_packets: most,
            rx_bytes: most,
            tx_packets: most,
            tx_bytes: most,
            notifications_sent: most,
            notifications_suppressed: most,
            head_updates: most,
            tx_discarded_packets: most,
            unstamped_packets: most,
            tx_full_packets: most,
            used_bytes: most,
            drops: cause(),
            port_lost_packets: most,
        }];
        for region in &mut node.regions {
            (region.name, region.size_bytes, region.session) = (name(), most, most);
        }
        for region in &mut node.durable_regions {
            (region.name, region.size_bytes) = (name(), most);
        }
        for far in &mut node.nodes {
            (far.name, far.port) = (Some(name()), Some(name()));
        }
        for path in &mut node.paths {
            (path.far_name, path.far) = (Some(name()), guid.expect("not zero"));
        }
        (node.verbs.submitted, node.verbs.completed) = (most, most);
        node.sessions_detached = causes(&[("process_ended", most)]);
        for reclaimed in [
            &mut node.reclaimed.pipes,
            &mut node.reclaimed.bindings,
            &mut node.reclaimed.regions,
            &mut node.reclaimed.verbs,
            &mut node.reclaimed.memory_bytes,
        ] {
            *reclaimed = causes(&[("process_ended", most)]);
        }
        node
    }

    #[test]
    fn a_refused_link_is_shown_with_reason_and_cure() {
        let mut status = sample();
        status.links[0].state = "init".into();
        let lines = [
            "init: own_port",
            "link p0 is refused: both ends of this cable are ports of this node (`p0`, \
             `p3`)\n  cure: move one end",
        ];
        for line in lines {
            assert!(!render(&status, &[], Theme::PLAIN).contains(line));
        }
        status.links[0].refusal = Some(LinkRefusal {
            cause: "own_port".into(),
            reason: "both ends of this cable are ports of this node (`p0`, `p3`)".into(),
            cure: "move one end to another node".into(),
        });
        for line in lines {
            assert!(render(&status, &[], Theme::PLAIN).contains(line), "{line}");
        }
    }

    #[test]
    fn a_link_whose_neighbor_never_answered_is_explained() {
        let mut link = sample().links.remove(0);
        (link.port, link.state, link.peer) = ("eth3".into(), "init".into(), None);
        (link.ups, link.rx_frames, link.tx_frames) = (0, 0, 635);
        let wanted = "link eth3: init, 635 frames sent, none received: no Covalent node answers\n  \
                      cure: start the other node, or check that its port has `link = true`";
        let explained = |link: &LinkStatus| {
            let text = of_links(std::slice::from_ref(link), Theme::PLAIN);
            text.contains(wanted)
        };
        assert!(explained(&link));
        let mut status = sample();
        status.links = vec![link.clone()];
        assert!(render(&status, &[], Theme::PLAIN).contains(wanted));
        for (state, ups, rx_frames, tx_frames) in [
            ("down", 0, 0, 635),
            ("init", 1, 0, 635),
            ("init", 0, 1, 635),
            ("init", 0, 0, 0),
        ] {
            (link.state, link.ups) = (state.into(), ups);
            (link.rx_frames, link.tx_frames) = (rx_frames, tx_frames);
            assert!(!explained(&link), "{link:?}");
        }
    }

    #[test]
    fn a_usual_link_takes_one_line_of_100_columns() {
        let mut link = sample().links.remove(0);
        (link.port, link.peer_name) = ("eth1".into(), Some("machine-2".into()));
        link.committed = 12_345_678;
        let text = of_links(&[link], Theme::of_width(100));
        let line = text.lines().find(|line| line.contains("eth1"));
        let words = line.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(
            words.as_deref(),
            Some("eth1 up machine-2 (0000000000000def) number 1 0 12 345 678 1.5 ms"),
            "{text}"
        );
    }

    #[test]
    fn every_part_of_a_node_is_shown() {
        let text = render(&sample(), &[], Theme::PLAIN);
        for wanted in [
            "node a (0000000000000abc), process 4711, up 2.5 s, 12.0 MiB resident, 2 attached, 17 \
             of 57 337 mappings",
            "configuration: revision 0, digest 0000000000000000",
            "1 234 567",
            "native XDP, copy, need_wakeup, 2 MiB pages, 2 queues",
            "98 765",
            "fabric: 2 other nodes are reached, 1 lost, the farthest over 3 cables",
            "b (0000000000000def)",
            "500 000",
            "1.5 ms",
            "bank",
            "0x0000001f",
            "no_pipe",
            "too_long",
            "carrier_lost",
            "stale_epoch",
            "770.0 µs",
            "process_ended",
            "1 042",
            "4 096",
            "68.0 MiB",
            "misaligned",
            "ledger",
            "waits for its owner",
            "1042",
            "9 799",
            "9 501",
            "lane 0: journal.0: write: No space left on device. Mend it",
            "3 141",
            "5 926",
            "5 358",
            "27 182",
            "28 459",
        ] {
            assert!(text.contains(wanted), "`{wanted}` is missing in:\n{text}");
        }
        assert!(
            !text.contains("runt"),
            "a cause that is zero is no news:\n{text}"
        );
        assert!(
            !text.contains("pipes\n"),
            "an empty table is left out:\n{text}"
        );
        assert!(!text.contains('\u{1b}'), "no colors were requested");
    }

    #[test]
    fn a_pipe_is_shown_with_its_pages_and_failures() {
        let mut status = sample();
        status.pipes = vec![PipeStatus {
            session: 3,
            pipe: 9,
            program: Some("player".into()),
            port: Some("eth7".into()),
            kind: PipeKind::Tx,
            capacity_bytes: 4 << 20,
            page_bytes: 3 << 20,
            rx_packets: 0,
            rx_bytes: 0,
            tx_packets: 0,
            tx_bytes: 0,
            notifications_sent: 0,
            notifications_suppressed: 0,
            head_updates: 0,
            tx_discarded_packets: 0,
            unstamped_packets: 4321,
            tx_full_packets: 8765,
            used_bytes: 128,
            drops: Causes::new(),
            port_lost_packets: 2468,
        }];
        let text = render(&status, &[], Theme::PLAIN);
        assert!(
            text.contains(&bytes(4 << 20)) && text.contains(&bytes(3 << 20)),
            "{text}"
        );
        let line = text.lines().find(|line| line.contains("player"));
        assert!(line.is_some_and(|line| line.contains("eth7")), "{text}");
        for (what, count) in [
            ("refused to the sender", "8 765"),
            ("passed without a stamp", "4 321"),
            ("lost before any pipe", "2 468"),
        ] {
            let line = text
                .lines()
                .find(|line| line.contains("session 3 pipe 9") && line.contains(what));
            assert!(
                line.is_some_and(|line| line.contains(count)),
                "{what}:\n{text}"
            );
        }
    }

    #[test]
    fn a_port_without_a_device_has_no_mode() {
        let mut status = sample();
        let port = &mut status.ports[0];
        port.absent = Some("there is no interface `eth9`".into());
        port.mode.page_bytes = 0;
        let text = render(&status, &[], Theme::PLAIN);
        assert!(text.contains("is gone: there is no interface"), "{text}");
        assert!(!text.contains("0 KiB pages"), "{text}");
    }

    #[test]
    fn one_queue_is_singular() {
        let mut one = crate::status::sample_port().mode;
        one.queues = 1;
        assert!(mode("af_xdp", &one).ends_with(", 1 queue"));
    }

    #[test]
    fn a_port_without_xdp_has_no_text_about_it() {
        let cable = PortMode {
            xdp: "none".into(),
            zero_copy: false,
            need_wakeup: false,
            page_bytes: 4096,
            queues: 1,
        };
        assert_eq!(mode("cable", &cable), "cable, 4 KiB pages");
    }

    #[test]
    fn omitted_objects_are_announced() {
        let text = render(
            &NodeStatus {
                omitted: 12,
                ..sample()
            },
            &[],
            Theme::PLAIN,
        );
        assert!(
            text.contains("12 nodes, pipes and regions are not shown"),
            "{text}"
        );
    }
}
