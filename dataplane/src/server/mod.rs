//! The host thread: the socket, the sessions, and the connection between clients and lanes.
//!
//! It never touches a packet, and a lane never waits for it. Each request that changes a lane
//! becomes one command with a ticket. The client gets its reply when the lane has replied. Each
//! client has one request in flight at a time. Slow work on large memory runs on two other threads
//! ([`MemoryWorkers`]), so that no client waits here for another client's work.

pub mod admission;
mod agreement;
mod answers;
mod client;
mod counters;
mod durable_regions;
mod entered;
mod events;
mod handover;
mod lane_link;
mod leave;
mod memory;
mod memory_worker;
mod opener;
mod outgoing;
mod places;
mod port_numbers;
mod port_plan;
pub mod port_table;
mod preparation;
mod recent;
mod reconfigure;
mod region_tokens;
mod requests;
mod rkey;
mod small_pages;
mod status;
mod turns;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    MAX_DATAGRAM_BYTES,
    event::EventKind,
    guid::Guid,
    request::Reply,
    status::{Causes, ReclaimedStatus},
    versions::Versions,
};
use covalent_config::Config;
use covalent_ipc::{
    reaper::Reaper,
    seqpacket::{Connection, Listener},
};
use covalent_pipe::Violation;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::resource::{Resource, getrlimit},
};
use tracing::{debug, error, warn};

use self::{
    admission::Admission,
    answers::Pending,
    client::{Client, Received},
    memory::Errand,
    places::{HELLO_TIMEOUT, Places},
    recent::Recent,
    rkey::RkeySequence,
    status::StatusRound,
};
pub use self::{
    agreement::Agreements,
    durable_regions::{Deletion, DurableRegion, DurableRegions},
    lane_link::{LaneLink, ORDERS_MAX, REPORTS_MAX},
    memory_worker::MemoryWorkers,
    opener::Opener,
    port_table::PortTable,
    region_tokens::RegionTokens,
};
use crate::{
    carrier::{CarrierWatch, InterfaceChange},
    journal::{JournalWatch, Meddled},
    lane::command::{Command, Report},
    mailbox::Mailbox,
    port::Port,
    session::{
        SessionRecord,
        mappings::{MappingBounds, Taken},
    },
    telemetry::HostCounters,
};

/// How long to wait before another wait, if the kernel had no memory for one.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// Connections accepted in one round, so that a flood of them does not delay other clients.
const ACCEPTS_PER_ROUND: usize = 16;
/// Quarters of the descriptors that connections may have which wait to be closed; then none is
/// accepted. One user's each hold a descriptor in flight, and Linux bounds those by user.
const CLOSING_QUARTERS: usize = 3;
/// Default descriptor limit of a process.
const USUAL_DESCRIPTORS: u64 = 1024;
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a session ends, as its end is counted.
const ENDS: [&str; 3] = ["closed", "process_ended", "violation"];

/// The host thread's inputs at start.
pub struct ServerParts {
    /// The configuration in force.
    pub config: Arc<Config>,
    /// This node's identity.
    pub guid: Guid,
    /// The socket, listening.
    pub listener: Listener,
    /// Verifies that a key of an earlier daemon belongs to a region.
    pub tokens: RegionTokens,
    /// Decides which peers are admitted.
    pub admission: Admission,
    /// The lanes, by index.
    pub lanes: Vec<LaneLink>,
    /// The configuration in force, and the exchange of another one.
    pub agreements: Agreements,
    /// The threads that allocate and free memory.
    pub memory: MemoryWorkers,
    /// The thread that closes objects that are slow to close.
    pub reaper: Reaper,
    /// The ports.
    pub ports: PortTable,
    /// The ports without a device so far, with the reasons.
    pub absent: Vec<(u16, String)>,
    /// Durable regions that the journals held.
    pub durable_regions: DurableRegions,
    /// Changes of interfaces; absent where no port has one.
    pub carriers: Option<CarrierWatch>,
    /// Watches changes that other processes make to journal files. `None` if there are no journals.
    pub journals: Option<JournalWatch>,
    /// The host thread's part of the counters in shared memory, if there are any.
    pub counters: Option<HostCounters>,
    /// Rings when the daemon is to stop.
    pub stop: Arc<Mailbox<()>>,
    /// Filled to check whether this thread makes progress. This thread empties it.
    pub progress_query: Arc<Mailbox<()>>,
}

/// The host thread's state.
pub struct Server {
    config: Arc<Config>,
    guid: Guid,
    listener: Listener,
    admission: Admission,
    lanes: Vec<LaneLink>,
    ports: PortTable,
    absent: Vec<(u16, String)>,
    durable_regions: DurableRegions,
    carriers: Option<CarrierWatch>,
    journals: Option<JournalWatch>,
    counters: Option<HostCounters>,
    stop: Arc<Mailbox<()>>,
    progress_query: Arc<Mailbox<()>>,
    started: Instant,
    clients: BTreeMap<u64, Client>,
    sessions: BTreeMap<u64, SessionRecord>,
    pending: BTreeMap<u64, Pending>,
    agreements: Agreements,
    memory: MemoryWorkers,
    reaper: Reaper,
    /// Connections that wait to be closed, beyond which no more are accepted until some are.
    closing_max: usize,
    mapping_bounds: MappingBounds,
    errands: BTreeMap<u64, Errand>,
    status_rounds: BTreeMap<u64, StatusRound>,
    next_client: u64,
    next_session: u64,
    next_ticket: u64,
    rkeys: RkeySequence,
    tokens: RegionTokens,
    /// When to accept again, after a lack of descriptors made accepting fail.
    accept_at: Option<Instant>,
    /// Lanes that have nothing open any more.
    left_in_order: BTreeSet<u32>,
    events: u64,
    recent: Recent,
    detached: Causes,
    violations: Causes,
    reclaimed: ReclaimedStatus,
    peers_refused: Causes,
    buffer: Vec<u8>,
}

impl Server {
    /// A server that has not begun.
    #[must_use]
    pub fn new(parts: ServerParts) -> Self {
        let zero = |causes: &[&str]| causes.iter().map(|&cause| (cause.to_owned(), 0)).collect();
        Self {
            config: parts.config,
            guid: parts.guid,
            listener: parts.listener,
            admission: parts.admission,
            lanes: parts.lanes,
            ports: parts.ports,
            absent: parts.absent,
            durable_regions: parts.durable_regions,
            carriers: parts.carriers,
            journals: parts.journals,
            counters: parts.counters,
            stop: parts.stop,
            progress_query: parts.progress_query,
            started: Instant::now(),
            clients: BTreeMap::new(),
            sessions: BTreeMap::new(),
            pending: BTreeMap::new(),
            agreements: parts.agreements,
            memory: parts.memory,
            reaper: parts.reaper,
            closing_max: closing_max(),
            mapping_bounds: MappingBounds::of_this_system(),
            errands: BTreeMap::new(),
            status_rounds: BTreeMap::new(),
            next_client: 1,
            next_session: 1,
            next_ticket: 1,
            rkeys: RkeySequence::new(),
            tokens: parts.tokens,
            accept_at: None,
            left_in_order: BTreeSet::new(),
            events: 0,
            recent: Recent::default(),
            detached: zero(&ENDS),
            violations: zero(&Violation::CAUSES),
            reclaimed: ReclaimedStatus {
                pipes: zero(&ENDS),
                bindings: zero(&ENDS),
                regions: zero(&ENDS),
                verbs: zero(&ENDS),
                memory_bytes: zero(&ENDS),
            },
            peers_refused: zero(&[
                "bad_message",
                "credentials",
                "no_hello",
                "too_many",
                "version",
            ]),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
        }
    }

    /// Serves until the stop bell rings. The lanes run on.
    ///
    /// # Errors
    /// `poll(2)` failed, which leaves nothing to serve with.
    pub fn run(mut self) -> io::Result<()> {
        let served = self.serve_until_stopped();
        let clients: Vec<u64> = self.clients.keys().copied().collect();
        for number in clients {
            self.close_client(number);
        }
        // Connections that were never accepted may also hold messages that are slow to close.
        self.reaper.close(u32::MAX, self.listener);
        served
    }

    fn serve_until_stopped(&mut self) -> io::Result<()> {
        for (number, reason) in std::mem::take(&mut self.absent) {
            self.port_gone(number, reason, None);
        }
        loop {
            let ready = self.wait()?;
            if !self.stop.is_empty() {
                self.leave();
                self.take_leave();
                self.end_counters();
                return Ok(());
            }
            self.progress_query.silence();
            self.progress_query.pop();
            self.take_reports();
            self.take_errands();
            self.take_message();
            if ready.carriers {
                self.read_carriers();
            }
            if ready.journals {
                self.check_journals();
            }
            for (client, hung_up) in ready.clients {
                self.serve(client, hung_up);
            }
            for client in ready.orphaned {
                self.hang_up(client);
            }
            for client in ready.silent {
                self.turn_away_silent(client);
            }
            if ready.listener {
                self.accept();
            }
            self.sweep();
            self.write_counters();
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let now = Instant::now();
        let pause = self.accept_at.map(|at| at.saturating_duration_since(now));
        let accepts = pause.is_none_or(|pause| pause.is_zero());
        let mut listener_flags = PollFlags::empty();
        listener_flags.set(PollFlags::POLLIN, accepts);
        let hello_due = self.clients.values().filter_map(Client::hello_due).min();
        let until_hello = hello_due.map(|at| at.saturating_duration_since(now));
        let counters_due = self.counters.as_ref().map(HostCounters::due_at);
        let until_counters = counters_due.map(|at| at.saturating_duration_since(now));
        let timeout = [pause.filter(|_| !accepts), until_hello, until_counters]
            .into_iter()
            .flatten()
            .min()
            // One millisecond more, so that the deadline has passed when the poll times out.
            .map_or(PollTimeout::NONE, |wait| {
                PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
        let mut fds = vec![
            PollFd::new(self.listener.as_fd(), listener_flags),
            readable(self.stop.as_fd()),
            readable(self.progress_query.as_fd()),
            readable(self.memory.as_fd()),
            readable(self.agreements.opener().as_fd()),
        ];
        fds.extend(self.lanes.iter().map(|lane| readable(lane.reports.as_fd())));
        let clients_at = fds.len();
        fds.extend(self.clients.values().map(|client| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLIN, client.may_request());
            flags.set(PollFlags::POLLOUT, client.has_outgoing());
            PollFd::new(client.connection().as_fd(), flags)
        }));
        let carriers_at = fds.len();
        fds.extend(
            self.carriers
                .iter()
                .map(|carriers| readable(carriers.as_fd())),
        );
        let journals_at = fds.len();
        fds.extend(
            self.journals
                .iter()
                .map(|journals| readable(journals.as_fd())),
        );
        let owners_at = fds.len();
        let owned = |(&number, client): (&u64, &'_ Client)| client.owner().map(|_| number);
        let owned: Vec<u64> = self.clients.iter().filter_map(owned).collect();
        let owners = self.clients.values().filter_map(Client::owner);
        fds.extend(owners.map(readable));
        // Commands that found a lane's mailbox full are sent again when the lane reports, which it
        // always does.
        let looked = match poll(&mut fds, timeout) {
            Ok(_) => true,
            Err(Errno::EINTR) => false,
            // It passes, and this thread must not end for it.
            Err(Errno::ENOMEM | Errno::EAGAIN) => {
                thread::sleep(RETRY_PAUSE);
                false
            }
            Err(error) => return Err(error.into()),
        };
        let hang_up = PollFlags::POLLHUP | PollFlags::POLLERR;
        let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        Ok(Ready {
            listener: is_ready(&fds[0]),
            clients: self
                .clients
                .keys()
                .zip(&fds[clients_at..carriers_at])
                .filter(|(_, fd)| is_ready(fd))
                .map(|(&client, fd)| {
                    (
                        client,
                        fd.revents().is_none_or(|flags| flags.intersects(hang_up)),
                    )
                })
                .collect(),
            silent: self
                .clients
                .iter()
                .zip(&fds[clients_at..carriers_at])
                .filter(|((_, client), fd)| {
                    // Due before the poll: a hello that arrived while this thread was busy counts.
                    looked && !is_ready(fd) && client.hello_due().is_some_and(|at| at <= now)
                })
                .map(|((&client, _), _)| client)
                .collect(),
            carriers: fds[carriers_at..journals_at].iter().any(is_ready),
            journals: fds[journals_at..owners_at].iter().any(is_ready),
            orphaned: owned
                .into_iter()
                .zip(&fds[owners_at..])
                .filter(|(_, fd)| looked && is_ready(fd))
                .map(|(client, _)| client)
                .collect(),
        })
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_ROUND {
            if self.reaper.waiting() >= self.closing_max {
                self.pause_accepting("too many connections wait to be closed");
                return;
            }
            let connection = match self.listener.accept() {
                Ok(connection) => connection,
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.pause_accepting(&format!("{error} (see `ulimit -n`)"));
                    }
                    return;
                }
            };
            self.accept_at = None;
            if let Err(error) = self.admit(connection) {
                debug!(%error, "a client disconnected before the greeting");
            }
        }
    }

    /// Pauses accepting. The listener stays readable: without a pause this thread would do nothing
    /// else. Logged once until a connection is accepted.
    fn pause_accepting(&mut self, reason: &str) {
        let next = Instant::now() + ACCEPT_PAUSE;
        if self.accept_at.replace(next).is_none() {
            warn!(reason, "no connection can be accepted for now");
        }
    }

    fn admit(&mut self, connection: Connection) -> io::Result<()> {
        connection.set_nonblocking(true)?;
        let credentials = connection.peer_credentials()?;
        let groups = connection.peer_groups().unwrap_or_default();
        let mut client = Client::new(connection, credentials);
        let (uid, gid) = (credentials.uid, credentials.gid);
        if !self.admission.admits(uid, gid, &groups) {
            self.count_refused("credentials");
            client.turn_away(format!(
                "user {uid} (group {gid}) may not use this node: {}",
                self.admission.remedy()
            ));
        } else if let Err(reason) = self.find_place(uid) {
            self.count_refused("too_many");
            client.turn_away(reason);
        }
        let number = self.next_client;
        self.next_client += 1;
        self.clients.insert(number, client);
        Ok(())
    }

    /// Finds a connection slot for user `uid`, if necessary by closing a connection that was turned
    /// away.
    fn find_place(&mut self, uid: u32) -> Result<(), String> {
        let commands = self.admission.commands(uid);
        self.places(uid).admit(uid, commands).or_else(|_| {
            self.evict();
            self.places(uid).admit(uid, commands)
        })
    }

    fn places(&self, uid: u32) -> Places {
        let by_user = |client: &&Client| client.credentials.uid == uid;
        Places {
            taken: self.clients.len(),
            taken_by_user: self.clients.values().filter(by_user).count()
                + self.reaper.waiting_of(uid),
        }
    }

    fn turn_away_silent(&mut self, number: u64) {
        self.count_refused("no_hello");
        if let Some(client) = self.clients.get_mut(&number) {
            client.turn_away(format!(
                "no `hello` arrived within {HELLO_TIMEOUT:?} of connecting: connect again and send \
                 it at once"
            ));
        }
    }

    /// Sends and receives for one client that `poll(2)` found ready.
    fn serve(&mut self, number: u64, hung_up: bool) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        client.send();
        if !client.may_request() {
            if hung_up {
                self.hang_up(number);
            }
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let received = client.receive(&mut buffer);
        self.buffer = buffer;
        match received {
            Received::Request(request) => self.handle(number, *request),
            Received::Nothing => {}
            Received::Unknown(problem) => {
                self.forgo_unmapped(number);
                self.refuse(
                    number,
                    format!(
                        "{problem}; this daemon speaks {}, and nothing was changed",
                        Versions::SUPPORTED
                    ),
                );
            }
            Received::Garbage(problem) => {
                self.count_refused("bad_message");
                if let Some(client) = self.clients.get_mut(&number) {
                    client.turn_away(format!(
                        "{problem}; speak JSON as in covalent-api, {}",
                        Versions::SUPPORTED
                    ));
                }
            }
            Received::HungUp => self.hang_up(number),
        }
    }

    fn hang_up(&mut self, number: u64) {
        let Some(client) = self.clients.get(&number) else {
            return;
        };
        let class = if client.process_ended() {
            "process_ended"
        } else {
            "closed"
        };
        self.remove_client(number, class, None);
    }

    /// Forgets a client, and has everything that it held reclaimed.
    fn remove_client(&mut self, number: u64, class: &'static str, reason: Option<String>) {
        self.withdraw(number);
        let Some(mut client) = self.clients.remove(&number) else {
            return;
        };
        let session = client.session.take();
        self.agreement_without(number);
        debug!(
            client = number,
            program = client.program,
            class,
            "client disconnected"
        );
        self.close_connection(client);
        self.end_session(session, class, reason);
    }

    fn close_client(&mut self, number: u64) {
        if let Some(client) = self.clients.remove(&number) {
            self.close_connection(client);
        }
    }

    /// Closes a connection. Unread messages in it may carry objects that are slow to close.
    fn close_connection(&self, client: Client) {
        let uid = client.credentials.uid;
        if let Some(laden) = client.hang_up() {
            self.reaper.close(uid, laden);
        }
    }

    fn end_session(&mut self, session: Option<u64>, class: &'static str, reason: Option<String>) {
        if let Some(session) = session {
            self.detach(
                session,
                class,
                reason.unwrap_or_else(|| class.replace('_', " ")),
            );
        }
    }

    /// A client is leaving: revokes the job that it waits for, the memory that it was handed, and
    /// unsent descriptors. Otherwise a client that was turned away and does not read the reason
    /// would keep those descriptors, charged to no session. This thread would have to close them in
    /// the end.
    fn withdraw(&mut self, number: u64) {
        self.call_off_errand(number);
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        let (session, unsent) = (client.session, client.take_unsent_descriptors());
        let bytes = self.forgo_unmapped(number);
        if let Some(session) = session
            && !unsent.is_empty()
        {
            self.release(session, bytes, 0, unsent);
        }
    }

    /// Ends clients that were turned away. Their resources are reclaimed at once. Their connections
    /// close when they have read the reason.
    fn sweep(&mut self) {
        let closing: Vec<u64> = self
            .clients
            .iter()
            .filter(|(_, client)| client.closing)
            .map(|(&number, _)| number)
            .collect();
        for number in closing {
            self.withdraw(number);
            let Some(client) = self.clients.get_mut(&number) else {
                continue;
            };
            let session = client.session.take();
            if !client.has_outgoing() {
                self.remove_client(number, "closed", None);
            }
            self.end_session(session, "closed", None);
        }
    }

    /// Frees a slot for a new client by removing a client that was turned away and does not read
    /// the reason.
    fn evict(&mut self) {
        let closing = self
            .clients
            .iter()
            .find(|(_, client)| client.closing)
            .map(|(&number, _)| number);
        if let Some(number) = closing {
            self.remove_client(number, "closed", None);
        }
    }

    fn read_carriers(&mut self) {
        let mut changes = Vec::new();
        let Some(carriers) = &mut self.carriers else {
            return;
        };
        if let Err(error) = carriers.read(|change| changes.push(change)) {
            error!(%error, "carrier changes can no longer be watched; links rely on their own \
                evidence");
            self.carriers = None;
        }
        for change in changes {
            match change {
                InterfaceChange::Carrier { interface, up } => {
                    for (port, lane) in self.ports.on_interface(&interface) {
                        self.order_unanswered(lane, Command::SetCarrier { port, up });
                    }
                }
                InterfaceChange::Removed { interface, index } => {
                    for (port, lane) in self.ports.on_removed(&interface, index) {
                        let reason = format!(
                            "interface `{interface}` was removed; covalent-control reopens the \
                             port when it returns"
                        );
                        self.order_unanswered(lane, Command::LosePort { port, reason });
                    }
                }
            }
        }
    }

    /// Ends journals whose files another process has changed.
    fn check_journals(&mut self) {
        let mut harm = Vec::new();
        let Some(journals) = &mut self.journals else {
            return;
        };
        if let Err(error) = journals.read(|meddled| harm.push(meddled)) {
            error!(%error, "the files of journals can no longer be watched");
            self.journals = None;
        }
        for Meddled { lane, path, what } in harm {
            let command = Command::EndJournal {
                path,
                what: what.to_owned(),
            };
            self.order_unanswered(lane, command);
        }
    }

    fn take_reports(&mut self) {
        for lane in 0..self.lanes.len() {
            self.lanes[lane].reports.silence();
            while let Some(report) = self.lanes[lane].reports.pop() {
                match report {
                    Report::Answer { ticket, result } => {
                        self.lanes[lane].answered();
                        self.answered(ticket, result);
                    }
                    Report::Event(kind) => drop(self.raise(kind)),
                    // Subscribers detect the loss by the gap in the sequence.
                    Report::EventsLost(lost) => self.events += lost,
                    Report::Violation {
                        session,
                        cause,
                        reason,
                    } => self.expel(session, cause, reason),
                    Report::LetGo {
                        uid,
                        bytes,
                        released,
                    } => self.discard(uid, bytes, released),
                    Report::PortGone {
                        port,
                        reason,
                        remains,
                    } => self.port_gone(port, reason, remains),
                }
            }
            self.lanes[lane].push_waiting();
        }
    }

    /// The device of a port has ceased to exist, or does not exist yet. The opener closes its
    /// remains: sockets, packet memory, threads.
    fn port_gone(&mut self, number: u16, reason: String, remains: Option<Box<dyn Port>>) {
        if let Some(remains) = remains {
            self.close(vec![remains]);
        }
        let Some(port) = self.ports.get(number) else {
            return;
        };
        let port = port.name.clone();
        self.raise(EventKind::PortAbsent { port, reason });
    }

    /// Ends a session that lied in shared memory.
    fn expel(&mut self, session: u64, cause: &'static str, reason: String) {
        let Some(record) = self.sessions.get(&session) else {
            return;
        };
        let number = record.client;
        // No client: it closed its connection meanwhile and is being detached for that.
        if let Some(client) = self.clients.get_mut(&number) {
            warn!(session, cause, reason, "an application is detached");
            client.refuse(format!("detached: {reason}"));
            *self.violations.entry(cause.to_owned()).or_default() += 1;
        }
        self.remove_client(number, "violation", Some(reason));
    }

    fn detach(&mut self, session: u64, class: &'static str, reason: String) {
        let Some(record) = self
            .sessions
            .get_mut(&session)
            // One that its lane does not know goes when the job on its memory has ended.
            .filter(|record| record.attached)
        else {
            return;
        };
        // Their names are free again: the lane forgets them before it takes in any later ones.
        record.regions.clear();
        *self.detached.entry(class.to_owned()).or_default() += 1;
        let lane = record.lane;
        self.order(
            lane,
            Command::Detach { session },
            Pending::Detach {
                session,
                class,
                reason,
            },
        );
    }

    /// Returns the mappings that sessions have: those of user `uid`, and all.
    fn mappings_taken(&self, uid: u32) -> Taken {
        let mut taken = Taken {
            of_user: 0,
            of_all: 0,
        };
        for record in self.sessions.values() {
            let mappings = u64::from(record.quota.mappings());
            taken.of_all += mappings;
            if record.uid == uid {
                taken.of_user += mappings;
            }
        }
        taken
    }

    /// Whether user `uid` may have `wanted` more mappings.
    ///
    /// # Errors
    /// The reason for the refusal.
    fn admit_mappings(&self, uid: u32, wanted: u32) -> Result<(), String> {
        let (commands, taken) = (self.admission.commands(uid), self.mappings_taken(uid));
        self.mapping_bounds.admit(uid, commands, wanted, taken)
    }

    fn count_refused(&mut self, cause: &'static str) {
        *self.peers_refused.entry(cause.to_owned()).or_default() += 1;
    }

    fn order(&mut self, lane: u32, command: Command, pending: Pending) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.pending.insert(ticket, pending);
        self.lanes[lane as usize].push(ticket, command);
    }

    fn order_unanswered(&mut self, lane: u32, command: Command) {
        self.order(lane, command, Pending::NoClient);
    }

    fn reply_to(&mut self, number: u64, reply: &Reply, fds: Vec<std::os::fd::OwnedFd>) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.busy = false;
            client.reply(reply, fds);
        }
    }

    fn refuse(&mut self, number: u64, reason: impl Into<String>) {
        self.reply_to(number, &Reply::refused(reason), Vec::new());
    }

    fn raise_attached(&mut self, session: u64) {
        let Some(client) = self
            .sessions
            .get(&session)
            .and_then(|record| self.clients.get(&record.client))
        else {
            return;
        };
        let (pid, program) = (
            client.credentials.pid.unsigned_abs(),
            client.program.clone(),
        );
        self.raise(EventKind::Attached {
            session,
            pid,
            program,
        });
    }
}

fn no_descriptors(error: impl std::fmt::Display) -> String {
    format!("the daemon has no free descriptor: {error} (see `ulimit -n`)")
}

fn closing_max() -> usize {
    let (descriptors, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((USUAL_DESCRIPTORS, 0));
    usize::try_from(descriptors).unwrap_or(usize::MAX) / 4 * CLOSING_QUARTERS
}

/// The result of `poll(2)`.
struct Ready {
    listener: bool,
    /// Clients, and whether their connection is broken.
    clients: Vec<(u64, bool)>,
    /// Clients that have not sent a hello in time.
    silent: Vec<u64>,
    /// Clients whose process has exited, even if another process holds the connection.
    orphaned: Vec<u64>,
    carriers: bool,
    journals: bool,
}

fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::new(fd, PollFlags::POLLIN)
}
