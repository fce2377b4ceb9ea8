//! Eight nodes in eight network namespaces, in a ring with two chords of virtual cables. Their
//! daemons and controls are processes.
//!
//! Each test runs for some seconds with a fixed seed, or for `SOAK_SECONDS` with a new seed, which
//! it prints. `COVALENT_SEED` sets the seed.

mod additions;
mod diary;
mod groups;
mod judge;
mod member;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use covalent::{Client, Error};
use covalent_api::status::NodeStatus;
use covalent_config::Config;
use nix::sched::{CloneFlags, setns, unshare};

use crate::{
    namespace::{ip, is_root},
    nodes::{PATIENCE, eventually},
    process::REGISTERS,
};

const NODES: usize = 8;

/// The ring, and two chords.
const CABLES: [(usize, usize); 10] = [
    (0, 1),
    (1, 2),
    (2, 3),
    (3, 4),
    (4, 5),
    (5, 6),
    (6, 7),
    (7, 0),
    (1, 5),
    (3, 7),
];

/// A process that is killed when this goes, also because the test failed.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The daemon and control, which are built beside the applications.
#[derive(Clone)]
pub struct Programs {
    daemon: PathBuf,
    control: PathBuf,
}

/// One node.
struct Place {
    namespace: File,
    config: PathBuf,
    socket: PathBuf,
    processes: Option<[Running; 2]>,
}

struct Rack {
    places: Vec<Place>,
    programs: Programs,
}

/// Runs `test` with the rack's programs on its own thread, which may end in another namespace.
/// Without root or the programs, the test is skipped.
fn on_a_rack(test: impl FnOnce(&Programs) + Send) {
    if !is_root() {
        return;
    }
    let Some(programs) = Programs::find() else {
        return;
    };
    if let Err(panic) = thread::scope(|scope| scope.spawn(|| test(&programs)).join()) {
        std::panic::resume_unwind(panic);
    }
}

impl Programs {
    /// Searches for the programs beside the applications. Prints a message if one is not built.
    pub fn find() -> Option<Self> {
        let beside = Path::new(REGISTERS);
        let programs = Self {
            daemon: beside.with_file_name("covalentd"),
            control: beside.with_file_name("covalent-control"),
        };
        for program in [&programs.daemon, &programs.control] {
            if !program.exists() {
                eprintln!("skipped: {} is not built", program.display());
                return None;
            }
        }
        Some(programs)
    }

    /// Starts the two processes of a node in the namespace of the calling thread.
    pub fn start(&self, config: &Path) -> [Running; 2] {
        [&self.daemon, &self.control].map(|program| {
            let child = Command::new(program)
                .arg("--config")
                .arg(config)
                .env_remove("NOTIFY_SOCKET")
                .env_remove("RUST_LOG")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            Running(child.expect("it runs"))
        })
    }
}

impl Rack {
    fn build(directory: &Path, programs: &Programs) -> Self {
        let namespaces: Vec<File> = (0..NODES).map(|_| namespace()).collect();
        for (cable, (near, far)) in CABLES.into_iter().enumerate() {
            let there = format!(
                "/proc/{}/fd/{}",
                std::process::id(),
                namespaces[far].as_raw_fd()
            );
            enter(&namespaces[near]);
            ip(&format!("link add c{cable}a type veth peer name c{cable}b"));
            ip(&format!("link set c{cable}b netns {there}"));
            ip(&format!("link set c{cable}a up"));
            enter(&namespaces[far]);
            ip(&format!("link set c{cable}b up"));
        }
        let places = namespaces.into_iter().enumerate();
        let mut rack = Self {
            places: places
                .map(|(at, namespace)| Place::new(directory, at, namespace))
                .collect(),
            programs: programs.clone(),
        };
        (0..NODES).for_each(|at| rack.start(at));
        rack
    }

    /// Starts the two processes of a node.
    fn start(&mut self, at: usize) {
        let place = &mut self.places[at];
        enter(&place.namespace);
        place.processes = Some(self.programs.start(&place.config));
    }

    /// Kills them.
    fn kill(&mut self, at: usize) {
        self.places[at].processes = None;
    }

    fn socket(&self, at: usize) -> &Path {
        &self.places[at].socket
    }

    /// Sets an end of a cable up or down, which the other end sees too.
    fn set(&self, cable: usize, state: &str) {
        enter(&self.places[CABLES[cable].0].namespace);
        ip(&format!("link set c{cable}a {state}"));
    }

    /// A node's status; `None` while its daemon does not answer.
    fn try_status(&self, at: usize) -> Option<NodeStatus> {
        let result =
            Client::connect(self.socket(at), "rack").and_then(|mut client| client.status());
        match result {
            Ok(status) => Some(status),
            Err(Error::DaemonGone { .. } | Error::Unreachable { .. } | Error::Deadline { .. }) => {
                None
            }
            Err(error) => panic!("status of node {at}: {error}"),
        }
    }

    fn status(&self, at: usize) -> NodeStatus {
        self.try_status(at).expect("the daemon runs")
    }

    /// Waits until every live node reaches all other live nodes, and no other node.
    fn await_all(&self, dead: &[usize]) {
        let living: Vec<usize> = (0..NODES).filter(|at| !dead.contains(at)).collect();
        for &at in &living {
            let others: BTreeSet<String> = (living.iter().filter(|&&other| other != at))
                .map(|other| format!("n{other}"))
                .collect();
            eventually("all live nodes are reached, and no others", || {
                self.reached(at).as_ref() == Some(&others)
            });
        }
    }

    /// Names of the nodes that a node reaches. `None`: its daemon does not reply, or lacks a name.
    fn reached(&self, at: usize) -> Option<BTreeSet<String>> {
        let nodes = self.try_status(at)?.nodes;
        let reached = nodes.into_iter().filter(|node| node.standing == "reached");
        reached.map(|node| node.name).collect()
    }

    /// Whether the control of a node reports this number of other reached nodes.
    fn reports_reached(&self, at: usize, others: usize) -> bool {
        enter(&self.places[at].namespace);
        let wanted = format!("covalent_tree_roots{{node=\"n{at}\"}} {others}\n");
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if scrape().is_ok_and(|text| text.contains(&wanted)) {
                return true;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Place {
    fn new(directory: &Path, at: usize, namespace: File) -> Self {
        let base = directory.join(format!("n{at}"));
        let mut text = format!(
            "[node]\nname = \"n{at}\"\nruntime_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n\
             [dataplane]\nidle = \"adaptive\"\nhuge_pages = \"never\"\n",
            base.display()
        );
        for (cable, (near, far)) in CABLES.into_iter().enumerate() {
            for (end, side) in [(near, "a"), (far, "b")] {
                if end == at {
                    text += &format!(
                        "[[port]]\nname = \"c{cable}\"\nkind = \"af_xdp\"\ninterface \
                         = \"c{cable}{side}\"\nring_slots = 256\n"
                    );
                }
            }
        }
        let config = Config::parse(&text, "test").expect("the test's configuration is valid");
        fs::create_dir_all(&base).expect("room on the disk");
        let path = base.join("node.toml");
        fs::write(&path, text).expect("room on the disk");
        Self {
            namespace,
            config: path,
            socket: config.socket_path(),
            processes: None,
        }
    }
}

/// Returns the metrics that the control of the namespace's node serves.
fn scrape() -> std::io::Result<String> {
    let mut stream = TcpStream::connect("127.0.0.1:9464")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Creates a network namespace that exists as long as the file is open. IPv6 is off, so that there
/// is no other traffic.
pub fn namespace() -> File {
    let made = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("root");
        ip("link set lo up");
        File::open("/proc/thread-self/ns/net").expect("the namespace")
    });
    made.join().expect("it is made")
}

/// Puts the calling thread into a namespace.
pub fn enter(namespace: &File) {
    setns(namespace, CloneFlags::CLONE_NEWNET).expect("it is there");
}
