//! Requests of clients.

use std::os::fd::OwnedFd;

use covalent_api::{
    ethertype::OfLinks,
    name,
    request::{PipeKind, Reply, Request, Rights},
    rule::{Match, Spread},
    status::RegionStatus,
    tap::TapFrames,
    tuning::PipeTuning,
    versions::{NoCommonVersion, Versions},
};
use covalent_config::HugePages;
use covalent_ipc::event::EventFd;
use covalent_pipe::{
    Direction, PagePolicy, PipeSpec,
    session::{NicSession, SessionMemory},
};

use super::{
    Server, agreement,
    answers::{Change, Pending},
    durable_regions::Wanted,
    handover::Unmapped,
    memory::{After, PlannedPipe, PlannedRegion},
    memory_worker::Job,
    no_descriptors,
};
use crate::{
    lane::command::{Command, NewSession},
    session::{
        PipeRecord, SessionRecord,
        mappings::{PIPE_MAPPINGS, REGION_MAPPINGS, SESSION_MAPPINGS},
        quota::{Quota, session_slots},
    },
};

/// Longest name that a client may give itself, in bytes.
const PROGRAM_BYTES_MAX: usize = 64;

/// The reason for a refusal: the problem, the object and the remedy.
type Refused = String;

impl Server {
    /// Carries out a request, or has a lane carry it out.
    pub(super) fn handle(&mut self, client: u64, request: Request) {
        let greeted = self
            .clients
            .get(&client)
            .is_some_and(|client| client.greeted);
        if !greeted {
            return self.greet(client, request);
        }
        if let Err(reason) = self.try_handle(client, request) {
            self.refuse(client, reason);
        }
    }

    fn greet(&mut self, number: u64, request: Request) {
        let lanes = self.lanes.len() as u32;
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        match request {
            Request::Hello {
                version,
                oldest,
                program,
            } => {
                let hello_versions = Versions {
                    oldest: oldest.unwrap_or(version),
                    newest: version,
                };
                let Some(version) = Versions::SUPPORTED.common(hello_versions) else {
                    let apart = NoCommonVersion {
                        server: "covalentd",
                        server_versions: Versions::SUPPORTED,
                        client: "this program",
                        client_versions: hello_versions,
                    };
                    client.turn_away_version(apart.to_string());
                    self.count_refused("version");
                    return;
                };
                client.greeted = true;
                client.program = program
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(PROGRAM_BYTES_MAX)
                    .collect();
                let reply = Reply::Welcome {
                    version,
                    speaks: Some(Versions::SUPPORTED),
                    node: self.config.node.name.clone(),
                    guid: self.guid,
                    lanes,
                    ports: self.ports.briefs(),
                };
                client.reply(&reply, Vec::new());
            }
            _ => {
                client.turn_away("the first message of a connection must be `hello`");
                self.count_refused("bad_message");
            }
        }
    }

    fn try_handle(&mut self, client: u64, request: Request) -> Result<(), Refused> {
        if request != Request::Mapped {
            self.forgo_unmapped(client);
        }
        match request {
            Request::Hello { .. } => Err("this connection has sent `hello` already".to_owned()),
            Request::OpenSession { lane } => {
                if self.turn_away_reopening(client) {
                    return Ok(());
                }
                self.open_session(client, lane)
            }
            Request::OpenPipe {
                kind,
                capacity_bytes,
                port,
                completions,
            } => self.open_pipe(client, None, kind, capacity_bytes, port, completions),
            Request::OpenPipeAgain {
                pipe,
                kind,
                capacity_bytes,
                port,
                completions,
            } => self.open_pipe(client, Some(pipe), kind, capacity_bytes, port, completions),
            Request::ClosePipe { pipe } => self.close_pipe(client, pipe),
            Request::Bind {
                pipe,
                matches,
                spread,
            } => self.bind(client, pipe, matches, spread),
            Request::Unbind { pipe, matches } => self.unbind(client, pipe, matches),
            Request::TunePipe { pipe, tuning } => self.tune(client, pipe, tuning),
            Request::Tap { .. } if !self.admission.commands(self.uid_of(client)) => Err(format!(
                "user {} may not see the traffic of others: run as root or as the daemon's user",
                self.uid_of(client)
            )),
            Request::Tap {
                pipe,
                frames,
                snap_bytes,
            } => self.tap(client, pipe, frames, snap_bytes),
            Request::RegisterRegion {
                name,
                size_bytes,
                rights,
                durable,
            } => self.register(client, None, name, size_bytes, rights, durable),
            Request::RegisterRegionAgain {
                rkey,
                seal,
                name,
                size_bytes,
                rights,
                durable,
            } => {
                let uid = self.uid_of(client);
                self.tokens.check(seal, rkey, uid, &name)?;
                let mut regions = self.sessions.values().flat_map(|it| &it.regions);
                if regions.any(|region| region.rkey == rkey) {
                    return Err(format!("another region has the key {rkey:#x}"));
                }
                self.rkeys.may_claim(rkey, uid)?;
                self.register(client, Some(rkey), name, size_bytes, rights, durable)
            }
            Request::Mapped => self.mapped(client),
            Request::WithdrawRegion { rkey } => self.withdraw_region(client, rkey),
            Request::DeleteRegion { name } => self.delete_region(client, name),
            Request::Agreement
            | Request::AgreedText { .. }
            | Request::Draft { .. }
            | Request::Offer { .. }
                if !self.admission.commands(self.uid_of(client)) =>
            {
                Err(format!(
                    "user {} may not change the configuration: run as root or as the daemon's user",
                    self.uid_of(client)
                ))
            }
            Request::Agreement => {
                self.query_agreement(client);
                Ok(())
            }
            Request::AgreedText { from_bytes } => self.agreed_text(client, from_bytes),
            Request::Draft { from_bytes, text } => self.draft(client, from_bytes, &text),
            Request::Offer {
                epoch,
                believes,
                digest,
                reopen,
            } => {
                self.proposed(client, agreement::proposal(epoch, believes, digest), reopen);
                Ok(())
            }
            Request::Status => {
                self.begin_status(client);
                Ok(())
            }
            Request::Subscribe => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.subscribed = true;
                    client.reply(&Reply::Done, Vec::new());
                }
                Ok(())
            }
            Request::Events { from } => {
                let (events, next) = self.recent.since(from);
                self.reply_to(client, &Reply::Events { events, next }, Vec::new());
                Ok(())
            }
            Request::SetPort { port, enabled } => {
                self.order_port(client, &port, |port| Command::SetPort { port, enabled })
            }
            Request::SetFaults { port, rx, tx } => {
                rx.check().and_then(|()| tx.check())?;
                self.order_port(client, &port, |port| Command::SetFaults { port, rx, tx })
            }
        }
    }

    /// Whether this client requests another session and is turned away for it. One connection has
    /// one session, even if it gave that up. A client could otherwise have the memory of many
    /// sessions allocated, map none of it, and avoid all charges.
    fn turn_away_reopening(&mut self, client: u64) -> bool {
        let Some(client) = self
            .clients
            .get_mut(&client)
            .filter(|client| client.opened_session)
        else {
            return false;
        };
        client.turn_away(
            "this connection has opened its session already, and one connection is one session: \
             connect again for another",
        );
        self.count_refused("bad_message");
        true
    }

    fn open_session(&mut self, client: u64, lane: u32) -> Result<(), Refused> {
        if lane as usize >= self.lanes.len() {
            return Err(format!(
                "there is no lane {lane}: this node has lanes 0 to {}",
                self.lanes.len() - 1
            ));
        }
        let uid = self.uid_of(client);
        self.admit_mappings(uid, SESSION_MAPPINGS)?;
        let slots = session_slots(self.config.dataplane.pipes_per_session_max);
        let memory = SessionMemory::create(slots).map_err(|error| error.to_string())?;
        // Neither descriptor can block the lane, whatever the application does to its end: see
        // `EventFd`.
        let (to_application, application_end) = EventFd::one_way().map_err(no_descriptors)?;
        let to_lane = EventFd::new().map_err(no_descriptors)?;
        let lane_end = to_lane.try_clone().map_err(no_descriptors)?;
        let kept = memory.fd().try_clone_to_owned().map_err(no_descriptors)?;
        let fds = vec![
            memory.fd().try_clone_to_owned().map_err(no_descriptors)?,
            application_end.into(),
            lane_end.into(),
        ];
        let session = self.next_session;
        self.next_session += 1;
        self.sessions.insert(
            session,
            SessionRecord {
                client,
                uid,
                lane,
                slots,
                pipes: std::collections::BTreeMap::new(),
                regions: Vec::new(),
                quota: Quota::new(&self.config.dataplane),
                attached: false,
                errands: 0,
                end: None,
            },
        );
        let mut program = Box::default();
        if let Some(client) = self.clients.get_mut(&client) {
            client.session = Some(session);
            client.opened_session = true;
            program = client.program.as_str().into();
        }
        let rings = NicSession::new(memory);
        let command = Command::Attach(Box::new(NewSession {
            session,
            uid,
            program,
            commands: self.admission.commands(uid),
            rings,
            to_application,
            to_lane,
        }));
        let unmapped = Unmapped {
            session,
            // Its size follows from the configuration and is small.
            bytes: 0,
            mappings: SESSION_MAPPINGS,
            lane,
            command,
            change: Change::Attached { session },
            memory: vec![kept],
        };
        let reply = Reply::Session { session, slots };
        self.hand_over(client, &reply, fds, unmapped);
        Ok(())
    }

    fn open_pipe(
        &mut self,
        client: u64,
        number: Option<u32>,
        kind: PipeKind,
        capacity_bytes: u64,
        port: Option<String>,
        completions: Option<u32>,
    ) -> Result<(), Refused> {
        let session = self.session_of(client)?;
        let record = &self.sessions[&session];
        let lane = record.lane;
        if let Some(number) = number
            && !record.may_number(number)
        {
            return Err(format!(
                "session {session} has a pipe {number} already, or can have none of that number: \
                 they are below {}",
                record.slots - 1
            ));
        }
        let port = self.port_of_pipe(kind, port.as_deref(), lane)?;
        let partner = record.partner(kind, completions)?;
        let frame_bytes_max = match (kind, port) {
            (PipeKind::Tx | PipeKind::RxTx, Some(port)) => {
                self.ports.get(port).map_or(0, |port| port.frame_bytes_max)
            }
            _ => 0,
        };
        let link_ethertype = match kind {
            PipeKind::VerbSubmit | PipeKind::VerbComplete => None,
            PipeKind::Rx | PipeKind::Tx | PipeKind::RxTx | PipeKind::RxBytes => {
                self.link_ethertype(lane, port)
            }
        };
        let pages = match self.config.dataplane.huge_pages {
            HugePages::Auto => PagePolicy::Auto,
            HugePages::Require => PagePolicy::Require,
            HugePages::Never => PagePolicy::Never,
        };
        self.admit_mappings(record.uid, PIPE_MAPPINGS)?;
        let elsewhere_bytes = self.memory_elsewhere(session);
        let record = self
            .sessions
            .get_mut(&session)
            .ok_or_else(|| no_session(session))?;
        record.quota.take_pipe(capacity_bytes, elsewhere_bytes)?;
        let job = Job::MakePipe(PipeSpec {
            direction: direction(kind),
            capacity_bytes,
            pages,
        });
        let planned = PlannedPipe {
            lane,
            number,
            kind,
            port,
            partner,
            capacity_bytes,
            frame_bytes_max,
            link_ethertype,
        };
        let after = After::OpenPipe(planned);
        self.send_on_errand(session, Some(client), capacity_bytes, job, after);
        Ok(())
    }

    /// The EtherType that pipes on this port, or with `None` on all ports of the lane, do not
    /// carry.
    fn link_ethertype(&self, lane: u32, port: Option<u16>) -> Option<u16> {
        let linked = self.ports.any_has_link(lane, port);
        linked.then_some(self.config.link.ethertype)
    }

    /// The number of the port that a pipe of `kind` names, if that is as it should be.
    fn port_of_pipe(
        &self,
        kind: PipeKind,
        port: Option<&str>,
        lane: u32,
    ) -> Result<Option<u16>, Refused> {
        match (kind, port) {
            (PipeKind::VerbSubmit | PipeKind::VerbComplete, Some(_)) => {
                Err(format!("a {kind} pipe has no port: give `port` as null"))
            }
            (PipeKind::Tx | PipeKind::RxTx, None) => Err(format!(
                "{kind} pipes send on a port: name one of {}",
                self.ports.names()
            )),
            (_, None) => Ok(None),
            (_, Some(name)) => {
                let (number, port) = self.ports.find(name)?;
                let owner = port.lane;
                if owner != lane {
                    return Err(format!(
                        "port `{name}` belongs to lane {owner} and this session is on lane {lane}: \
                         open a session on lane {owner}"
                    ));
                }
                Ok(Some(number))
            }
        }
    }

    fn close_pipe(&mut self, client: u64, pipe: u32) -> Result<(), Refused> {
        let session = self.session_of(client)?;
        let (lane, _) = self.pipe_of(session, pipe)?;
        let change = Change::Closed {
            session,
            number: pipe,
        };
        self.order_for(
            client,
            lane,
            Command::ClosePipe { session, pipe },
            Reply::Done,
            Vec::new(),
            change,
        );
        Ok(())
    }

    fn bind(
        &mut self,
        client: u64,
        pipe: u32,
        matches: Match,
        spread: Option<Spread>,
    ) -> Result<(), Refused> {
        let session = self.session_of(client)?;
        let (lane, record) = self.pipe_of(session, pipe)?;
        if !matches!(
            record.kind,
            PipeKind::Rx | PipeKind::RxTx | PipeKind::RxBytes
        ) {
            return Err(format!(
                "pipe {pipe} is of kind {}: only RX, RX/TX and byte pipes receive frames",
                record.kind
            ));
        }
        matches.check().map_err(|error| error.to_string())?;
        // A lane takes such frames for its links, so the pipe would never receive one.
        if let Match::EtherType { ethertype } = matches
            && self.link_ethertype(lane, record.port) == Some(ethertype)
        {
            return Err(OfLinks(ethertype).to_string());
        }
        let record = self
            .sessions
            .get_mut(&session)
            .ok_or_else(|| no_session(session))?;
        record.quota.take_binding()?;
        if let Some(pipe) = record.pipes.get_mut(&pipe) {
            pipe.bindings += 1;
        }
        let change = Change::Bound {
            session,
            number: pipe,
        };
        self.order_for(
            client,
            lane,
            Command::Bind {
                session,
                pipe,
                matches,
                spread,
            },
            Reply::Done,
            Vec::new(),
            change,
        );
        Ok(())
    }

    fn unbind(&mut self, client: u64, pipe: u32, matches: Match) -> Result<(), Refused> {
        let session = self.session_of(client)?;
        let (lane, _) = self.pipe_of(session, pipe)?;
        let change = Change::Unbound {
            session,
            number: pipe,
        };
        self.order_for(
            client,
            lane,
            Command::Unbind {
                session,
                pipe,
                matches,
            },
            Reply::Done,
            Vec::new(),
            change,
        );
        Ok(())
    }

    fn tap(
        &mut self,
        client: u64,
        pipe: u32,
        frames: TapFrames,
        snap_bytes: u32,
    ) -> Result<(), Refused> {
        let session = self.session_of(client)?;
        let (lane, record) = self.pipe_of(session, pipe)?;
        if record.kind != PipeKind::Rx {
            return Err(format!(
                "pipe {pipe} is of kind {}: captures go into RX pipes",
                record.kind
            ));
        }
        if !(14..=65_535).contains(&snap_bytes) {
            return Err(format!(
                "{snap_bytes} bytes of each frame: expected 14 to 65535"
            ));
        }
        let command = Command::Tap {
            session,
            pipe,
            frames,
            snap_bytes,
        };
        let (reply, change) = (Reply::Done, Change::None);
        self.order_for(client, lane, command, reply, Vec::new(), change);
        Ok(())
    }

    fn tune(&mut self, client: u64, pipe: u32, tuning: PipeTuning) -> Result<(), Refused> {
        let session = self.session_of(client)?;
        let (lane, record) = self.pipe_of(session, pipe)?;
        let kind = record.kind;
        if matches!(kind, PipeKind::VerbSubmit | PipeKind::VerbComplete) {
            return Err(format!(
                "pipe {pipe} is a {kind} pipe: verbs have no rate limit and no stamp"
            ));
        }
        if tuning.rate_limit.is_some() && !matches!(kind, PipeKind::Tx | PipeKind::RxTx) {
            return Err(format!(
                "pipe {pipe} is of kind {kind} and sends nothing: a rate limit is for TX and RX/TX \
                 pipes"
            ));
        }
        if tuning.stamp_at_bytes.is_some() && kind == PipeKind::RxBytes {
            return Err(format!(
                "pipe {pipe} is a byte pipe: its bytes are of datagrams of unknown ends and \
                 are not stamped"
            ));
        }
        tuning
            .check(record.packet_bytes_max)
            .map_err(|error| format!("pipe {pipe}: {error}"))?;
        self.order_for(
            client,
            lane,
            Command::TunePipe {
                session,
                pipe,
                tuning,
            },
            Reply::Done,
            Vec::new(),
            Change::None,
        );
        Ok(())
    }

    /// Registers a region, under the key that it `had` with a daemon before if there is one.
    fn register(
        &mut self,
        client: u64,
        had: Option<u32>,
        name: String,
        size_bytes: u64,
        rights: Rights,
        durable: bool,
    ) -> Result<(), Refused> {
        let session = self.session_of(client)?;
        name::check(&name).map_err(|error| format!("region name `{name}`: {error}"))?;
        if let Some(holder) = self.session_with(&name) {
            return Err(format!(
                "region `{name}` is registered already, by session {holder}: choose another name"
            ));
        }
        self.admit_mappings(self.uid_of(client), REGION_MAPPINGS)?;
        let record = self
            .sessions
            .get(&session)
            .ok_or_else(|| no_session(session))?;
        self.durable_regions.check(Wanted {
            name: &name,
            uid: record.uid,
            lane: record.lane,
            size_bytes,
            durable,
        })?;
        let elsewhere_bytes = self.memory_elsewhere(session);
        let record = self
            .sessions
            .get_mut(&session)
            .ok_or_else(|| no_session(session))?;
        record.quota.take_region(size_bytes, elsewhere_bytes)?;
        // After all checks that may refuse: a key is never issued twice, and a refused request uses
        // up none.
        let rkey = match had {
            None => self.rkeys.draw(),
            Some(rkey) => {
                self.rkeys.claim(rkey, record.uid)?;
                rkey
            }
        };
        let region = RegionStatus {
            name,
            rkey,
            size_bytes,
            session,
        };
        // At once, so that no other request takes the name while the memory is allocated.
        record.regions.push(region.clone());
        let planned = PlannedRegion {
            lane: record.lane,
            region,
            rights,
            durable,
        };
        let (job, after) = (Job::MakeRegion(size_bytes), After::Register(planned));
        self.send_on_errand(session, Some(client), size_bytes, job, after);
        Ok(())
    }

    fn withdraw_region(&mut self, client: u64, rkey: u32) -> Result<(), Refused> {
        let session = self.session_of(client)?;
        let record = self
            .sessions
            .get(&session)
            .ok_or_else(|| no_session(session))?;
        let of_key = |region: &&RegionStatus| region.rkey == rkey;
        let region =
            record.regions.iter().find(of_key).ok_or_else(|| {
                format!("there is no region with key {rkey:#x} in session {session}")
            })?;
        let (lane, size_bytes) = (record.lane, region.size_bytes);
        let change = Change::Withdrawn {
            session,
            rkey,
            size_bytes,
        };
        let command = Command::Withdraw { session, rkey };
        self.order_for(client, lane, command, Reply::Done, Vec::new(), change);
        Ok(())
    }

    fn delete_region(&mut self, client: u64, name: String) -> Result<(), Refused> {
        let own = self.clients.get(&client).and_then(|client| client.session);
        if let Some(holder) = self
            .session_with(&name)
            .filter(|&holder| Some(holder) != own)
        {
            return Err(format!(
                "region `{name}` is registered by session {holder}: stop that application first, \
                 or have it delete the region itself"
            ));
        }
        let uid = self.uid_of(client);
        let commands = self.admission.commands(uid);
        let lane = self.durable_regions.begin_delete(&name, uid, commands)?;
        let command = Command::DeleteRegion { name: name.clone() };
        let change = Change::Deleted { name };
        self.order_for(client, lane, command, Reply::Done, Vec::new(), change);
        Ok(())
    }

    /// The session that has a region of this name.
    pub(super) fn session_with(&self, name: &str) -> Option<u64> {
        self.sessions
            .iter()
            .find(|(_, record)| record.regions.iter().any(|region| region.name == name))
            .map(|(&session, _)| session)
    }

    /// Has the lane of a port change it.
    fn order_port(
        &mut self,
        client: u64,
        name: &str,
        command: impl FnOnce(u16) -> Command,
    ) -> Result<(), Refused> {
        let uid = self.uid_of(client);
        if !self.admission.commands(uid) {
            return Err(format!(
                "user {uid} may not change ports: run as root or as the daemon's user"
            ));
        }
        let (port, entry) = self.ports.find(name)?;
        let lane = entry.lane;
        self.order_for(
            client,
            lane,
            command(port),
            Reply::Done,
            Vec::new(),
            Change::None,
        );
        Ok(())
    }

    /// Sends a command to a lane. The client gets `reply` when it is done.
    pub(super) fn order_for(
        &mut self,
        client: u64,
        lane: u32,
        command: Command,
        reply: Reply,
        fds: Vec<OwnedFd>,
        change: Change,
    ) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.busy = true;
        }
        self.order(
            lane,
            command,
            Pending::Reply {
                client,
                reply: Box::new(reply),
                fds,
                change,
            },
        );
    }

    pub(super) fn uid_of(&self, client: u64) -> u32 {
        self.clients
            .get(&client)
            .map_or(u32::MAX, |client| client.credentials.uid)
    }

    /// Memory charged to the other sessions of the user of `session`, in bytes. Always 0 for root
    /// and the daemon's own user.
    fn memory_elsewhere(&self, session: u64) -> u64 {
        let uid = self.sessions.get(&session).map(|record| record.uid);
        if uid.is_none_or(|uid| self.admission.commands(uid)) {
            return 0;
        }
        self.sessions
            .iter()
            .filter(|(other, record)| **other != session && Some(record.uid) == uid)
            .map(|(_, record)| record.quota.memory_bytes())
            .sum()
    }

    fn session_of(&self, client: u64) -> Result<u64, Refused> {
        let client = self.clients.get(&client);
        client.and_then(|client| client.session).ok_or_else(|| {
            if client.is_some_and(|client| client.opened_session) {
                "the session of this connection was closed before it was served: connect again, \
                 send `open_session`, map the memory of its reply, and send `mapped` before any \
                 other request"
            } else {
                "this connection has no session yet: send `open_session` first, and `mapped` after \
                 it, once the memory of its reply is mapped"
            }
            .to_owned()
        })
    }

    fn pipe_of(&self, session: u64, pipe: u32) -> Result<(u32, PipeRecord), Refused> {
        let record = self
            .sessions
            .get(&session)
            .ok_or_else(|| no_session(session))?;
        let found = record
            .pipes
            .get(&pipe)
            .ok_or_else(|| format!("there is no pipe {pipe} in session {session}"))?;
        Ok((record.lane, *found))
    }
}

const fn direction(kind: PipeKind) -> Direction {
    match kind {
        PipeKind::Rx | PipeKind::VerbComplete => Direction::Rx,
        PipeKind::Tx | PipeKind::VerbSubmit => Direction::Tx,
        PipeKind::RxTx => Direction::RxTx,
        PipeKind::RxBytes => Direction::RxBytes,
    }
}

fn no_session(session: u64) -> Refused {
    format!("session {session} is being detached")
}
