//! Every program and command exits on SIGTERM, on SIGHUP, when its terminal is closed and when the
//! reader of its output is gone.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::OpenOptionsExt, process::ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use covalent_api::MAX_DATAGRAM_BYTES;
use covalent_ipc::seqpacket::{Connection, Listener};
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    pty::openpty,
    sys::{signal::Signal, stat::Mode},
    unistd::mkfifo,
};
use rustix::io::FdFlags;
use support::{Guarded, node::Node, wait_until};

/// Longest time for anything. The exit status distinguishes a program that was stopped from one
/// that gave up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest time until a program prints something, or is silently at work.
const STARTS: Duration = Duration::from_millis(1_500);

/// The same of one that computes from its first moment on.
const COMPUTES: Duration = Duration::from_millis(300);

/// A program is silently at work if all its threads are waiting in so many consecutive samples.
const POLLS: u32 = 8;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The behavior of a program without intervention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// It runs until it is requested to stop.
    Runs,
    /// As [`Left::Runs`], and it needs a terminal.
    OnTerminal,
    /// As [`Left::Runs`]. It computes from its first moment on, and prints nothing for long.
    Computes,
    /// It keeps running, also after its output is closed: its users do not read the output.
    Serves,
    /// As [`Left::Serves`]. On SIGHUP it reads its file again, unless the terminal was closed.
    Reloads,
    /// It queries a daemon and waits for the reply. In the test, the daemon never replies. The
    /// program writes nothing before, so it notices a closed pipe only when it gives up and writes.
    Queries,
    /// It exits by itself, and first reads a file. The file is a FIFO without a writer.
    Reads,
    /// It exits by itself after writing. Its output is full and has no reader.
    Writes,
}

use Left::{Computes, OnTerminal, Queries, Reads, Reloads, Runs, Serves, Writes};

/// Each command with arguments. `{a}` is the directory of a running node, `{own}` that of a node
/// that does not run, `{mute}` the socket of a daemon that never replies, `{silent}` the directory
/// of its node, `{fifo}` a FIFO without a writer, `{free}` a directory.
const TABLE: &[(&str, &str, Left)] = &[
    (
        "covalent demo",
        "--port cable --keep-going --quick --no-bench",
        Runs,
    ),
    (
        "covalent up",
        "--foreground --config {own}/covalent.toml",
        Runs,
    ),
    (
        "covalent monitor",
        "--socket {a}/run/covalentd.sock",
        OnTerminal,
    ),
    ("covalent watch", "port --config {a}/covalent.toml", Runs),
    (
        "covalent watch",
        "--events --config {a}/covalent.toml",
        Runs,
    ),
    (
        "covalent events",
        "--follow --config {a}/covalent.toml",
        Runs,
    ),
    (
        "covalent counters",
        "--watch --config {a}/covalent.toml",
        Runs,
    ),
    (
        "covalent capture",
        "--config {a}/covalent.toml {free}/capture.pcapng",
        Runs,
    ),
    ("covalent sim", "--seeds 0..1000000000", Computes),
    ("covalent sim group", "--seeds 0..1000000000", Computes),
    ("covalent sim hunt", "--minutes 1000", Computes),
    ("covalent sim mesh", "--nodes 1000 --shape torus", Computes),
    ("covalentd", "--config {own}/covalent.toml", Serves),
    ("covalent-control", "--config {own}/covalent.toml", Reloads),
    (
        "covalent-echo",
        "--port p0 --socket {a}/run/covalentd.sock",
        Serves,
    ),
    (
        "covalent-replay",
        "--port p0 --seconds 600 --socket {a}/run/covalentd.sock",
        Serves,
    ),
    (
        "covalent-bank",
        "host --socket {a}/run/covalentd.sock",
        Serves,
    ),
    (
        "covalent-registers",
        "serve --founders 1 --socket {a}/run/covalentd.sock",
        Serves,
    ),
    ("covalent status", "--socket {mute}", Queries),
    ("covalent links", "--socket {mute}", Queries),
    ("covalent groups", "--socket {mute}", Queries),
    ("covalent pipes", "--socket {mute}", Queries),
    ("covalent reload", "--socket {mute}", Queries),
    ("covalent steer list", "--socket {mute}", Queries),
    (
        "covalent steer add",
        "--socket {mute} drop --transport udp --dst-port 53",
        Queries,
    ),
    (
        "covalent steer del",
        "--socket {mute} --transport udp --dst-port 53",
        Queries,
    ),
    ("covalent region delete", "--socket {mute} ledger", Queries),
    ("covalent verb lookup", "--socket {mute} b bank", Queries),
    ("covalent verb read", "--socket {mute} b bank 0", Queries),
    ("covalent verb write", "--socket {mute} b bank 0 x", Queries),
    ("covalent verb send", "--socket {mute} b bank x", Queries),
    ("covalent verb swap", "--socket {mute} b bank 0 1", Queries),
    (
        "covalent verb fetch-add",
        "--socket {mute} b bank 0 1",
        Queries,
    ),
    (
        "covalent verb fetch-and",
        "--socket {mute} b bank 0 1",
        Queries,
    ),
    (
        "covalent verb fetch-or",
        "--socket {mute} b bank 0 1",
        Queries,
    ),
    (
        "covalent verb fetch-xor",
        "--socket {mute} b bank 0 1",
        Queries,
    ),
    (
        "covalent verb fetch-min",
        "--socket {mute} b bank 0 1",
        Queries,
    ),
    (
        "covalent verb fetch-max",
        "--socket {mute} b bank 0 1",
        Queries,
    ),
    (
        "covalent verb compare-and-swap",
        "--socket {mute} b bank 0 1 2",
        Queries,
    ),
    (
        "covalent verb multi-commit",
        "--socket {mute} b bank 0:1:2",
        Queries,
    ),
    (
        "covalent verb update-if",
        "--socket {mute} b bank 0 at-least 1 add 1",
        Queries,
    ),
    ("covalent down", "--config {silent}/covalent.toml", Queries),
    ("covalent down", "--config {fifo}", Reads),
    ("covalent doctor", "--config {fifo}", Reads),
    // It waits half a second for the daemon, then writes that this daemon does not reply.
    ("covalent doctor", "--config {silent}/covalent.toml", Writes),
    ("covalent config print-default", "", Writes),
    ("covalent config check", "{fifo}", Reads),
    ("covalent config check", "{a}/covalent.toml", Writes),
    ("covalent config auto", "--config {fifo}", Reads),
    ("covalent config auto", "--config {a}/covalent.toml", Writes),
    ("covalent completions", "bash", Writes),
    ("covalent man", "{free}/man", Writes),
    // The next run undoes or completes interrupted work (`cli/src/configure/crashes.rs`). Here no
    // work is started: the machine is that of the tests.
    ("covalent configure check", "--config {fifo}", Reads),
    (
        "covalent configure check",
        "--config {a}/covalent.toml",
        Writes,
    ),
    ("covalent configure init", "--config {fifo}", Reads),
    (
        "covalent configure init",
        "--dry-run --config {a}/covalent.toml",
        Writes,
    ),
    ("covalent configure fini", "--config {fifo}", Reads),
    (
        "covalent configure fini",
        "--dry-run --config {own}/covalent.toml",
        Writes,
    ),
    // It becomes covalent-bench, whose measurements are stopped in `bench/tests/ends_in_order.rs`.
    ("covalent bench", "--help", Writes),
    ("covalent-bench", "--help", Writes),
];

/// All that can be run: the pages of the manual, and the programs that are installed.
fn commands(free: &Path) -> BTreeSet<String> {
    let man = free.join("man");
    let pages = support::covalent(free).arg("man").arg(&man).output();
    assert!(pages.unwrap().status.success());
    let pages: Vec<String> = ["man1", "man8"]
        .iter()
        .flat_map(|section| support::entries(&man.join(section)))
        .map(|page| page.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let makefile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Makefile");
    let makefile = fs::read_to_string(makefile).unwrap();
    let programs = makefile
        .lines()
        .find_map(|line| line.strip_prefix("PROGRAMS = "));
    let programs: Vec<&str> = programs.unwrap().split_whitespace().collect();
    assert!(programs.len() > 5, "{programs:?}");
    let is_program = |name: &str| name != "covalent-bench" && programs.contains(&name);
    let mut all: BTreeSet<String> = programs.iter().map(|&name| name.to_owned()).collect();
    for page in &pages {
        // A manual page with subcommands is no command, except for commands that also run without
        // one.
        let is_parent = pages
            .iter()
            .any(|other| other.starts_with(&format!("{page}-")));
        if !is_parent || page == "covalent-sim" {
            all.insert(if is_program(page) {
                page.clone()
            } else {
                spoken(page)
            });
        }
    }
    all.remove("covalent");
    all
}

/// `covalent-verb-fetch-add` as it is typed.
fn spoken(page: &str) -> String {
    const PARENTS: [&str; 6] = ["config", "configure", "region", "sim", "steer", "verb"];
    let command = page.strip_prefix("covalent-").unwrap();
    let parent = PARENTS.iter().find_map(|parent| {
        let below = command.strip_prefix(parent)?.strip_prefix('-')?;
        Some(format!("covalent {parent} {below}"))
    });
    parent.unwrap_or_else(|| format!("covalent {command}"))
}

#[test]
fn every_command_is_in_the_table() {
    let free = tempfile::tempdir().unwrap();
    let listed: BTreeSet<String> = TABLE.iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(commands(free.path()), listed);
}

/// How a program is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndRequest {
    Terminate,
    HangUp,
    /// Its controlling terminal is closed, and the kernel signals it.
    TerminalCloses,
    /// A terminal that it only writes to is closed, without a signal.
    OutputTerminalCloses,
    PipeCloses,
    /// The reader of its output is gone, which alone does not stop it; then
    /// [`EndRequest::Terminate`].
    PipeClosesThenTerminate,
}

struct Places {
    a: PathBuf,
    own: PathBuf,
    /// A daemon that never replies.
    mute: Listener,
    /// The directory of its node.
    silent: PathBuf,
    fifo: PathBuf,
    free: PathBuf,
}

impl Places {
    /// The command, ended by the system's defaults for signals.
    fn command(&self, command: &str, arguments: &str) -> (PathBuf, Vec<String>) {
        let mut words = command.split(' ');
        let program = Path::new(env!("CARGO_BIN_EXE_covalent"));
        let program = program.with_file_name(words.next().unwrap());
        let replaced = arguments
            .replace("{a}", &self.a.display().to_string())
            .replace("{own}", &self.own.display().to_string())
            .replace("{mute}", &self.mute.path().display().to_string())
            .replace("{silent}", &self.silent.display().to_string())
            .replace("{fifo}", &self.fifo.display().to_string())
            .replace("{free}", &self.free.display().to_string());
        let words = words.map(str::to_owned);
        (
            program,
            words
                .chain(replaced.split_whitespace().map(str::to_owned))
                .collect(),
        )
    }
}

/// Waits until something is written, or until all threads of the program wait for something to
/// do, for so long at most: then it is at work.
fn until_it_works(program: &Child, output: &OwnedFd, starts: Duration) {
    let mut polled = [PollFd::new(
        std::os::fd::AsFd::as_fd(output),
        PollFlags::POLLIN,
    )];
    let interval = PollTimeout::try_from(POLL_INTERVAL).unwrap();
    let end = Instant::now() + starts;
    let mut waiting = 0;
    while Instant::now() < end && waiting < POLLS {
        if poll(&mut polled, interval).unwrap() > 0 {
            thread::sleep(Duration::from_millis(150));
            return;
        }
        waiting = if waits(program.id()) { waiting + 1 } else { 0 };
    }
}

/// Waits until all threads of the program wait for something, for so long at most.
fn until_it_waits(program: &Child) {
    let end = Instant::now() + STARTS;
    let mut waiting = 0;
    while Instant::now() < end && waiting < POLLS {
        thread::sleep(POLL_INTERVAL);
        waiting = if waits(program.id()) { waiting + 1 } else { 0 };
    }
}

/// Waits until the program reads the FIFO. It keeps reading while the returned file is open.
fn until_it_reads(fifo: &Path) -> File {
    let mut writer = None;
    wait_until("it reads", PATIENCE, || {
        let mut options = OpenOptions::new();
        let options = options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
        // Refused until a process has it open for reading.
        writer = options.open(fifo).ok();
        writer.is_some()
    });
    writer.unwrap()
}

/// Writes until there is no space, and restores the descriptor's flags. A terminal frees space a
/// moment later, when it moves its input.
fn fill(output: impl AsFd) {
    let output = output.as_fd();
    let before = OFlag::from_bits_retain(fcntl(output, FcntlArg::F_GETFL).unwrap());
    fcntl(output, FcntlArg::F_SETFL(before | OFlag::O_NONBLOCK)).unwrap();
    let mut file = File::from(output.try_clone_to_owned().unwrap());
    let mut full = 0;
    for _ in 0..1_000 {
        let written: usize = [4_096, 1]
            .map(|length| {
                let mut all = 0;
                while let Ok(count) = file.write(&vec![b'x'; length]) {
                    all += count;
                }
                all
            })
            .iter()
            .sum();
        full = if written == 0 { full + 1 } else { 0 };
        if full == 5 {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(full, 5, "there is room again and again");
    fcntl(output, FcntlArg::F_SETFL(before)).unwrap();
}

/// Returns whether all threads of a process are sleeping.
fn waits(pid: u32) -> bool {
    let tasks = support::entries(Path::new(&format!("/proc/{pid}/task")));
    tasks.iter().all(|task| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
        state == Some("S")
    })
}

/// Waits until a request arrives at the daemon that never replies. The connection exists as long as
/// the returned value.
fn accept_request(mute: &Listener) -> Connection {
    let mut accepted = None;
    wait_until("it asks", PATIENCE, || {
        let Ok(connection) = mute.accept() else {
            return false;
        };
        assert!(
            connection.wait(Some(PATIENCE)).unwrap(),
            "it sends no request"
        );
        // A client that only checks for a listener closes without a request.
        if connection.recv(&mut vec![0; MAX_DATAGRAM_BYTES]).is_ok() {
            accepted = Some(connection);
        }
        accepted.is_some()
    });
    accepted.unwrap()
}

fn check(places: &Places, row: &(&str, &str, Left), end_request: EndRequest) {
    let (name, arguments, left) = *row;
    // Connections of exited programs.
    while places.mute.accept().is_ok() {}
    let on_terminal = matches!(
        end_request,
        EndRequest::TerminalCloses | EndRequest::OutputTerminalCloses
    ) || matches!(left, OnTerminal);
    let has_control = !matches!(end_request, EndRequest::OutputTerminalCloses) && on_terminal;
    let (program, arguments) = places.command(name, arguments);
    let mut command = support::covalent(&places.free);
    let mut tested = Command::new("setsid");
    support::give_default_signals(&mut tested);
    if has_control {
        tested.arg("--ctty");
    }
    tested.arg(&program).args(&arguments);
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => tested.env(key, value),
            None => tested.env_remove(key),
        };
    }
    command.env_clear();
    tested.env("TERM", "xterm-256color");
    let output: OwnedFd;
    // Keeps standard input open if it is a pipe: some programs exit at its end of file.
    let mut input = None;
    if on_terminal {
        let pty = openpty(None, None).unwrap();
        // A child that had the other side of its terminal would keep it open.
        for end in [&pty.master, &pty.slave] {
            rustix::io::fcntl_setfd(end, FdFlags::CLOEXEC).unwrap();
        }
        if left == Writes {
            fill(&pty.slave);
        }
        let copy = || Stdio::from(pty.slave.try_clone().unwrap());
        tested.stdin(copy()).stdout(copy()).stderr(copy());
        output = pty.master;
    } else {
        let (reader, writer) = std::io::pipe().unwrap();
        let (silent, kept) = std::io::pipe().unwrap();
        if left == Writes {
            fill(&writer);
        }
        tested
            .stdin(silent)
            .stdout(writer)
            .stderr(File::create(places.free.join("stderr")).unwrap());
        input = Some(kept);
        output = reader.into();
    }
    let mut running = Guarded(tested.spawn().unwrap());
    // The parent's copies of the child's output descriptors.
    drop(tested);
    // Values that block the program as long as they exist.
    let (mut _accepted, mut _writer) = (None, None);
    match left {
        Queries => _accepted = Some(accept_request(&places.mute)),
        Reads => _writer = Some(until_it_reads(&places.fifo)),
        Writes => until_it_waits(&running.0),
        Computes => until_it_works(&running.0, &output, COMPUTES),
        _ => until_it_works(&running.0, &output, STARTS),
    }
    let mut early = String::new();
    if let Some(status) = running.0.try_wait().unwrap() {
        let _ = File::open(places.free.join("stderr")).map(|mut it| it.read_to_string(&mut early));
        panic!("{name}: it exited by itself with {status}: {early}");
    }
    let mut output = Some(output);
    if left != Writes && matches!(end_request, EndRequest::Terminate | EndRequest::HangUp) {
        // A full pipe would block a program that is about to exit.
        let mut output = File::from(output.take().unwrap());
        thread::spawn(move || io::copy(&mut output, &mut io::sink()));
    }
    match end_request {
        EndRequest::Terminate => running.signal(Signal::SIGTERM),
        EndRequest::HangUp => running.signal(Signal::SIGHUP),
        EndRequest::TerminalCloses | EndRequest::OutputTerminalCloses | EndRequest::PipeCloses => {
            drop(output.take());
        }
        EndRequest::PipeClosesThenTerminate => {
            drop(output.take());
            // Some write once a second.
            thread::sleep(STARTS);
            running.signal(Signal::SIGTERM);
        }
    }
    let mut status = None;
    let what = format!("{name} {arguments:?} ends after {end_request:?}");
    wait_until(&what, PATIENCE, || {
        status = running.0.try_wait().unwrap();
        status.is_some()
    });
    let status = status.unwrap();
    // By itself, one of these would give up or go on, with an exit status.
    let signal = match (left, end_request) {
        (Queries | Reads | Writes, EndRequest::Terminate) => Some(Signal::SIGTERM),
        (Queries | Reads | Writes, EndRequest::HangUp) => Some(Signal::SIGHUP),
        (Queries | Reads, EndRequest::TerminalCloses) => Some(Signal::SIGHUP),
        // Its write may fail before the signal arrives.
        _ => None,
    };
    if signal.is_some() {
        let signal = signal.map(|signal| signal as i32);
        assert_eq!(status.signal(), signal, "{what}: {status}");
    }
    // A command without a graceful shutdown is killed, and leaves its files behind.
    assert_eq!(left_behind(places), Vec::<PathBuf>::new(), "{what}");
    drop(input);
}

/// Returns the leftovers of a demonstration, and of the node that does not run.
fn left_behind(places: &Places) -> Vec<PathBuf> {
    let mut left = support::entries(&places.free);
    left.retain(|path| path.to_string_lossy().contains("covalent-demo-"));
    if let Ok(true) = fs::exists(places.own.join("run")) {
        left.extend(support::entries(&places.own.join("run")));
    }
    left.retain(|path| path.is_dir() || path.extension().is_some_and(|it| it == "sock"));
    left
}

#[test]
fn a_running_command_ends_on_request() {
    check_all(&[Runs, OnTerminal, Computes]);
}

#[test]
fn a_serving_command_ends_on_request() {
    check_all(&[Serves, Reloads]);
}

#[test]
fn a_querying_command_ends_on_request() {
    check_all(&[Queries]);
}

#[test]
fn a_reading_or_writing_command_ends_on_request() {
    check_all(&[Reads, Writes]);
}

/// All commands that query a daemon run at once, against a daemon that never replies.
#[test]
fn a_querying_command_without_a_reader_ends_by_itself() {
    with_places(|places| {
        let queries = TABLE.iter().filter(|row| row.2 == Queries);
        let mut running: Vec<(&str, Guarded)> = queries
            .map(|&(name, arguments, _)| {
                let (_, arguments) = places.command(name, arguments);
                let (reader, writer) = io::pipe().unwrap();
                drop(reader);
                let mut command = support::covalent(&places.free);
                command.args(arguments).stdout(writer);
                command.stderr(Stdio::null());
                (name, Guarded(command.spawn().unwrap()))
            })
            .collect();
        let mut accepted = Vec::new();
        let end = Instant::now() + PATIENCE;
        while !running.is_empty() {
            accepted.extend(places.mute.accept().ok());
            running.retain_mut(|(name, command)| match command.0.try_wait().unwrap() {
                Some(status) => {
                    assert_ne!(status.code(), Some(0), "{name}");
                    false
                }
                None => true,
            });
            let names = || running.iter().map(|it| it.0).collect::<Vec<_>>();
            assert!(Instant::now() < end, "{:?} do not end", names());
            thread::sleep(Duration::from_millis(5));
        }
    });
}

/// Stops each of these in every applicable way.
fn check_all(those: &[Left]) {
    with_places(|places| {
        for row in TABLE.iter().filter(|row| those.contains(&row.2)) {
            for end_request in end_requests(row.2) {
                check(places, row, *end_request);
            }
        }
    });
}

fn with_places(does: impl FnOnce(&Places)) {
    let free = tempfile::tempdir().unwrap();
    let nodes = tempfile::tempdir().unwrap();
    let _nodes = Node::pair(nodes.path());
    let own = nodes.path().join("own");
    fs::create_dir(&own).unwrap();
    let text = fs::read_to_string(nodes.path().join("a/covalent.toml")).unwrap();
    let (a, this) = (nodes.path().join("a"), own.display().to_string());
    let text = text
        .replace(&a.display().to_string(), &this)
        .replace("cable.sock", "own.sock");
    fs::write(own.join("covalent.toml"), &text).unwrap();
    let silent = nodes.path().join("silent");
    fs::create_dir_all(silent.join("run")).unwrap();
    let here = silent.display().to_string();
    let of_silent = text.replace(&own.display().to_string(), &here);
    fs::write(silent.join("covalent.toml"), of_silent).unwrap();
    let fifo = nodes.path().join("fifo");
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let places = Places {
        a,
        own,
        mute: Listener::bind(&silent.join("run/covalentd.sock")).unwrap(),
        silent,
        fifo,
        free: free.path().to_owned(),
    };
    places.mute.set_nonblocking(true).unwrap();
    does(&places);
}

/// Returns all ways to stop a program of this kind.
const fn end_requests(left: Left) -> &'static [EndRequest] {
    match left {
        Runs | Computes | Writes => &[
            EndRequest::Terminate,
            EndRequest::HangUp,
            EndRequest::TerminalCloses,
            EndRequest::OutputTerminalCloses,
            EndRequest::PipeCloses,
        ],
        OnTerminal => &[
            EndRequest::Terminate,
            EndRequest::HangUp,
            EndRequest::TerminalCloses,
            EndRequest::OutputTerminalCloses,
        ],
        Serves => &[
            EndRequest::Terminate,
            EndRequest::HangUp,
            EndRequest::TerminalCloses,
            EndRequest::PipeClosesThenTerminate,
        ],
        Queries | Reads => &[
            EndRequest::Terminate,
            EndRequest::HangUp,
            EndRequest::TerminalCloses,
        ],
        Reloads => &[
            EndRequest::Terminate,
            EndRequest::TerminalCloses,
            EndRequest::PipeClosesThenTerminate,
        ],
    }
}
