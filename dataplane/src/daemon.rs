//! The daemon: starts all components in order and stops them in reverse order.

use std::{
    fs, io,
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown},
    },
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use covalent_api::guid::Guid;
use covalent_config::{Config, ConfigError, PortConfig, PortKind, other_node::OtherNode};
use covalent_counters::Board;
use covalent_ebpf::EbpfError;
use covalent_ipc::{
    reaper::Reaper,
    seqpacket::{Connection, Listener},
};
use covalent_protocol::agreement::{Held, digest};
use nix::{errno::Errno, unistd::Uid};
use tracing::{info, warn};

use crate::{
    carrier::CarrierWatch,
    cores::{self, NoSuchCore},
    fault_injection::{FaultInjection, FaultsRefused},
    identity::{Identity, IdentityError, of_process},
    journal::{
        self, Inspected, Journal, JournalOptions, JournalWatch, OnLoss, OpenError, Recovered,
    },
    lane::{
        Lane, LaneError,
        command::{Command, Order},
        new_port::{self, NewPort},
        region_of,
    },
    lock::{CONNECT_RETRY_INTERVAL, when_free},
    mailbox::Mailbox,
    port::{self, LaneMemory, Port, PortError, absent::AbsentPort},
    privilege::{self, PrivilegeError, Privileges},
    progress::{Beat, Progress},
    server::{
        Agreements, Deletion, DurableRegion, DurableRegions, LaneLink, MemoryWorkers, ORDERS_MAX,
        Opener, PortTable, REPORTS_MAX, RegionTokens, Server, ServerParts,
        admission::{Admission, AdmissionError},
    },
    telemetry::{HostCounters, Telemetry},
};

/// How long a start that finds its socket taken waits for a connection to the holder.
const LISTENER_PATIENCE: Duration = Duration::from_millis(200);

/// A running daemon. Stop it with [`Daemon::stop`]; dropping it stops it too.
#[derive(Debug)]
pub struct Daemon {
    guid: Guid,
    stop: Arc<Mailbox<()>>,
    host: Option<JoinHandle<io::Result<()>>>,
    lanes: Vec<LaneThread>,
    beats: Vec<Arc<Beat>>,
    progress_query: Arc<Mailbox<()>>,
    ended: Arc<Mailbox<String>>,
    /// Ended after all threads that write counters have stopped.
    board: Option<Board>,
    /// Held until the daemon is dropped: no other process may use this identity.
    _identity: Arc<Identity>,
}

/// A lane that runs. Its ports are open until its thread has ended.
#[derive(Debug)]
struct LaneThread {
    orders: Arc<Mailbox<Order>>,
    thread: JoinHandle<()>,
}

/// Why the daemon did not start. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A port is configured to damage its own frames, and fault injection is not allowed.
    #[error(transparent)]
    Faults(#[from] FaultsRefused),
    /// A configured core does not exist or may not be used.
    #[error(transparent)]
    NoSuchCore(#[from] NoSuchCore),
    /// The configured group cannot be used.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The node's identity cannot be had.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The socket cannot be had.
    #[error("cannot listen on {path}: {source}{hint}")]
    Socket {
        /// Where.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
        /// A remedy, if known.
        hint: String,
    },
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A lane cannot be set up.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// The journal of a lane cannot be opened.
    #[error("cannot open the journal of lane {lane}: {source}")]
    Journal {
        /// The lane.
        lane: u32,
        /// Why not.
        source: OpenError,
    },
    /// A journal could not be opened.
    #[error(transparent)]
    NoJournal(#[from] OpenError),
    /// There is the journal of a lane that is not configured.
    #[error(
        "{} is the journal of a lane that is not configured, and its durable regions would be \
         missing: configure that lane again as a `[[lane]]`, \
         or move the directory to another place",
        .0.display()
    )]
    JournalOfNoLane(PathBuf),
    /// Two lanes have a durable region of one name.
    #[error(
        "the journals of lanes {lanes:?} in {directory} both hold a durable region `{name}`: move \
         the directory of one of them, `lane-N`, to another \
         place"
    )]
    DurableTwice {
        /// Its name.
        name: String,
        /// The lanes.
        lanes: [u32; 2],
        /// Where the journals are.
        directory: PathBuf,
    },
    /// Privileges could not be given up.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// The system gave no thread, descriptor or netlink socket.
    #[error("{doing}: {source}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Daemon {
    /// Starts a daemon that keeps the privileges of this process and damages no frames on purpose.
    ///
    /// All checks precede the first change. When this function returns, the ports are open and the
    /// socket accepts clients.
    ///
    /// # Errors
    /// [`StartError`] describes the problem, the affected object and the remedy.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::start_with(
            config,
            Privileges::Keep,
            FaultInjection::Refused,
            OnLoss::Refuse,
            None,
        )
    }

    /// Starts a daemon and gives up privileges, as `privileges` specifies, once the ports are open.
    /// The calling thread drops the capabilities, and the daemon's threads inherit the reduced set.
    ///
    /// With `activated`, a service manager's socket at the node's own path, the daemon listens on
    /// that socket and creates none. `on_loss` selects the behavior for a journal that has lost
    /// acknowledged records.
    ///
    /// # Errors
    /// As [`Daemon::start`].
    pub fn start_with(
        config: Config,
        privileges: Privileges,
        faults: FaultInjection,
        on_loss: OnLoss,
        activated: Option<Listener>,
    ) -> Result<Self, StartError> {
        let host = thread::Builder::new();
        Self::launch(config, privileges, faults, on_loss, activated, host)
    }

    fn launch(
        config: Config,
        privileges: Privileges,
        faults: FaultInjection,
        on_loss: OnLoss,
        activated: Option<Listener>,
        host: thread::Builder,
    ) -> Result<Self, StartError> {
        check(&config, faults)?;
        let admission = Admission::new(&config.node.group)?;
        let identity = Arc::new(Identity::take(&config.node.state_dir)?);
        let listener = listen(&config, &admission, activated)?;
        let OpenPorts {
            lanes: ports,
            table: port_table,
            absent,
        } = open_ports(&config)?;
        let text = config.to_toml()?;
        let held = Held {
            incarnation: identity.incarnation,
            epoch: 0,
            digest: digest(text.as_bytes()),
        };
        let carriers = watch_carriers(&config)?;
        let (lanes, links) = lanes(&config, &identity, ports, on_loss)?;
        let durable_regions = durable_regions(&config, &lanes)?;
        let journals = watch_journals(&config);
        // Before privileges are given up: the group gets the files.
        let (board, lanes, counters) = open_counters(&config, &admission, lanes);
        // Before they are given up, for it keeps one more.
        let opener = Opener::start(privileges).map_err(no_thread)??;
        privilege::apply(privileges)?;
        let memory = MemoryWorkers::start().map_err(no_thread)?;
        let reaper = Reaper::start().map_err(no_thread)?;
        let agreements = Agreements::new(&config, text, held, opener, faults);

        let tokens = RegionTokens::new(&identity.secret);
        let config = Arc::new(config);
        let stop = Arc::new(Mailbox::new(1).map_err(no_descriptors)?);
        let progress_query = Arc::new(Mailbox::new(1).map_err(no_descriptors)?);
        let mut daemon = Self {
            guid: identity.guid,
            stop: stop.clone(),
            host: None,
            lanes: Vec::new(),
            beats: lanes.iter().map(Lane::beat).collect(),
            board,
            progress_query: progress_query.clone(),
            ended: Arc::new(Mailbox::new(1).map_err(no_descriptors)?),
            _identity: identity,
        };
        // On failure the daemon is dropped, which stops everything that has started.
        let parts = ServerParts {
            config,
            guid: daemon.guid,
            listener,
            tokens,
            admission,
            lanes: links,
            agreements,
            memory,
            reaper,
            ports: port_table,
            absent,
            durable_regions,
            carriers,
            journals,
            counters,
            stop,
            progress_query,
        };
        daemon.spawn(lanes, parts, host).map_err(no_thread)?;
        Ok(daemon)
    }

    fn spawn(
        &mut self,
        lanes: Vec<Lane>,
        parts: ServerParts,
        host: thread::Builder,
    ) -> io::Result<()> {
        for (index, (lane, link)) in lanes.into_iter().zip(&parts.lanes).enumerate() {
            let name = format!("covalent-lane{index}");
            let end = ThreadEnd::of(format!("lane {index}"), &self.ended);
            let thread = thread::Builder::new().name(name).spawn(move || {
                let _end = end;
                lane.run();
            })?;
            self.lanes.push(LaneThread {
                orders: link.orders(),
                thread,
            });
        }
        let server = Server::new(parts);
        let end = ThreadEnd::of("the host thread".to_owned(), &self.ended);
        let host = host.name("covalent-host".to_owned()).spawn(move || {
            let _end = end;
            server.run()
        })?;
        self.host = Some(host);
        Ok(())
    }

    /// This node's identity.
    #[must_use]
    pub const fn guid(&self) -> Guid {
        self.guid
    }

    /// Watches from now on whether its threads move. For one watcher at a time.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::new(self.beats.iter().cloned(), self.progress_query.clone())
    }

    /// Readable once a thread has ended without a request to stop. [`Daemon::thread_that_ended`]
    /// returns its name.
    #[must_use]
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Returns the name of a thread that has ended without a request to stop. The daemon cannot
    /// serve without it: stop the daemon.
    #[must_use]
    pub fn thread_that_ended(&self) -> Option<String> {
        self.ended.pop()
    }

    /// Stops the daemon: disconnects clients, stops each lane after its round, closes the ports and
    /// unlinks the socket.
    pub fn stop(mut self) {
        self.shut_down();
        info!("stopped");
    }

    fn shut_down(&mut self) {
        if let Some(host) = self.host.take() {
            // A full mailbox means that the stop is already requested.
            let _ = self.stop.push(());
            match host.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(%error, "the host thread failed"),
                Err(_) => warn!("the host thread panicked"),
            }
        }
        // Stop the lanes whatever happened to the host thread: a running lane keeps its ports open.
        for lane in &self.lanes {
            lane.stop();
        }
        for lane in self.lanes.drain(..) {
            if lane.thread.join().is_err() {
                warn!("a lane panicked");
            }
        }
        if let Some(board) = self.board.take() {
            board.end();
        }
    }
}

/// Reports the end of a thread when the thread drops this value, even after a panic.
#[derive(Debug)]
struct ThreadEnd {
    thread: String,
    ended: Arc<Mailbox<String>>,
}

impl ThreadEnd {
    fn of(thread: String, ended: &Arc<Mailbox<String>>) -> Self {
        let ended = Arc::clone(ended);
        Self { thread, ended }
    }
}

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        // The first is enough: the daemon ends with it.
        let _ = self.ended.push(std::mem::take(&mut self.thread));
    }
}

impl LaneThread {
    /// Queues a stop command behind all earlier commands. Waits while the queue is full.
    fn stop(&self) {
        let mut order = Order {
            ticket: 0,
            command: Command::Stop,
        };
        // The queue drains: the lane takes one command per round and keeps its reports in its own
        // memory.
        while let Err(full) = self.orders.push(order)
            && !self.thread.is_finished()
        {
            order = full;
            thread::yield_now();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Runs [`check`] and reads the journals as a start does, for `covalentd --check`. Skips and logs
/// each journal that a daemon has open. Returns the number of skipped journals.
///
/// # Errors
/// As [`check`], and the [`StartError`] with which a start would refuse the journals.
pub fn check_start(
    config: &Config,
    faults: FaultInjection,
    on_loss: OnLoss,
) -> Result<usize, StartError> {
    check(config, faults)?;
    let mut regions = DurableRegions::default();
    let mut left_out = 0;
    for (lane, _) in (0..).zip(&config.lane) {
        let Some(mut options) = journal_options(config, lane) else {
            continue;
        };
        options.on_loss = on_loss;
        if let Some(recovered) = inspect_journal(&options, lane)? {
            let found = recovered.regions.values();
            let found = found.map(|region| {
                let (uid, name) = region_of(&region.name);
                (name, uid, region.bytes.len() as u64)
            });
            add_durable_regions(config, &mut regions, lane, found)?;
        } else {
            left_out += 1;
        }
    }
    Ok(left_out)
}

/// Checks everything that can be checked immediately and without a change.
///
/// # Errors
/// [`StartError`] for a wrong configuration, a missing core or group, or faults that are not
/// allowed.
pub fn check(config: &Config, faults: FaultInjection) -> Result<(), StartError> {
    config.check()?;
    if faults == FaultInjection::Refused
        && let Some(port) = config.port.iter().find(|port| port.faults.is_some())
    {
        let port = port.name.clone();
        return Err(FaultsRefused { port }.into());
    }
    port::check(&config.port)?;
    Admission::new(&config.node.group)?;
    check_journals(config)?;
    cores::check(config)?;
    Ok(())
}

fn listen(
    config: &Config,
    admission: &Admission,
    activated: Option<Listener>,
) -> Result<Listener, StartError> {
    let path = config.socket_path();
    let failed = |source: io::Error| StartError::Socket {
        hint: match source.kind() {
            io::ErrorKind::AddrInUse => format!(
                ": another daemon answers there{}; stop it, or give this node its own \
                 `node.runtime_dir`",
                of_process(listening_process(&path))
            ),
            io::ErrorKind::PermissionDenied => {
                ": run as root, or set `node.runtime_dir` to a directory that you may write to"
                    .to_owned()
            }
            _ => String::new(),
        },
        path: path.clone(),
        source,
    };
    if let Some(listener) = activated {
        if listener.path() == path {
            listener.refuse_descriptors().map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            if let Err(error) = give_socket(&path, admission) {
                warn!(
                    socket = %path.display(),
                    %error,
                    "the service manager's socket cannot be given to `node.group`, and keeps its \
                     mode: set SocketUser=, SocketGroup= and SocketMode=0660 in a drop-in of \
                     covalentd.socket"
                );
            }
            return Ok(listener);
        }
        warn!(
            activated = %listener.path().display(),
            socket = %path.display(),
            "the service manager's socket is not in `node.runtime_dir`, and the daemon does not \
             serve it: set ListenSequentialPacket= in a drop-in of covalentd.socket to the path in \
             `node.runtime_dir`, or mask that unit"
        );
    }
    fs::create_dir_all(&config.node.runtime_dir).map_err(failed)?;
    // Retry only if the address is a socket: a file of another type does not go away.
    let is_socket = || fs::symlink_metadata(&path).is_ok_and(|it| it.file_type().is_socket());
    let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse && is_socket();
    let listener = when_free(&path, CONNECT_RETRY_INTERVAL, is_taken, || {
        Listener::bind(&path)
    })
    .map_err(failed)?;
    // Set before any client connects. On kernels without this option the daemon still receives no
    // descriptors.
    listener.refuse_descriptors().map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    if let Err(error) = give_socket(&path, admission) {
        warn!(
            socket = %path.display(),
            %error,
            "the socket cannot be given to `node.group`, and its members cannot connect: add the \
             daemon's user to that group (`usermod -aG`, or SupplementaryGroups= in \
             covalentd.service)"
        );
    }
    Ok(listener)
}

/// The process that listens at `path`.
fn listening_process(path: &Path) -> Option<u32> {
    let connection = Connection::connect_timeout(path, LISTENER_PATIENCE).ok()?;
    u32::try_from(connection.peer_credentials().ok()?.pid).ok()
}

/// Restricts connections to the daemon's own user and the members of the group, if there is one.
/// Root may always connect.
fn give_socket(path: &Path, admission: &Admission) -> io::Result<()> {
    let (own, group) = (Uid::effective().as_raw(), admission.group());
    let found = fs::symlink_metadata(path)?;
    let gid = group.unwrap_or(found.gid());
    if (found.uid(), found.gid()) != (own, gid) {
        chown(path, Some(own), Some(gid))?;
    }
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    if found.mode() & 0o777 != mode {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// The ports of the start.
struct OpenPorts {
    lanes: Vec<Vec<NewPort>>,
    table: PortTable,
    /// Numbers of those that have no device yet, with the reasons.
    absent: Vec<(u16, String)>,
}

/// Opens every port, sorted by lane, and connects the lanes to each other. Port numbers follow the
/// order of the file. A port whose interface does not exist becomes a placeholder port. Any other
/// failure aborts the start.
fn open_ports(config: &Config) -> Result<OpenPorts, StartError> {
    let mut absent = Vec::new();
    let mut table = PortTable::default();
    let mut numbers = Vec::with_capacity(config.port.len());
    for port in &config.port {
        numbers.push(table.add(port)?);
    }
    let mut lanes: Vec<Vec<NewPort>> = config.lane.iter().map(|_| Vec::new()).collect();
    for (lane, ports) in (0..).zip(&mut lanes) {
        let mut memory = LaneMemory::for_lane(&config.port, lane)?.with_dpdk(&config.dpdk);
        for (&number, port_config) in numbers
            .iter()
            .zip(&config.port)
            .filter(|(_, port)| port.lane == lane)
        {
            let opened = port::open(port_config, &config.dataplane, &config.link, &mut memory);
            let port = or_absent(port_config, opened).map_err(name_other_node)?;
            if let Some(reason) = port.absent() {
                absent.push((number, reason.to_owned()));
            }
            table.opened(number, &*port);
            ports.push(NewPort::new(number, port_config, port));
        }
    }
    if config.fabric.enabled {
        new_port::join(&mut lanes)?;
    }
    Ok(OpenPorts {
        lanes,
        table,
        absent,
    })
}

/// Returns the opened port, or a placeholder port if the interface does not exist yet.
fn or_absent(
    config: &PortConfig,
    opened: Result<Box<dyn Port>, PortError>,
) -> Result<Box<dyn Port>, PortError> {
    match (opened, &config.kind) {
        (Err(PortError::NoInterface { interface, .. }), PortKind::AfXdp { .. }) => {
            let reason = format!(
                "there is no interface `{interface}` in this network namespace: covalent-control \
                 opens the port when it appears; `ip link` shows the existing interfaces"
            );
            Ok(Box::new(AbsentPort::instead_of(config, &reason)))
        }
        (opened, _) => opened,
    }
}

/// If another node's daemon has the interface, names that node: to detach its program would cut it.
fn name_other_node(error: PortError) -> PortError {
    let PortError::Steering { port, source } = &error else {
        return error;
    };
    let Some(EbpfError::Busy {
        interface,
        owner: Some(owner),
    }) = source.downcast_ref()
    else {
        return error;
    };
    let holders = covalent_ebpf::holders(owner.id);
    let Some(daemon) = holders.iter().find(|holder| holder.is_daemon()) else {
        return error;
    };
    let other = OtherNode::of(daemon.pid, daemon.config().as_deref());
    PortError::Setup {
        port: port.clone(),
        problem: format!("{interface} belongs to another node: {}", other.found),
        remedy: format!("{}; or name another interface", other.cure),
    }
}

fn watch_carriers(config: &Config) -> Result<Option<CarrierWatch>, StartError> {
    if !config
        .port
        .iter()
        .any(|port| port.kind.kernel_interface().is_some())
    {
        return Ok(None);
    }
    CarrierWatch::open()
        .map(Some)
        .map_err(|source| StartError::System {
            doing: "cannot watch the interfaces' carriers through netlink",
            source,
        })
}

fn lanes(
    config: &Config,
    identity: &Identity,
    ports: Vec<Vec<NewPort>>,
    on_loss: OnLoss,
) -> Result<(Vec<Lane>, Vec<LaneLink>), StartError> {
    let (mut lanes, mut links) = (Vec::new(), Vec::new());
    for (lane, ports) in (0..).zip(ports) {
        let orders = Arc::new(Mailbox::new(ORDERS_MAX).map_err(no_descriptors)?);
        let reports = Arc::new(Mailbox::new(REPORTS_MAX).map_err(no_descriptors)?);
        lanes.push(Lane::new(
            config,
            lane,
            identity,
            ports,
            open_journal(config, lane, on_loss)?,
            (orders.clone(), reports.clone()),
        )?);
        links.push(LaneLink::new(orders, reports));
    }
    Ok((lanes, links))
}

/// Creates the counters in shared memory and gives each lane its part. Without them the node still
/// works, and its status reports the counters.
fn open_counters(
    config: &Config,
    admission: &Admission,
    lanes: Vec<Lane>,
) -> (Option<Board>, Vec<Lane>, Option<HostCounters>) {
    match Telemetry::open(config, admission.group()) {
        Ok(Some(telemetry)) => {
            let lanes = lanes.into_iter().zip(telemetry.lanes);
            let lanes = lanes.map(|(lane, counters)| lane.with_counters(counters));
            (Some(telemetry.board), lanes.collect(), Some(telemetry.host))
        }
        Ok(None) => (None, lanes, None),
        Err(error) => {
            warn!(
                path = %config.counters_path().display(),
                %error,
                "no counters in shared memory: make room in `node.runtime_dir`, or set \
                 `dataplane.counters_ms = 0`"
            );
            (None, lanes, None)
        }
    }
}

/// Returns the durable regions in the journals of all lanes.
fn durable_regions(config: &Config, lanes: &[Lane]) -> Result<DurableRegions, StartError> {
    let mut regions = DurableRegions::default();
    for (index, lane) in (0..).zip(lanes) {
        add_durable_regions(config, &mut regions, index, lane.durable_regions())?;
    }
    Ok(regions)
}

/// Adds the durable regions in the journal of `lane`: names, users and sizes in bytes.
fn add_durable_regions<'a>(
    config: &Config,
    regions: &mut DurableRegions,
    lane: u32,
    found: impl Iterator<Item = (&'a str, u32, u64)>,
) -> Result<(), StartError> {
    for (name, uid, size_bytes) in found {
        let region = DurableRegion {
            uid,
            lane,
            size_bytes,
            deletion: Deletion::None,
        };
        regions
            .add_recovered(name.to_owned(), region)
            .map_err(|(name, other)| StartError::DurableTwice {
                name,
                lanes: [other.lane, lane],
                directory: config.journal.directory.clone().unwrap_or_default(),
            })?;
    }
    Ok(())
}

/// Runs all checks of the journals that need no change, before any journal is touched.
fn check_journals(config: &Config) -> Result<(), StartError> {
    let Some(directory) = &config.journal.directory else {
        return Ok(());
    };
    let is_missing = |name: &str| {
        let lane = name.strip_prefix("lane-")?.parse::<usize>().ok()?;
        (lane >= config.lane.len()).then_some(())
    };
    // There is nothing before the first start.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().and_then(is_missing).is_some() {
            return Err(StartError::JournalOfNoLane(entry.path()));
        }
    }
    let journals: Vec<JournalOptions> = (0..)
        .zip(&config.lane)
        .filter_map(|(lane, _)| journal_options(config, lane))
        .collect();
    Ok(journal::check(&journals)?)
}

/// Where the journal of a lane is, if this node keeps any.
fn journal_options(config: &Config, lane: u32) -> Option<JournalOptions> {
    let directory = config.journal.directory.as_ref()?;
    Some(JournalOptions {
        file_bytes: u64::from(config.journal.file_mib) << 20,
        ..JournalOptions::new(directory.join(format!("lane-{lane}")))
    })
}

/// Watches the files of all journals. Without a watch a node works too.
fn watch_journals(config: &Config) -> Option<JournalWatch> {
    let directories = (0..)
        .zip(&config.lane)
        .filter_map(|(lane, _)| Some((lane, journal_options(config, lane)?.directory)));
    config.journal.directory.as_ref()?;
    JournalWatch::open(directories)
        .inspect_err(|error| warn!(%error, "the removal of a journal's file will not be noticed"))
        .ok()
}

/// Opens the journal of a lane and reads its content, if this node keeps journals.
fn open_journal(
    config: &Config,
    lane: u32,
    on_loss: OnLoss,
) -> Result<Option<(Journal, Recovered)>, StartError> {
    let Some(mut options) = journal_options(config, lane) else {
        return Ok(None);
    };
    options.on_loss = on_loss;
    let (journal, recovered) =
        Journal::open(&options).map_err(|source| StartError::Journal { lane, source })?;
    if let Some(loss) = &recovered.accepted {
        warn!(
            lane,
            set_aside = ?loss.set_aside,
            "a loss was accepted: {}. Durable regions begin with the intact records up to record \
             {}",
            loss.what,
            recovered.last_lsn.0
        );
    }
    log_journal("journal open", lane, &options, &recovered);
    Ok(Some((journal, recovered)))
}

/// Reads the journal of a lane, if no daemon has it open, and changes nothing.
fn inspect_journal(options: &JournalOptions, lane: u32) -> Result<Option<Recovered>, StartError> {
    let inspected =
        journal::inspect(options).map_err(|source| StartError::Journal { lane, source })?;
    let recovered = match inspected {
        Inspected::Free(recovered) => recovered,
        Inspected::InUse => {
            warn!(
                lane,
                directory = %options.directory.display(),
                "this journal was not read: a daemon has it open"
            );
            return Ok(None);
        }
    };
    if let Some(loss) = &recovered.accepted {
        warn!(
            lane,
            "a loss would be accepted: {}. Durable regions would begin with the intact records up \
             to record {}",
            loss.what,
            recovered.last_lsn.0
        );
    }
    log_journal("this journal can be opened", lane, options, &recovered);
    Ok(Some(recovered))
}

/// Logs the content of a journal.
fn log_journal(what: &str, lane: u32, options: &JournalOptions, recovered: &Recovered) {
    info!(
        lane,
        directory = %options.directory.display(),
        regions = recovered.regions.len(),
        last_lsn = recovered.last_lsn.0,
        torn = ?recovered.torn,
        "{what}"
    );
}

fn no_thread(source: io::Error) -> StartError {
    StartError::System {
        doing: "cannot start a thread (see `ulimit -u` and the service's TasksMax)",
        source,
    }
}

fn no_descriptors(error: Errno) -> StartError {
    StartError::System {
        doing: "cannot create an event descriptor",
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{path::Path, time::Duration};

    use super::*;

    fn config(dir: &Path) -> Config {
        let dir = dir.display();
        let text = format!(
            "[node]\nname = \"a\"\nruntime_dir = \"{dir}/run\"\nstate_dir = \"{dir}/state\"\n\
             [[lane]]\n[[lane]]\n[[port]]\nname = \"p0\"\nkind = \"cable\"\npath \
             = \"{dir}/cable\"\n"
        );
        Config::parse(&text, "test").unwrap()
    }

    fn lanes_running() -> usize {
        fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok())
            .filter(|name| name.starts_with("covalent-lane"))
            .count()
    }

    #[test]
    fn lanes_do_not_outlive_a_failed_start() {
        let dir = tempfile::tempdir().unwrap();
        // No address space can hold this stack.
        let impossible = thread::Builder::new().stack_size(1 << 60);
        let error = Daemon::launch(
            config(dir.path()),
            Privileges::Keep,
            FaultInjection::Refused,
            OnLoss::Refuse,
            None,
            impossible,
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("cannot start a thread"),
            "{error}"
        );
        // A thread names itself, so one that runs may show a little later.
        let soon = || {
            (0..100).map(|_| {
                thread::sleep(Duration::from_millis(1));
                lanes_running()
            })
        };
        assert_eq!(soon().max(), Some(0));
        let daemon = Daemon::start(config(dir.path())).unwrap();
        assert_eq!(soon().max(), Some(2));
        daemon.stop();
        assert_eq!(lanes_running(), 0);
    }
}
