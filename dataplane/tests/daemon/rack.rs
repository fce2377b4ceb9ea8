//! Eight nodes in eight network namespaces, as processes, in a ring with two chords of virtual cables, while cables are cut and nodes are killed at random.
//!
//! Applications on four of them add to counters two and three hops away all the while. In the end one node is dead and all cables are whole: every
//! survivor knows which others can be reached, and each counter is what the applications were told.
//!
//! It lasts some seconds with a fixed seed, or `SOAK_SECONDS` with a fresh one, which it prints; `COVALENT_SEED` gives one.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use covalent_api::{config::Config, status::NodeStatus};
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{Mode, verb::Verb};
use nix::sched::{CloneFlags, setns, unshare};

use super::{
    client::{App, Client, Verbs},
    command::{self, Running},
    namespace::{ip, is_root},
    node::{PATIENCE, eventually},
    noise::Noise,
};

const NODES: usize = 8;

/// The ring, and two chords between nodes that have no applications.
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

/// Who adds to whose counter: no two of them are neighbours.
const LOADS: [(usize, usize); 4] = [(0, 4), (4, 2), (2, 6), (6, 0)];

/// Those that may die: they have no counters.
const MORTAL: [usize; 4] = [1, 3, 5, 7];

const USUAL: Duration = Duration::from_secs(5);

/// Additions that each application has under way.
const UNDER_WAY: u64 = 8;

/// One node.
struct Place {
    namespace: File,
    config: PathBuf,
    socket: PathBuf,
    processes: Option<[Running; 2]>,
}

struct Rack {
    places: Vec<Place>,
    control: PathBuf,
}

/// An application that adds to a far counter.
struct Load {
    verbs: Verbs,
    target: u64,
    rkey: u32,
    memory: RegionMemory,
    /// Who owns the counter.
    _owner: App,
    posted: u64,
    seen: BTreeSet<u64>,
}

#[test]
fn eight_nodes_agree_on_who_is_there_and_lose_and_double_nothing() {
    if !is_root() {
        return;
    }
    let daemon = Path::new(env!("CARGO_BIN_EXE_covalentd"));
    let control = daemon.with_file_name("covalent-control");
    if !control.exists() {
        eprintln!("skipped: {} is not built", control.display());
        return;
    }
    // On a thread of its own, which ends in another namespace.
    let run = || {
        let directory = tempfile::tempdir().expect("a directory");
        let mut noise = Noise::new(seed());
        let mut rack = Rack::build(directory.path(), control);
        rack.await_all(&[]);
        let mut loads = LOADS.map(|(from, to)| rack.load(from, to));
        let (mut cuts, mut kills) = (0_u32, 0_u32);
        let end = Instant::now() + lasts(USUAL);
        while Instant::now() < end || kills == 0 {
            if noise.below(4) == 0 {
                let at = MORTAL[noise.below(4) as usize];
                rack.kill(at);
                kills += 1;
                go_on(&mut loads, noise.below(200));
                rack.start(at);
            } else {
                let cut = [0; 2].map(|_| noise.below(CABLES.len() as u64) as usize);
                let cut = &cut[..1 + noise.below(2) as usize];
                cut.iter().for_each(|&cable| rack.set(cable, "down"));
                cuts += 1;
                go_on(&mut loads, noise.below(200));
                cut.iter().for_each(|&cable| rack.set(cable, "up"));
            }
            go_on(&mut loads, noise.below(200));
        }
        let dead = MORTAL[noise.below(4) as usize];
        rack.kill(dead);
        rack.await_all(&[dead]);
        let additions: u64 = loads.iter_mut().map(Load::finish).sum();
        for at in (0..NODES).filter(|&at| at != dead) {
            assert_eq!(rack.status(at).verbs.in_doubt, 0, "at node {at}");
            assert!(rack.tells_of(at, NODES - 2), "control of node {at}");
        }
        eprintln!("{cuts} cuts, {kills} kills, {additions} additions over two and three hops");
    };
    if let Err(panic) = thread::scope(|scope| scope.spawn(run).join()) {
        std::panic::resume_unwind(panic);
    }
}

/// Lets applications go on for some milliseconds.
fn go_on(loads: &mut [Load], milliseconds: u64) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    loop {
        loads.iter_mut().for_each(|load| {
            load.turn(true);
        });
        if Instant::now() >= end {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// For how long to go on: as long as usual, or `SOAK_SECONDS`.
pub fn lasts(usual: Duration) -> Duration {
    env::var("SOAK_SECONDS").map_or(usual, |text| {
        Duration::from_secs(text.parse().expect("SOAK_SECONDS is a number of seconds"))
    })
}

/// Where the noise begins: `COVALENT_SEED`, or anywhere in a soak. Prints it.
pub fn seed() -> u64 {
    let seed = match env::var("COVALENT_SEED") {
        Ok(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16)
            .expect("COVALENT_SEED is hexadecimal"),
        Err(_) if env::var_os("SOAK_SECONDS").is_some() => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |now| now.as_nanos() as u64),
        Err(_) => 1,
    };
    eprintln!("COVALENT_SEED={seed:#x}");
    seed
}

impl Load {
    /// Takes what has ended, and posts more if asked to.
    fn turn(&mut self, posts: bool) {
        for (_, how) in self.verbs.poll() {
            if !how.is_doubt() {
                assert!(self.seen.insert(how.word()), "an old value came twice");
            }
        }
        while posts && self.posted - (self.seen.len() as u64) < UNDER_WAY {
            let mode = [Mode::OnePhase, Mode::TwoPhase][(self.posted % 2) as usize];
            let add = Verb::FetchAdd { delta: 1 };
            let (target, rkey) = (self.target, self.rkey);
            if !self.verbs.post(target, mode, self.posted, rkey, 0, add) {
                return;
            }
            self.posted += 1;
        }
    }

    /// Waits for all that is under way, and compares the counter with what was told. Returns how many additions there were.
    fn finish(&mut self) -> u64 {
        eventually("every addition ends", || {
            self.turn(false);
            self.seen.len() as u64 == self.posted
        });
        assert!(self.posted > 0);
        assert_eq!(self.memory.load(0), Some(self.posted));
        assert!(self.seen.iter().copied().eq(0..self.posted));
        self.posted
    }
}

impl Rack {
    fn build(directory: &Path, control: PathBuf) -> Self {
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
            control,
        };
        (0..NODES).for_each(|at| rack.start(at));
        rack
    }

    /// Starts the two processes of a node.
    fn start(&mut self, at: usize) {
        let place = &mut self.places[at];
        enter(&place.namespace);
        let config = place.config.to_str().expect("text");
        let daemon = command::start(&["--config", config]);
        let control = Command::new(&self.control)
            .args(["--config", config])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        place.processes = Some([daemon, Running(control.expect("covalent-control runs"))]);
    }

    fn kill(&mut self, at: usize) {
        self.places[at].processes = None;
    }

    /// Sets an end of a cable up or down, which the other end sees too.
    fn set(&self, cable: usize, state: &str) {
        enter(&self.places[CABLES[cable].0].namespace);
        ip(&format!("link set c{cable}a {state}"));
    }

    fn status(&self, at: usize) -> NodeStatus {
        Client::connect(&self.places[at].socket).status()
    }

    /// Waits until every node that lives reaches all others that do, and no other.
    fn await_all(&self, dead: &[usize]) {
        let living: Vec<usize> = (0..NODES).filter(|at| !dead.contains(at)).collect();
        for &at in &living {
            let others: BTreeSet<String> = (living.iter().filter(|&&other| other != at))
                .map(|other| format!("n{other}"))
                .collect();
            eventually("all who live are reached, and nobody else", || {
                let reached = self.reached(at);
                reached == Some(others.clone())
            });
        }
    }

    /// Names of the nodes that a node reaches; `None` while its daemon does not answer.
    fn reached(&self, at: usize) -> Option<BTreeSet<String>> {
        covalent_pipe::seqpacket::Connection::connect(&self.places[at].socket).ok()?;
        let nodes = self.status(at).nodes;
        let reached = nodes.into_iter().filter(|node| node.standing == "reached");
        reached.map(|node| node.name).collect()
    }

    /// Whether control of a node tells that so many others are reached.
    fn tells_of(&self, at: usize, others: usize) -> bool {
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

    fn load(&self, from: usize, to: usize) -> Load {
        let mut owner = App::attach(&self.places[to].socket);
        let (rkey, memory) = owner.register(&format!("of-{from}"), 64);
        Load {
            verbs: Verbs::new(App::attach(&self.places[from].socket)),
            target: self.status(to).guid.bits(),
            rkey,
            memory,
            _owner: owner,
            posted: 0,
            seen: BTreeSet::new(),
        }
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
                        "[[port]]\nname = \"c{cable}\"\nkind = \"af_xdp\"\ninterface = \"c{cable}{side}\"\nring_slots = 256\n"
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

/// What control of the namespace's node serves.
fn scrape() -> std::io::Result<String> {
    let mut stream = TcpStream::connect("127.0.0.1:9464")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// A new network namespace, which lives as long as the file is open. IPv6 is off, so that nobody else speaks.
fn namespace() -> File {
    let made = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("root");
        ip("link set lo up");
        File::open("/proc/thread-self/ns/net").expect("the namespace")
    });
    made.join().expect("it is made")
}

fn enter(namespace: &File) {
    setns(namespace, CloneFlags::CLONE_NEWNET).expect("it is there");
}
