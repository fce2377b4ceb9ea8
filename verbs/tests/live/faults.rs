//! Applications whose system calls fail, each in its own process.

use std::{
    env, fs,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use covalent::{Device, Error, Match, Rights, Target, Timeout};
use nix::{
    libc,
    sys::resource::{Resource, getrlimit, setrlimit},
};

use crate::nodes::Nodes;

/// Where the roles below find the daemon of node a.
const SOCKET: &str = "COVALENT_TEST_SOCKET";
/// How long signals fall.
const STORM: Duration = Duration::from_secs(1);
/// Between two signals to one thread.
const BETWEEN: Duration = Duration::from_micros(200);

/// Runs the ignored test `role` to its end, which must be good.
fn run(role: &str, nodes: Option<&Nodes>) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", role, "--ignored", "--nocapture"]);
    command.env(
        SOCKET,
        nodes.map_or(PathBuf::new(), |nodes| nodes.socket("a")),
    );
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn an_application_without_descriptors_gets_an_error_and_can_continue() {
    let nodes = Nodes::start(&["p0"]);
    run("faults::without_descriptors", Some(&nodes));
}

/// Not a test: the process of one.
#[test]
#[ignore = "the process of a test"]
fn without_descriptors() {
    let Some(socket) = env::var_os(SOCKET) else {
        return;
    };
    let device = Device::attach(PathBuf::from(socket), "test").unwrap();
    let mut pipe = device.rx_pipe(1 << 16).unwrap();
    let (usual, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // A pipe comes with two.
    for room in [0, 1] {
        let is_free = |fd: &u64| !fs::exists(format!("/proc/self/fd/{fd}")).unwrap();
        let limit = (0..).filter(is_free).nth(room).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, limit, most).unwrap();
        for _ in 0..3 {
            let error = device.rx_pipe(1 << 16).unwrap_err();
            assert!(
                matches!(&error, Error::System { .. }) && error.to_string().contains("ulimit -n"),
                "{error}"
            );
            // Open objects stay, and each reply belongs to its request.
            assert_eq!(device.status().unwrap().pipes.len(), 1);
        }
        setrlimit(Resource::RLIMIT_NOFILE, usual, most).unwrap();
        drop(device.rx_pipe(1 << 16).unwrap());
    }
    pipe.bind(&Match::Any).unwrap();
}

#[test]
fn a_storm_of_signals_costs_nothing_but_time() {
    run("faults::in_a_storm", None);
}

/// Not a test: a process with two daemons and an application. Signals interrupt all of its threads
/// continuously.
#[test]
#[ignore = "the process of a test"]
fn in_a_storm() {
    if env::var_os(SOCKET).is_none() {
        return;
    }
    let nodes = Nodes::start(&["p0"]);
    let until = Instant::now() + STORM;
    let own = std::process::id();
    // SAFETY: `gettid` only returns this thread's number.
    let storms = unsafe { libc::syscall(libc::SYS_gettid) }.to_string();
    let storm = thread::spawn(move || {
        let mut signals = 0_u64;
        while Instant::now() < until {
            // Daemons and applications ignore SIGURG. A process with daemons in it handles the
            // signal.
            for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
                let task = task.file_name().into_string().unwrap();
                if task == storms {
                    // The test's own thread too: it waits in the kernel most of the time.
                    signals += 1;
                }
                let tid: libc::c_long = task.parse().unwrap();
                // SAFETY: sends a handled signal to a thread of this process, or to none if the
                // thread has exited.
                unsafe { libc::syscall(libc::SYS_tgkill, own, tid, libc::SIGURG) };
            }
            thread::sleep(BETWEEN);
        }
        signals
    });
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let region = b.register_region("words", 4096, Rights::ALL).unwrap();
    let mut verbs = a.verbs().unwrap();
    let remote = verbs
        .open_region(Target::Name("b"), "words", Timeout::FOREVER)
        .unwrap();
    let mut rounds = 0;
    while Instant::now() < until {
        for _ in 0..20 {
            verbs.fetch_add(&remote, 0, 1, Timeout::FOREVER).unwrap();
        }
        let mut pipe = b.rx_pipe(1 << 16).unwrap();
        pipe.bind(&Match::Any).unwrap();
        let mut tx = a.tx_pipe(1 << 16, "p0").unwrap();
        tx.try_send(&[0x88; 64]).unwrap();
        assert_eq!(pipe.recv(Timeout::FOREVER).unwrap().iter().count(), 1);
        tx.flush(Timeout::FOREVER).unwrap();
        assert_eq!(a.status().unwrap().sessions, 1);
        rounds += 1;
    }
    let signals = storm.join().unwrap();
    assert_eq!(region.load(0).unwrap(), rounds * 20, "each exactly once");
    eprintln!("{rounds} rounds under {signals} signals to each thread");
    assert!(
        rounds > 0 && signals > 100,
        "{rounds} rounds, {signals} signals"
    );
    for name in ["a", "b"] {
        let links = nodes.attach(name).status().unwrap().links;
        assert!(links.iter().all(|link| link.ups == 1), "{links:?}");
    }
}
