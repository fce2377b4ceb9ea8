//! The two nodes: their places, configurations and processes.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use covalent_api::{
    rule::{Action, Match, Rule},
    status::NodeStatus,
};
use covalent_config::{
    Config, ConfigureConfig, ControlConfig, CopyMode, DataplaneConfig, DpdkConfig, FabricConfig,
    HugePages, Idle, JournalConfig, LaneConfig, LinkConfig, NodeConfig, PortConfig, PortKind,
    RxChecksum, TxChecksum, XdpMode,
};

use super::{
    http,
    medium::Medium,
    named_interfaces::{self, Pair},
    namespace::Namespace,
    patience::{factor, stretched},
    transfer::{ADDRESS_A, ADDRESS_B, PREFIX_BITS},
    veth::{self, End},
};
use crate::{
    client::{self, Client},
    interrupt::Interrupt,
    process::{Launch, Process},
    program,
};

/// The links between the nodes, by the names of their ports. A node shares its verbs among them.
pub const PORTS: [&str; 2] = ["p0", "p1"];

/// The link that is cut. The kernel's TCP transfer uses the other.
pub const CUT: &str = PORTS[0];

/// Slots of each ring of each queue. Packet memory is 4 KiB for each slot, and an idle node must
/// stay below 100 MiB.
const RING_SLOTS: u32 = 2048;

const START_PATIENCE: Duration = Duration::from_secs(20);
const LINK_PATIENCE: Duration = Duration::from_secs(5);
const END_PATIENCE: Duration = Duration::from_secs(3);
/// Largest value that a configuration accepts.
const IDLE_TICK_MAX_MS: u32 = 1000;
const EVENT_RATIO_MAX: u32 = 100_000;

const RECHECK_INTERVAL: Duration = Duration::from_millis(10);

/// One node.
pub struct Node {
    name: &'static str,
    directory: PathBuf,
    config: Config,
    /// Interfaces of its ports, in order.
    interfaces: [String; 2],
    namespace: Option<Arc<Namespace>>,
    // Control first: fields are dropped in this order, and control should not outlive its daemon.
    control: Option<Process>,
    daemon: Process,
}

/// Both.
pub struct Nodes {
    /// The node that sends streams and posts verbs.
    pub a: Node,
    /// The node that echoes and owns the region.
    pub b: Node,
    /// The medium that connects them.
    pub medium: Medium,
    /// The command that cuts the first link, if it is not done by setting its interface down.
    cut_with: Option<String>,
}

impl Nodes {
    /// Starts both nodes below `workplace` and waits until their links are up. `interfaces` are the
    /// existing cables, if any; `cut_with` is the command that cuts the first.
    ///
    /// # Errors
    /// Names the part that did not come up, with the end of its log.
    pub fn start(
        workplace: &Path,
        medium: Medium,
        interfaces: &[Pair],
        cut_with: Option<&str>,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let [of_a, of_b] = interface_names(interfaces)?;
        let (a, b) = match medium {
            Medium::AfXdp => {
                let (a, b) = join_namespaces(interfaces)?;
                (Some(a), Some(b))
            }
            Medium::Cable | Medium::Dpdk => (None, None),
        };
        let cores = first_cores();
        let metrics = metrics_addresses(medium)?;
        let mut a = Node::start("a", workplace, medium, of_a, cores[0], metrics[0], a)?;
        let mut b = Node::start("b", workplace, medium, of_b, cores[1], metrics[1], b)?;
        for node in [&mut a, &mut b] {
            node.wait_for_daemon(interrupt)?;
            node.start_control()?;
        }
        for node in [&mut a, &mut b] {
            node.wait_for_control(interrupt)?;
        }
        let mut nodes = Self {
            a,
            b,
            medium,
            cut_with: cut_with.map(str::to_owned),
        };
        nodes.wait_for_links(interrupt)?;
        Ok(nodes)
    }

    /// Both nodes.
    pub fn each(&self) -> [&Node; 2] {
        [&self.a, &self.b]
    }

    /// Waits until every link is up on both sides.
    ///
    /// # Errors
    /// Names the links that are not.
    pub fn wait_for_links(&mut self, interrupt: &Interrupt) -> Result<()> {
        let deadline = Instant::now() + stretched(LINK_PATIENCE);
        loop {
            let down = self.links_down()?;
            if down.is_empty() {
                return Ok(());
            }
            self.expect_running()?;
            if Instant::now() >= deadline {
                bail!(
                    "not every link came up within {:?}: {}",
                    stretched(LINK_PATIENCE),
                    down.join(", ")
                );
            }
            interrupt.sleep(RECHECK_INTERVAL)?;
        }
    }

    fn links_down(&self) -> Result<Vec<String>> {
        let mut down = Vec::new();
        for node in self.each() {
            let status = node.status()?;
            for port in PORTS {
                let state = status
                    .links
                    .iter()
                    .find(|link| link.port == port)
                    .map_or("missing", |link| &link.state);
                if state != "up" {
                    down.push(format!("{port} of node {} is {state}", node.name));
                }
            }
        }
        Ok(down)
    }

    /// Checks that all four processes are running.
    ///
    /// # Errors
    /// The first that is not, with the end of its log.
    pub fn expect_running(&mut self) -> Result<()> {
        for node in [&mut self.a, &mut self.b] {
            node.daemon.expect_running()?;
            if let Some(control) = &mut node.control {
                control.expect_running()?;
            }
        }
        Ok(())
    }

    /// Cuts or restores link [`CUT`] at node b: sets the interface down, pulls the cable, or runs
    /// the given command. The open exchanges are counted at node a, so node b is the far end. A
    /// node notices at once when its own port is disabled, and with few processors often no
    /// exchange is open at that moment.
    ///
    /// # Errors
    /// Fails if the kernel or the daemon refuses.
    pub fn set_cut(&self, cut: bool) -> Result<()> {
        if let Some(command) = &self.cut_with {
            return named_interfaces::run_cut_command(command, cut);
        }
        match &self.b.namespace {
            Some(namespace) => veth::set_up(namespace, &self.b.interfaces[0], !cut),
            None => self.b.client()?.set_port(CUT, !cut),
        }
    }

    /// The namespaces of both nodes, where they have their own.
    pub fn namespaces(&self) -> Option<[&Arc<Namespace>; 2]> {
        Some([self.a.namespace.as_ref()?, self.b.namespace.as_ref()?])
    }

    /// Requests all four processes to stop and waits: control before dataplane.
    ///
    /// # Errors
    /// Names the processes that did not exit by themselves, or not with success.
    pub fn end(mut self) -> Result<()> {
        let mut problems = Vec::new();
        for pick in [
            Node::control as fn(&mut Node) -> Option<&mut Process>,
            Node::daemon,
        ] {
            for node in [&mut self.a, &mut self.b] {
                if let Some(process) = pick(node) {
                    process.request_end();
                }
            }
            for node in [&mut self.a, &mut self.b] {
                if let Some(process) = pick(node) {
                    match process.wait_or_kill(stretched(END_PATIENCE)) {
                        Ok(status) if status.success() => {}
                        Ok(status) => problems.push(process.failure(status).to_string()),
                        Err(error) => problems.push(format!("{error:#}")),
                    }
                }
            }
        }
        for node in self.each() {
            for socket in [node.config.socket_path(), node.config.control_socket_path()] {
                if fs::symlink_metadata(&socket).is_ok() {
                    problems.push(format!("{} was left behind", socket.display()));
                }
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            bail!("{}", problems.join("; "))
        }
    }
}

impl Node {
    fn start(
        name: &'static str,
        workplace: &Path,
        medium: Medium,
        interfaces: [String; 2],
        core: Option<u32>,
        metrics_listen: SocketAddr,
        namespace: Option<Arc<Namespace>>,
    ) -> Result<Self> {
        let directory = workplace.join(name);
        fs::create_dir(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let config = configuration(
            name,
            workplace,
            &directory,
            medium,
            &interfaces,
            core,
            metrics_listen,
        );
        let text = config
            .to_toml()
            .with_context(|| format!("the configuration of node {name}"))?;
        let file = directory.join("covalent.toml");
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let daemon = launch("covalentd", name, &directory, namespace.as_deref())?
            .option("--config", file)
            .start()?;
        Ok(Self {
            name,
            directory,
            config,
            interfaces,
            namespace,
            control: None,
            daemon,
        })
    }

    fn wait_for_daemon(&mut self, interrupt: &Interrupt) -> Result<()> {
        let socket = self.config.socket_path();
        let deadline = Instant::now() + stretched(START_PATIENCE);
        while !client::serves(&socket) {
            self.daemon.expect_running()?;
            if Instant::now() >= deadline {
                bail!(
                    "covalentd of node {} does not answer at {}",
                    self.name,
                    socket.display()
                );
            }
            interrupt.sleep(RECHECK_INTERVAL)?;
        }
        Ok(())
    }

    fn start_control(&mut self) -> Result<()> {
        let control = self
            .launch("covalent-control")?
            .option("--config", self.config_file())
            .start()?;
        self.control = Some(control);
        Ok(())
    }

    fn wait_for_control(&mut self, interrupt: &Interrupt) -> Result<()> {
        let deadline = Instant::now() + stretched(START_PATIENCE);
        while !client::answers(&self.config.control_socket_path()) || self.metrics().is_err() {
            if let Some(control) = &mut self.control {
                control.expect_running()?;
            }
            if Instant::now() >= deadline {
                bail!(
                    "covalent-control of node {} does not serve metrics: {:#}",
                    self.name,
                    self.metrics()
                        .err()
                        .unwrap_or_else(|| anyhow::anyhow!("its socket does not answer"))
                );
            }
            interrupt.sleep(RECHECK_INTERVAL)?;
        }
        Ok(())
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.config.socket_path()
    }

    /// Its configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.directory.join("covalent.toml")
    }

    /// A new connection to its daemon.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn client(&self) -> Result<Client> {
        Client::connect(&self.config.socket_path())
    }

    /// Returns the status of its daemon.
    ///
    /// # Errors
    /// Fails if the daemon does not reply.
    pub fn status(&self) -> Result<NodeStatus> {
        self.client()?.status()
    }

    /// Returns the page that its control process serves at `/metrics`.
    ///
    /// # Errors
    /// Fails if the control process does not reply.
    pub fn metrics(&self) -> Result<String> {
        let address = self.config.control.metrics_listen;
        let fetch = || http::get(address, "/metrics");
        match &self.namespace {
            Some(namespace) => namespace.run(fetch),
            None => fetch(),
        }
    }

    /// Its processes, by program, with their process ids.
    pub fn processes(&self) -> Vec<(&str, u32)> {
        let control = self
            .control
            .as_ref()
            .map(|control| ("covalent-control", control.pid()));
        [Some(("covalentd", self.daemon.pid())), control]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Returns a launch of one of our applications on this node, with the daemon's socket as an
    /// argument. `log` names its log.
    ///
    /// # Errors
    /// Fails if the program is not installed.
    pub fn launch_application(
        &self,
        program: &str,
        subcommand: Option<&str>,
        log: &str,
    ) -> Result<Launch> {
        let launch = self
            .launch(program)?
            .log_to(self.directory.join(format!("{log}.log")));
        let launch = subcommand.into_iter().fold(launch, Launch::arg);
        Ok(launch.arg("--socket").arg(self.socket()))
    }

    fn launch(&self, program: &str) -> Result<Launch> {
        launch(
            program,
            self.name,
            &self.directory,
            self.namespace.as_deref(),
        )
    }

    fn control(&mut self) -> Option<&mut Process> {
        self.control.as_mut()
    }

    fn daemon(&mut self) -> Option<&mut Process> {
        Some(&mut self.daemon)
    }
}

fn launch(
    program: &str,
    node: &str,
    directory: &Path,
    namespace: Option<&Namespace>,
) -> Result<Launch> {
    let launch = Launch::new(format!("{program} of node {node}"), program::find(program)?)
        .log_to(directory.join(format!("{program}.log")))
        .in_namespace(namespace.map(AsFd::as_fd))?;
    Ok(launch)
}

/// Returns the interfaces of both nodes, in the order of their ports: the given ones, else those
/// that will be created.
fn interface_names(named_interfaces: &[Pair]) -> Result<[[String; 2]; 2]> {
    match named_interfaces {
        [] => Ok([PORTS.map(str::to_owned), PORTS.map(str::to_owned)]),
        [first, second] => Ok([
            [first.a.clone(), second.a.clone()],
            [first.b.clone(), second.b.clone()],
        ]),
        _ => bail!(
            "{} pairs of interfaces were given, but there are two links\n  cure: name two pairs, \
             `--interfaces A,B --interfaces C,D`",
            named_interfaces.len()
        ),
    }
}

/// Creates two namespaces joined by two pairs of interfaces: the `named_interfaces` ones, else new
/// ones. The pair that is not cut also carries the kernel's addresses.
fn join_namespaces(named_interfaces: &[Pair]) -> Result<(Arc<Namespace>, Arc<Namespace>)> {
    let (a, b) = (
        Arc::new(Namespace::create()?),
        Arc::new(Namespace::create()?),
    );
    for namespace in [&a, &b] {
        veth::set_up(namespace, "lo", true)?;
    }
    for (index, interface) in (0..).zip(PORTS) {
        // Locally administered, one octet for the node and one for the port.
        let mut ends = [(&a, 0xa), (&b, 0xb)].map(|(namespace, node)| End {
            namespace,
            interface,
            mac: [2, 0, 0, 0, node, index],
        });
        if let Some(pair) = named_interfaces.get(usize::from(index)) {
            for (end, name) in ends.iter_mut().zip([&pair.a, &pair.b]) {
                end.interface = name;
                end.mac = named_interfaces::take(end.namespace, name)?;
            }
        } else {
            veth::join(ends[0], ends[1])?;
        }
        if interface != CUT {
            veth::address(ends[0], ADDRESS_A, PREFIX_BITS, ADDRESS_B, ends[1].mac)?;
            veth::address(ends[1], ADDRESS_B, PREFIX_BITS, ADDRESS_A, ends[0].mac)?;
        }
    }
    Ok((a, b))
}

/// Returns a core for each node's lane: the first two that this process may use. With fewer cores,
/// both lanes float.
fn first_cores() -> [Option<u32>; 2] {
    let allowed = crate::cores::allowed().unwrap_or_default();
    match allowed.iter().take(2).copied().collect::<Vec<u32>>()[..] {
        [first, second] => [Some(first), Some(second)],
        _ => [None, None],
    }
}

/// Returns where the control processes serve metrics: at the default port if each node has its own
/// loopback, else at free ports. Both ports are bound before either is released, so they differ.
fn metrics_addresses(medium: Medium) -> Result<[SocketAddr; 2]> {
    if medium == Medium::AfXdp {
        return Ok([ControlConfig::default().metrics_listen; 2]);
    }
    let bind =
        || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a free TCP port");
    let (one, other) = (bind()?, bind()?);
    Ok([one.local_addr()?, other.local_addr()?])
}

/// One end of a memif: node b calls, node a answers.
fn memif(node: &str, port: &str, socket: &Path) -> String {
    let role = if node == "a" { "server" } else { "client" };
    let ring_bits = RING_SLOTS.ilog2();
    format!(
        "net_memif_{port},role={role},socket={},socket-abstract=no,rsize={ring_bits}",
        socket.display()
    )
}

fn configuration(
    name: &str,
    workplace: &Path,
    directory: &Path,
    medium: Medium,
    interfaces: &[String; 2],
    core: Option<u32>,
    metrics_listen: SocketAddr,
) -> Config {
    let port = |(port, interface): (&str, &String)| PortConfig {
        name: port.to_owned(),
        lane: 0,
        link: true,
        kind: match medium {
            Medium::AfXdp => PortKind::AfXdp {
                interface: interface.clone(),
                queues: 0,
                ring_slots: RING_SLOTS,
                xdp: XdpMode::Auto,
                copy: CopyMode::Auto,
            },
            Medium::Cable => PortKind::Cable {
                path: workplace.join(format!("{port}.sock")),
                ring_slots: RING_SLOTS,
            },
            Medium::Dpdk => PortKind::Dpdk {
                device: memif(name, port, &workplace.join(format!("{port}.memif"))),
                queues: 1,
                ring_slots: RING_SLOTS,
                rx_checksum: RxChecksum::Ignore,
                tx_checksum: TxChecksum::Keep,
            },
        },
        faults: None,
    };
    let kernel = veth::KERNEL_NETWORK.parse().map(|dst| Rule {
        matches: Match::Prefix { dst },
        action: Action::Kernel,
    });
    Config {
        node: NodeConfig {
            name: name.to_owned(),
            runtime_dir: directory.join("run"),
            state_dir: directory.join("state"),
            group: String::new(),
            sandbox: true,
        },
        dataplane: DataplaneConfig {
            // The checks need the counts of the moment of the query, not those of some milliseconds
            // before.
            counters_ms: 0,
            idle: Idle::Adaptive,
            huge_pages: HugePages::Auto,
            ..DataplaneConfig::default()
        },
        lane: vec![LaneConfig { core }],
        port: PORTS.into_iter().zip(interfaces).map(port).collect(),
        dpdk: DpdkConfig::default(),
        link: patient_link(),
        fabric: FabricConfig::default(),
        journal: JournalConfig::default(),
        // The rule is about a kernel below the port; shared memory has none.
        steer: kernel
            .into_iter()
            .filter(|_| medium == Medium::AfXdp)
            .collect(),
        control: ControlConfig {
            metrics_listen,
            ..ControlConfig::default()
        },
        configure: ConfigureConfig::default(),
    }
}

/// Returns link settings whose failure thresholds are scaled by `--patience`: silence, keepalives
/// that reflect nothing, and the peer round-trip time.
fn patient_link() -> LinkConfig {
    let usual = LinkConfig::default();
    LinkConfig {
        idle_tick_ms: usual
            .idle_tick_ms
            .saturating_mul(factor())
            .min(IDLE_TICK_MAX_MS),
        event_ratio: usual
            .event_ratio
            .saturating_mul(factor())
            .min(EVENT_RATIO_MAX),
        ..usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configurations_are_those_that_a_file_could_hold() {
        let base = Path::new("/tmp/covalent-demo-1-2");
        for medium in [Medium::AfXdp, Medium::Cable, Medium::Dpdk] {
            let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, 9464));
            let [interfaces, _] = interface_names(&[]).expect("usual names");
            let config = configuration(
                "a",
                base,
                &base.join("a"),
                medium,
                &interfaces,
                Some(0),
                metrics,
            );
            config.check().expect("valid");
            assert_eq!(config.port.len(), PORTS.len());
            assert_eq!(config.steer.len(), usize::from(medium == Medium::AfXdp));
        }
    }
}
