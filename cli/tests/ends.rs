//! Every program and command ends on SIGTERM, on SIGHUP, when its terminal is closed and when nobody reads what it writes.
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
use covalent_pipe::seqpacket::{Connection, Listener};
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    pty::openpty,
    sys::{signal::Signal, stat::Mode},
    unistd::mkfifo,
};
use rustix::io::FdFlags;
use support::{Guarded, node::Node, wait_until};

/// How long anything may take. How it ended tells a program that was told from one that gave up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a program is given until it says something, or is at work without a word.
const STARTS: Duration = Duration::from_millis(1_500);

/// The same of one that computes from its first moment on.
const COMPUTES: Duration = Duration::from_millis(300);

/// A program is at work without a word if all its threads wait whenever it is looked at, this often.
const LOOKS: u32 = 8;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// What becomes of a program that is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// It runs on, and has to be told to end.
    Runs,
    /// As [`Left::Runs`], and it needs a terminal.
    OnTerminal,
    /// As [`Left::Runs`]. It computes from its first moment on, and prints nothing for long.
    Computes,
    /// It runs on, and closing its output means nothing to it: who uses it does not read it.
    Serves,
    /// As [`Left::Serves`]. SIGHUP has it read its file again, unless it tells that the terminal is closed.
    Reloads,
    /// It asks a daemon, and waits for what that says. It is asked of one that says nothing. It writes
    /// nothing until then, so it notices a closed pipe only when it writes, which is when it gives up.
    Asks,
    /// It ends by itself, and begins with a file. The file is a FIFO that nobody writes to.
    Reads,
    /// It ends by itself when it has written. Its output is full, and nobody reads it.
    Writes,
}

use Left::{Asks, Computes, OnTerminal, Reads, Reloads, Runs, Serves, Writes};

/// Each command with arguments. `{a}` is the directory of a node that runs, `{own}` one of a node that
/// does not, `{mute}` the socket of a daemon that says nothing, `{silent}` the directory of its node,
/// `{fifo}` a FIFO that nobody writes to, `{free}` a directory.
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
    ("covalent status", "--socket {mute}", Asks),
    ("covalent links", "--socket {mute}", Asks),
    ("covalent groups", "--socket {mute}", Asks),
    ("covalent pipes", "--socket {mute}", Asks),
    ("covalent reload", "--socket {mute}", Asks),
    ("covalent steer list", "--socket {mute}", Asks),
    (
        "covalent steer add",
        "--socket {mute} drop --transport udp --dst-port 53",
        Asks,
    ),
    (
        "covalent steer del",
        "--socket {mute} --transport udp --dst-port 53",
        Asks,
    ),
    ("covalent region delete", "--socket {mute} ledger", Asks),
    ("covalent verb lookup", "--socket {mute} b bank", Asks),
    ("covalent verb read", "--socket {mute} b bank 0", Asks),
    ("covalent verb write", "--socket {mute} b bank 0 x", Asks),
    ("covalent verb send", "--socket {mute} b bank x", Asks),
    ("covalent verb swap", "--socket {mute} b bank 0 1", Asks),
    (
        "covalent verb fetch-add",
        "--socket {mute} b bank 0 1",
        Asks,
    ),
    (
        "covalent verb fetch-and",
        "--socket {mute} b bank 0 1",
        Asks,
    ),
    ("covalent verb fetch-or", "--socket {mute} b bank 0 1", Asks),
    (
        "covalent verb fetch-xor",
        "--socket {mute} b bank 0 1",
        Asks,
    ),
    (
        "covalent verb fetch-min",
        "--socket {mute} b bank 0 1",
        Asks,
    ),
    (
        "covalent verb fetch-max",
        "--socket {mute} b bank 0 1",
        Asks,
    ),
    (
        "covalent verb compare-and-swap",
        "--socket {mute} b bank 0 1 2",
        Asks,
    ),
    (
        "covalent verb multi-commit",
        "--socket {mute} b bank 0:1:2",
        Asks,
    ),
    (
        "covalent verb update-if",
        "--socket {mute} b bank 0 at-least 1 add 1",
        Asks,
    ),
    ("covalent down", "--config {silent}/covalent.toml", Asks),
    ("covalent down", "--config {fifo}", Reads),
    ("covalent doctor", "--config {fifo}", Reads),
    // It waits half a second for the daemon, and then writes that this one says nothing.
    ("covalent doctor", "--config {silent}/covalent.toml", Writes),
    ("covalent config print-default", "", Writes),
    ("covalent config check", "{fifo}", Reads),
    ("covalent config check", "{a}/covalent.toml", Writes),
    ("covalent config auto", "--config {fifo}", Reads),
    ("covalent config auto", "--config {a}/covalent.toml", Writes),
    ("covalent completions", "bash", Writes),
    ("covalent man", "{free}/man", Writes),
    // What was begun is undone or completed by the next one (`cli/src/configure/crashes.rs`). Here
    // nothing is begun: the machine is that of the tests.
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
    // It becomes covalent-bench, whose measurements are ended in `bench/tests/ends_in_order.rs`.
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
        // A page of commands that has more below it is no command, but for those that run without one.
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

/// How a program is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Terminate,
    HangUp,
    /// Its controlling terminal is closed, of which the kernel tells it too.
    TerminalCloses,
    /// A terminal is closed that it only writes to, of which no signal tells.
    OutputTerminalCloses,
    PipeCloses,
    /// Nobody reads its output any more, which alone does not end it; then [`Told::Terminate`].
    PipeClosesThenTerminate,
}

struct Places {
    a: PathBuf,
    own: PathBuf,
    /// A daemon that says nothing.
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
    let look = PollTimeout::try_from(BETWEEN_LOOKS).unwrap();
    let end = Instant::now() + starts;
    let mut waiting = 0;
    while Instant::now() < end && waiting < LOOKS {
        if poll(&mut polled, look).unwrap() > 0 {
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
    while Instant::now() < end && waiting < LOOKS {
        thread::sleep(BETWEEN_LOOKS);
        waiting = if waits(program.id()) { waiting + 1 } else { 0 };
    }
}

/// Waits until the program reads the FIFO. It goes on reading as long as what is returned is open.
fn until_it_reads(fifo: &Path) -> File {
    let mut writer = None;
    wait_until("it reads", PATIENCE, || {
        let mut options = OpenOptions::new();
        let options = options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
        // Refused as long as nobody has it open for reading.
        writer = options.open(fifo).ok();
        writer.is_some()
    });
    writer.unwrap()
}

/// Writes until there is no room, and leaves the descriptor as it was. A terminal makes room a
/// moment later, when it moves what it was given.
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

/// Whether no thread of a process is running or wants to.
fn waits(pid: u32) -> bool {
    let tasks = support::entries(Path::new(&format!("/proc/{pid}/task")));
    tasks.iter().all(|task| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
        state == Some("S")
    })
}

/// Waits until a request arrives at the daemon that says nothing. The connection lasts as long as
/// what is returned.
fn until_it_asks(mute: &Listener) -> Connection {
    let mut asking = None;
    wait_until("it asks", PATIENCE, || {
        let Ok(connection) = mute.accept() else {
            return false;
        };
        assert!(connection.wait(Some(PATIENCE)).unwrap(), "it asks nothing");
        // One that only looks whether somebody listens hangs up without a word.
        if connection.recv(&mut vec![0; MAX_DATAGRAM_BYTES]).is_ok() {
            asking = Some(connection);
        }
        asking.is_some()
    });
    asking.unwrap()
}

fn check(places: &Places, row: &(&str, &str, Left), told: Told) {
    let (name, arguments, left) = *row;
    // Those of programs that ended.
    while places.mute.accept().is_ok() {}
    let on_terminal = matches!(told, Told::TerminalCloses | Told::OutputTerminalCloses)
        || matches!(left, OnTerminal);
    let has_control = !matches!(told, Told::OutputTerminalCloses) && on_terminal;
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
    // What keeps standard input open where it is a pipe, whose end would end some.
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
    // The parent's copies of what the child writes to.
    drop(tested);
    // What holds it up, as long as it is there.
    let (mut _asking, mut _writer) = (None, None);
    match left {
        Asks => _asking = Some(until_it_asks(&places.mute)),
        Reads => _writer = Some(until_it_reads(&places.fifo)),
        Writes => until_it_waits(&running.0),
        Computes => until_it_works(&running.0, &output, COMPUTES),
        _ => until_it_works(&running.0, &output, STARTS),
    }
    let mut early = String::new();
    if let Some(status) = running.0.try_wait().unwrap() {
        let _ = File::open(places.free.join("stderr")).map(|mut it| it.read_to_string(&mut early));
        panic!("{name}: it ended by itself with {status}: {early}");
    }
    let mut output = Some(output);
    if left != Writes && matches!(told, Told::Terminate | Told::HangUp) {
        // A pipe that is full would hold up what is to end.
        let mut output = File::from(output.take().unwrap());
        thread::spawn(move || io::copy(&mut output, &mut io::sink()));
    }
    match told {
        Told::Terminate => running.signal(Signal::SIGTERM),
        Told::HangUp => running.signal(Signal::SIGHUP),
        Told::TerminalCloses | Told::OutputTerminalCloses | Told::PipeCloses => {
            drop(output.take());
        }
        Told::PipeClosesThenTerminate => {
            drop(output.take());
            // Some write once a second.
            thread::sleep(STARTS);
            running.signal(Signal::SIGTERM);
        }
    }
    let mut status = None;
    let what = format!("{name} {arguments:?} ends after {told:?}");
    wait_until(&what, PATIENCE, || {
        status = running.0.try_wait().unwrap();
        status.is_some()
    });
    let status = status.unwrap();
    // By itself, one of these would give up or go on, with an exit status.
    let signal = match (left, told) {
        (Asks | Reads | Writes, Told::Terminate) => Some(Signal::SIGTERM),
        (Asks | Reads | Writes, Told::HangUp) => Some(Signal::SIGHUP),
        (Asks | Reads, Told::TerminalCloses) => Some(Signal::SIGHUP),
        // Its write may fail before the signal arrives.
        _ => None,
    };
    if signal.is_some() {
        let signal = signal.map(|signal| signal as i32);
        assert_eq!(status.signal(), signal, "{what}: {status}");
    }
    // A command that does not end in order is ended, and gives nothing back.
    assert_eq!(left_behind(places), Vec::<PathBuf>::new(), "{what}");
    drop(input);
}

/// What is left of a demonstration, and of the node that does not run.
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
fn whoever_runs_ends_when_told_so() {
    check_all(&[Runs, OnTerminal, Computes]);
}

#[test]
fn whoever_serves_ends_when_told_so() {
    check_all(&[Serves, Reloads]);
}

#[test]
fn whoever_asks_ends_when_told_so() {
    check_all(&[Asks]);
}

#[test]
fn whoever_reads_or_writes_ends_when_told_so() {
    check_all(&[Reads, Writes]);
}

/// All that asks is asked at once, of a daemon that says nothing.
#[test]
fn whoever_asks_and_is_not_read_ends_by_itself() {
    with_places(|places| {
        let asks = TABLE.iter().filter(|row| row.2 == Asks);
        let mut running: Vec<(&str, Guarded)> = asks
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
        let mut asking = Vec::new();
        let end = Instant::now() + PATIENCE;
        while !running.is_empty() {
            asking.extend(places.mute.accept().ok());
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

/// Ends each of these in every way that it may be told to.
fn check_all(those: &[Left]) {
    with_places(|places| {
        for row in TABLE.iter().filter(|row| those.contains(&row.2)) {
            for told in ways(row.2) {
                check(places, row, *told);
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

/// All ways in which one of this kind may be told to end.
const fn ways(left: Left) -> &'static [Told] {
    match left {
        Runs | Computes | Writes => &[
            Told::Terminate,
            Told::HangUp,
            Told::TerminalCloses,
            Told::OutputTerminalCloses,
            Told::PipeCloses,
        ],
        OnTerminal => &[
            Told::Terminate,
            Told::HangUp,
            Told::TerminalCloses,
            Told::OutputTerminalCloses,
        ],
        Serves => &[
            Told::Terminate,
            Told::HangUp,
            Told::TerminalCloses,
            Told::PipeClosesThenTerminate,
        ],
        Asks | Reads => &[Told::Terminate, Told::HangUp, Told::TerminalCloses],
        Reloads => &[
            Told::Terminate,
            Told::TerminalCloses,
            Told::PipeClosesThenTerminate,
        ],
    }
}
