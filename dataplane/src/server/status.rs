//! The node's status, assembled from the lanes' reports.

use std::{collections::BTreeMap, fs, process};

use covalent_api::{
    request::Reply,
    status::{
        FabricStatus, FarNodeStatus, GroupStatus, LaneStatus, LinkStatus, NodeStatus, PathStatus,
        PipeStatus, PortStatus, VerbStatus,
    },
};
use covalent_config::lane_cable_name;

use super::{Server, answers::Pending};
use crate::lane::command::{Answer, Command, LaneSnapshot};

/// Pipes stored for a status: more than fit into one datagram. Further pipes are only counted.
const PIPES_KEPT_MAX: usize = 256;

/// A status being put together.
#[derive(Debug, Default)]
pub struct StatusRound {
    client: u64,
    /// Lanes that have not reported everything.
    missing: usize,
    lanes: Vec<LaneStatus>,
    ports: Vec<(u16, PortStatus)>,
    links: Vec<LinkStatus>,
    fabric: Option<FabricStatus>,
    /// Other nodes as each lane knows them.
    nodes: BTreeMap<u32, Vec<FarNodeStatus>>,
    paths: Vec<PathStatus>,
    groups: Vec<GroupStatus>,
    pipes: Vec<PipeStatus>,
    /// Pipes that are not kept.
    omitted: u64,
    verbs: VerbStatus,
}

impl Server {
    /// Queries every lane for its part. The client gets its reply when all parts have arrived.
    ///
    /// A lane reports its pipes first, a few in each round, however many an application has. The
    /// counts of its ports come last, so that they include frames that the applications of those
    /// pipes refused.
    pub(super) fn begin_status(&mut self, client: u64) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.busy = true;
        }
        let round = self.next_ticket;
        self.status_rounds.insert(
            round,
            StatusRound {
                client,
                missing: self.lanes.len(),
                ..StatusRound::default()
            },
        );
        for lane in 0..self.lanes.len() as u32 {
            self.order_part(round, lane, Command::SnapshotPipes { from: 0 });
        }
    }

    fn order_part(&mut self, round: u64, lane: u32, command: Command) {
        self.order(lane, command, Pending::Status { round, lane });
    }

    /// A part of a lane's has come.
    pub(super) fn status_part(&mut self, round: u64, lane: u32, part: Answer) {
        let Some(parts) = self.status_rounds.get_mut(&round) else {
            return;
        };
        match part {
            Answer::Pipes { pipes, next } => {
                if !self.clients.contains_key(&parts.client) {
                    // No client waits for the rest.
                    self.status_rounds.remove(&round);
                    return;
                }
                parts.keep(pipes);
                let command =
                    next.map_or(Command::Snapshot, |from| Command::SnapshotPipes { from });
                return self.order_part(round, lane, command);
            }
            Answer::Snapshot(snapshot) => parts.add(*snapshot),
            Answer::Done
            | Answer::InDoubt(_)
            | Answer::Left { .. }
            | Answer::Released(_)
            | Answer::Stepped(_) => {}
        }
        if parts.missing > 0 {
            return;
        }
        if let Some(parts) = self.status_rounds.remove(&round) {
            let client = parts.client;
            let mut status = self.status(parts);
            status.fit();
            self.reply_to(client, &Reply::Status(Box::new(status)), Vec::new());
        }
    }

    pub(super) fn status(&self, mut parts: StatusRound) -> NodeStatus {
        let holders: BTreeMap<&str, u64> = self
            .sessions
            .iter()
            .flat_map(|(&session, record)| {
                let names = record.regions.iter().map(|region| region.name.as_str());
                names.map(move |name| (name, session))
            })
            .collect();
        parts.lanes.sort_by_key(|lane| lane.lane);
        parts.ports.sort_by_key(|(index, _)| *index);
        parts.paths.sort_by_key(|path| (path.lane, path.far));
        parts
            .groups
            .sort_by(|one, other| (&one.group, one.session).cmp(&(&other.group, other.session)));
        NodeStatus {
            node: self.config.node.name.clone(),
            guid: self.guid,
            pid: process::id(),
            uptime_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            resident_bytes: resident_bytes(),
            lanes: parts.lanes,
            ports: parts.ports.into_iter().map(|(_, port)| port).collect(),
            links: parts.links,
            fabric: parts.fabric,
            nodes: nodes(parts.nodes),
            paths: parts.paths,
            groups: parts.groups,
            pipes: parts.pipes,
            regions: self
                .sessions
                .values()
                .flat_map(|record| record.regions.clone())
                .collect(),
            durable_regions: self
                .durable_regions
                .status(|name| holders.get(name).copied()),
            verbs: parts.verbs,
            sessions: self.sessions.len() as u64,
            mappings: self
                .sessions
                .values()
                .map(|record| u64::from(record.quota.mappings()))
                .sum(),
            mappings_max: self.mapping_bounds.most(),
            sessions_detached: self.detached.clone(),
            violations: self.violations.clone(),
            reclaimed: self.reclaimed.clone(),
            peers_refused: self.peers_refused.clone(),
            events: self.events,
            omitted: parts.omitted,
            config: self.agreements.status(),
        }
    }
}

impl StatusRound {
    fn keep(&mut self, pipes: Vec<PipeStatus>) {
        let room = PIPES_KEPT_MAX - self.pipes.len();
        self.omitted += pipes.len().saturating_sub(room) as u64;
        self.pipes.extend(pipes.into_iter().take(room));
    }

    fn add(&mut self, snapshot: LaneSnapshot) {
        self.missing = self.missing.saturating_sub(1);
        self.ports.extend(snapshot.ports);
        self.links.extend(snapshot.links);
        if let Some(fabric) = snapshot.fabric {
            self.add_fabric(snapshot.lane.lane, fabric);
        }
        self.paths.extend(snapshot.paths);
        self.groups.extend(snapshot.groups);
        self.nodes.insert(snapshot.lane.lane, snapshot.nodes);
        self.lanes.push(snapshot.lane);
        self.verbs.submitted += snapshot.verbs.submitted;
        self.verbs.completed += snapshot.verbs.completed;
        self.verbs.in_doubt += snapshot.verbs.in_doubt;
        for (verb, count) in snapshot.verbs.executed {
            *self.verbs.executed.entry(verb).or_default() += count;
        }
        for (reason, count) in snapshot.verbs.refused {
            *self.verbs.refused.entry(reason).or_default() += count;
        }
    }
}

impl StatusRound {
    /// Trees are reported as lane 0 knows them. Each lane reports its own paths.
    fn add_fabric(&mut self, lane: u32, fabric: FabricStatus) {
        let whole = self.fabric.get_or_insert_default();
        let FabricStatus {
            paths,
            transits,
            passed_records,
            dropped_records,
            ..
        } = whole.clone();
        if lane == 0 {
            *whole = fabric.clone();
            whole.paths = paths;
            (whole.transits, whole.passed_records, whole.dropped_records) =
                (transits, passed_records, dropped_records);
        }
        for (what, count) in fabric.paths {
            *whole.paths.entry(what).or_default() += count;
        }
        whole.transits += fabric.transits;
        whole.passed_records += fabric.passed_records;
        whole.dropped_records += fabric.dropped_records;
    }
}

/// Returns the nodes that lane 0 knows. If its path to a node leads over another lane, that lane
/// reports the port.
fn nodes(mut lanes: BTreeMap<u32, Vec<FarNodeStatus>>) -> Vec<FarNodeStatus> {
    let mut nodes = lanes.remove(&0).unwrap_or_default();
    for (lane, theirs) in lanes {
        let joint = lane_cable_name(0, lane);
        for node in nodes
            .iter_mut()
            .filter(|node| node.port.as_ref() == Some(&joint))
        {
            let found = theirs.binary_search_by_key(&node.guid, |other| other.guid);
            if let Some(port) = found.ok().and_then(|at| theirs[at].port.clone()) {
                node.port = Some(port);
            }
        }
    }
    nodes
}

/// The second field of `/proc/self/statm` is resident pages (proc_pid_statm(5)).
fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .unwrap_or(4096);
    pages * page_bytes.unsigned_abs()
}
