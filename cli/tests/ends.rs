//! Every program and command ends on SIGTERM, on SIGHUP, when its terminal is closed and when nobody reads what it writes.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Read,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use covalent_pipe::seqpacket::{Connection, Listener};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    pty::openpty,
    sys::signal::Signal,
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
    /// It asks a daemon, and waits for what that says. It is asked of one that says nothing.
    Asks,
    /// It ends by itself, and waits for nobody: the reason is the comment.
    Ends,
}

use Left::{Asks, Computes, Ends, OnTerminal, Reloads, Runs, Serves};

/// Each command with arguments. `{a}` is the directory of a node that runs, `{own}` one of a node that does not, `{mute}` the socket of a daemon that says nothing, `{free}` a
/// directory.
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
    // It waits for two processes, and kills what does not end.
    ("covalent down", "", Ends),
    // It has deadlines of its own wherever it looks.
    ("covalent doctor", "", Ends),
    // They read and write files.
    ("covalent config print-default", "", Ends),
    ("covalent config check", "", Ends),
    ("covalent config auto", "", Ends),
    ("covalent completions", "", Ends),
    ("covalent man", "", Ends),
    // What was begun is undone or completed by the next one.
    ("covalent configure check", "", Ends),
    ("covalent configure init", "", Ends),
    ("covalent configure fini", "", Ends),
    // It becomes covalent-bench, which leaves its signals to the system and measures in release builds alone.
    ("covalent bench", "", Ends),
    ("covalent-bench", "", Ends),
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
}

struct Places {
    a: PathBuf,
    own: PathBuf,
    /// A daemon that says nothing.
    mute: Listener,
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
    wait_until("it connects", PATIENCE, || {
        asking = mute.accept().ok();
        asking.is_some()
    });
    let asking = asking.unwrap();
    assert!(asking.wait(Some(PATIENCE)).unwrap(), "it asks nothing");
    asking
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
        let copy = || Stdio::from(pty.slave.try_clone().unwrap());
        tested.stdin(copy()).stdout(copy()).stderr(copy());
        output = pty.master;
    } else {
        let (reader, writer) = std::io::pipe().unwrap();
        let (silent, kept) = std::io::pipe().unwrap();
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
    let _asking = match left {
        Asks => Some(until_it_asks(&places.mute)),
        _ => {
            let starts = if left == Computes { COMPUTES } else { STARTS };
            until_it_works(&running.0, &output, starts);
            None
        }
    };
    let mut early = String::new();
    if let Some(status) = running.0.try_wait().unwrap() {
        let _ = File::open(places.free.join("stderr")).map(|mut it| it.read_to_string(&mut early));
        panic!("{name}: it ended by itself with {status}: {early}");
    }
    let mut output = Some(output);
    let drains = |output: OwnedFd| {
        // A pipe that is full would hold up what is to end.
        thread::spawn(move || std::io::copy(&mut File::from(output), &mut std::io::sink()));
    };
    match told {
        Told::Terminate => {
            drains(output.take().unwrap());
            running.signal(Signal::SIGTERM);
        }
        Told::HangUp => {
            drains(output.take().unwrap());
            running.signal(Signal::SIGHUP);
        }
        Told::TerminalCloses | Told::OutputTerminalCloses | Told::PipeCloses => {
            drop(output.take());
        }
    }
    let mut status = None;
    let what = format!("{name} {arguments:?} ends after {told:?}");
    wait_until(&what, PATIENCE, || {
        status = running.0.try_wait().unwrap();
        status.is_some()
    });
    let status = status.unwrap();
    if left == Asks {
        // By itself it would give up with an exit status.
        let signal = match told {
            Told::Terminate => Signal::SIGTERM,
            _ => Signal::SIGHUP,
        };
        assert_eq!(status.signal(), Some(signal as i32), "{what}: {status}");
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

/// Ends each of these in every way that it may be told to.
fn check_all(those: &[Left]) {
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
    fs::write(own.join("covalent.toml"), text).unwrap();
    let places = Places {
        a,
        own,
        mute: Listener::bind(&nodes.path().join("mute.sock")).unwrap(),
        free: free.path().to_owned(),
    };
    places.mute.set_nonblocking(true).unwrap();
    for row in TABLE.iter().filter(|row| those.contains(&row.2)) {
        let ways: &[Told] = match row.2 {
            Runs | Computes => &[
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
            Serves | Asks => &[Told::Terminate, Told::HangUp, Told::TerminalCloses],
            Reloads => &[Told::Terminate, Told::TerminalCloses],
            Ends => &[],
        };
        for told in ways {
            check(&places, row, *told);
        }
    }
}
