//! The examples, compiled by the C compiler and run.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use covalent::{Match, Rights, Target, Timeout};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::nodes::Nodes;

/// How a program is linked.
#[derive(Clone, Copy)]
pub enum Linking {
    Dynamic,
    Static,
}

/// Compiles an example, with every warning an error.
fn compile(directory: &TempDir, name: &str, linking: Linking) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    compile_at(directory, &examples, name, linking)
}

/// Compiles the program `name` that lies in `sources`, with every warning an error.
pub fn compile_at(directory: &TempDir, sources: &Path, name: &str, linking: Linking) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Cargo puts the libraries beside the test that depends on them.
    let libraries = env::current_exe().unwrap().parent().unwrap().to_owned();
    let program = directory.path().join(name);
    let mut compiler = Command::new("cc");
    compiler
        .args([
            "-std=c11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-I",
        ])
        .arg(root.join("include"))
        .arg(sources.join(name).with_extension("c"))
        .arg("-o")
        .arg(&program);
    match linking {
        Linking::Dynamic => {
            let library = directory.path().join("libcovalent.so");
            if !library.exists() {
                let linked = Command::new(root.join("../../scripts/link-library"))
                    .arg(libraries.join("libcovalent_c.a"))
                    .args([Path::new(env!("CARGO_PKG_VERSION")), directory.path()])
                    .status()
                    .expect("scripts/link-library runs");
                assert!(linked.success(), "scripts/link-library: {linked}");
            }
            // Cargo's LD_LIBRARY_PATH would win over a path of the new kind.
            compiler.arg(library).arg(format!(
                "-Wl,--disable-new-dtags,-rpath,{}",
                directory.path().display()
            ));
        }
        // Libraries that the standard library needs: see `rustc --print native-static-libs`.
        Linking::Static => {
            compiler.arg(libraries.join("libcovalent_c.a")).args([
                "-lgcc_s",
                "-lutil",
                "-lrt",
                "-lpthread",
                "-lm",
                "-ldl",
            ]);
        }
    }
    let output = compiler
        .output()
        .expect("a C compiler is installed as `cc`");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// A running program. Killed when dropped.
pub struct Running {
    pub child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(program: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Writes to the program's stdin, which stays open.
    fn feed(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Closes the program's stdin and waits for its exit. Returns the rest of its output.
    fn finish(mut self) -> String {
        drop(self.child.stdin.take());
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed).unwrap();
        let mut complaint = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut complaint)
            .unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {complaint}");
        printed.trim_end().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn socket(nodes: &Nodes, name: &str) -> String {
    nodes.socket(name).to_str().unwrap().to_owned()
}

#[test]
fn counter_counts_on_another_node() {
    let directory = tempfile::tempdir().unwrap();
    for linking in [Linking::Dynamic, Linking::Static] {
        let counter = compile(&directory, "counter", linking);
        let nodes = Nodes::start(&["p0", "p1"]);
        let mut host = Running::start(&counter, &["host", &socket(&nodes, "b")]);
        assert_eq!(host.line(), "ready");
        let client = Running::start(&counter, &["client", &socket(&nodes, "a"), "b", "2000"]);
        assert_eq!(client.finish(), "2000");
        assert_eq!(host.finish(), "2000");
    }
}

#[test]
fn frames_go_out_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let ping = compile(&directory, "ping", Linking::Dynamic);
    let nodes = Nodes::start(&["p0"]);
    let mut echo = Running::start(&ping, &["echo", &socket(&nodes, "b"), "p0", "3000"]);
    assert_eq!(echo.line(), "ready");
    let sender = Running::start(&ping, &["send", &socket(&nodes, "a"), "p0", "3000"]);
    assert_eq!(sender.finish(), "3000");
    assert_eq!(echo.finish(), "");
}

/// The echo gets SIGTERM while frames arrive. Every frame that it took is sent back and counted.
#[test]
fn an_event_loop_loses_no_frame_at_its_end() {
    const FRAMES: u64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let ping = compile(&directory, "ping", Linking::Dynamic);
    let nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("a");
    let words = device.register_region("frames", 8, Rights::ALL).unwrap();
    let mut rx = device.rx_pipe_on(8 << 20, "p0").unwrap();
    rx.bind(&Match::EtherType { ethertype: 0x88b6 }).unwrap();
    let mut tx = device.tx_pipe(1 << 20, "p0").unwrap();
    let args = ["loop", &socket(&nodes, "b"), "p0", "a", "frames"];
    let mut echo = Running::start(&ping, &args);
    assert_eq!(echo.line(), "ready");
    let mut frame = [0; 100];
    frame[12..14].copy_from_slice(&[0x88, 0xb6]);
    let pid = Pid::from_raw(echo.child.id().try_into().unwrap());
    for number in 0..FRAMES {
        tx.send(&frame, Timeout::FOREVER).unwrap();
        if number == FRAMES / 2 {
            kill(pid, Signal::SIGTERM).unwrap();
        }
    }
    let echoed: u64 = echo.finish().trim().parse().unwrap();
    assert!(echoed > 0);
    assert_eq!(words.load(0).unwrap(), echoed);
    let mut returned = 0;
    while returned < echoed {
        let batch = rx.recv(Duration::from_secs(10)).unwrap();
        returned += (&batch).into_iter().count() as u64;
    }
    assert_eq!(returned, echoed);
}

#[test]
fn lines_are_read_whole_and_those_without_end_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let logs = compile(&directory, "logs", Linking::Dynamic);
    let nodes = Nodes::start(&["p0"]);
    let count = 3000;
    let lines: Vec<String> = (0..count)
        .map(|number| format!("{number} {}", "x".repeat(number * 7 % 200)))
        .collect();
    let number = count.to_string();
    let mut reader = Running::start(&logs, &["read", &socket(&nodes, "b"), "p0", &number]);
    assert_eq!(reader.line(), "ready");
    let mut sender = Running::start(&logs, &["send", &socket(&nodes, "a"), "p0"]);
    for (number, line) in lines.iter().enumerate() {
        // The longest that is allowed to be left out, and one that fills several looks.
        if number % 500 == 7 {
            sender.feed(&[&[b'y'; 1025][..], b"\n", &[b'z'; 5000], b"\n"].concat());
        }
        sender.feed(format!("{line}\n").as_bytes());
    }
    assert_eq!(sender.finish(), "");
    let printed = reader.finish();
    for (number, (printed, line)) in printed.lines().zip(&lines).enumerate() {
        assert_eq!(printed, line, "line {number}");
    }
    assert_eq!(printed.lines().count(), count);
}

/// An event loop gets each message although it sleeps between them, and does not spin: it turns for
/// messages, completions and the timer alone. It opens a region that is registered later.
#[test]
fn an_event_loop_serves_messages_completions_and_a_timer() {
    const MESSAGES: u64 = 30;
    let directory = tempfile::tempdir().unwrap();
    let events = compile(&directory, "events", Linking::Dynamic);
    let nodes = Nodes::start(&["p0"]);
    let host = nodes.attach("b");
    let count = MESSAGES.to_string();
    let mut program = Running::start(&events, &[&socket(&nodes, "a"), "b", "words", &count]);
    assert_eq!(program.line(), "ready");
    thread::sleep(Duration::from_millis(50));
    let words = host.register_region("words", 8, Rights::ALL).unwrap();
    let mut verbs = host.verbs().unwrap();
    let queue = verbs
        .open_region(Target::Name("a"), "c-messages", Timeout::FOREVER)
        .unwrap();
    for _ in 0..MESSAGES {
        thread::sleep(Duration::from_millis(7));
        verbs.send(&queue, b"news", Timeout::FOREVER).unwrap();
    }
    let printed = program.finish();
    let numbers: Vec<u64> = (printed.split(|c: char| !c.is_ascii_digit()))
        .filter_map(|number| number.parse().ok())
        .collect();
    let [messages, additions, turns] = numbers[..] else {
        panic!("{printed}")
    };
    assert_eq!((messages, additions), (MESSAGES, words.load(0).unwrap()));
    assert!(additions > 0, "{printed}");
    assert!(turns <= 10 * (messages + 3 * additions), "{printed}");
}

#[test]
fn lines_are_sent_as_messages_and_wait_for_space() {
    let directory = tempfile::tempdir().unwrap();
    let messages = compile(&directory, "messages", Linking::Dynamic);
    let nodes = Nodes::start(&["p0"]);
    // All output fits into the receiver's stdout pipe: the test reads it only after the sender has
    // exited.
    let lines: Vec<String> = (1..=300)
        .map(|number| format!("{number}:{}", "x".repeat(number * 7 % 300)))
        .collect();
    assert!(lines.iter().map(|line| line.len() + 1).sum::<usize>() < 60_000);
    let count = lines.len().to_string();
    let mut receiver = Running::start(&messages, &["recv", &socket(&nodes, "b"), &count]);
    assert_eq!(receiver.line(), "ready");
    let mut sender = Running::start(&messages, &["send", &socket(&nodes, "a"), "b"]);
    for line in &lines {
        sender.feed(format!("{line}\n").as_bytes());
    }
    let was_full = sender.finish().parse::<u64>().unwrap();
    // All are in the receiver's queue or beyond it.
    let printed = receiver.finish();
    assert!(printed.lines().eq(&lines), "in order, none twice");
    let mut client = covalent::Client::connect(nodes.socket("b"), "test").unwrap();
    let verbs = client.status().unwrap().verbs;
    assert_eq!(verbs.executed["send"], 300);
    assert_eq!(verbs.refused["queue_full"], was_full);
}

#[test]
fn members_of_a_chat_print_the_same_lines_and_a_late_one_all_earlier() {
    let directory = tempfile::tempdir().unwrap();
    let chat = compile(&directory, "chat", Linking::Dynamic);
    let nodes = Nodes::start(&["p0"]);
    let sockets = ["a", "b"].map(|name| socket(&nodes, name));
    let mut rooms = sockets
        .each_ref()
        .map(|socket| Running::start(&chat, &[socket, "2"]));
    for (number, room) in rooms.iter_mut().enumerate() {
        assert_eq!(room.line(), "# view 1: 2 members");
        for line in 0..50 {
            room.feed(format!("{number} writes {line}\n").as_bytes());
        }
    }
    let transcripts = rooms
        .each_mut()
        .map(|room| (0..100).map(|_| room.line()).collect::<Vec<_>>());
    assert_eq!(transcripts[0], transcripts[1]);
    for number in 0..2 {
        let own = transcripts[0]
            .iter()
            .filter(|line| line.starts_with(&format!("{number} writes")));
        let expected = (0..50).map(|line| format!("{number} writes {line}"));
        assert!(own.cloned().eq(expected), "each speaker's in its order");
    }
    let [first, mut second] = rooms;
    assert_eq!(first.finish(), "");
    assert_eq!(second.line(), "# view 2: 1 members");
    second.feed(b"alone\n");
    assert_eq!(second.line(), "alone");
    let mut late = Running::start(&chat, &[&sockets[0], "0"]);
    assert_eq!(late.line(), "# view 3: 2 members");
    let before: Vec<_> = (0..101).map(|_| late.line()).collect();
    assert_eq!(before[..100], transcripts[0]);
    assert_eq!(before[100], "alone");
}

#[test]
fn the_header_suits_cplusplus_and_strict_c() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("all.c");
    fs::write(
        &source,
        "#include \"covalent.h\"\nint main(void) { return covalent_last_in_doubt() != 0; }\n",
    )
    .unwrap();
    for language in [
        ["-xc", "-std=c99"],
        ["-xc", "-std=c11"],
        ["-xc++", "-std=c++11"],
    ] {
        let output = Command::new("cc")
            .args(language)
            .args([
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-fsyntax-only",
                "-I",
            ])
            .arg(root.join("include"))
            .arg(&source)
            .output()
            .expect("a C compiler is installed as `cc`");
        assert!(
            output.status.success(),
            "{language:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
