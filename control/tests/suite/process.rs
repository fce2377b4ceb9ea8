//! The program itself: readiness, the end, what it costs, what it says when it cannot start.

use std::{
    fs,
    net::TcpListener,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use covalent_api::control::{ControlReply, ControlRequest};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::{
    client::{PCAP_PORT, ask, config},
    fake::PATIENCE,
};

/// A node's directory with its configuration in it.
fn node(more: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("covalent.toml");
    fs::write(
        &file,
        config(directory.path(), more).to_toml().expect("UTF-8"),
    )
    .expect("written");
    (directory, file)
}

fn program(file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_covalent-control"));
    command
        .arg("--config")
        .arg(file)
        .stderr(Stdio::piped())
        .env_remove("NOTIFY_SOCKET");
    command
}

/// A process that is killed if the test fails.
struct Running {
    child: Child,
    notify: UnixDatagram,
}

impl Running {
    /// Starts the program, and waits until it says that it is ready.
    fn ready(directory: &Path, command: &mut Command) -> Self {
        let path = directory.join("notify.sock");
        let notify = UnixDatagram::bind(&path).expect("a socket");
        notify.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let child = command.env("NOTIFY_SOCKET", &path).spawn().expect("starts");
        let running = Self { child, notify };
        assert_eq!(running.told(), "READY=1");
        running
    }

    /// What the service manager is told next.
    fn told(&self) -> String {
        let mut buffer = [0; 256];
        let length = self
            .notify
            .recv(&mut buffer)
            .expect("control tells its service manager");
        String::from_utf8_lossy(&buffer[..length]).trim().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("signalled");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Well before a client that says nothing would be let go.
const ENDS_WITHIN: Duration = Duration::from_secs(6);

fn ended(child: &mut Child) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        assert!(
            start.elapsed() < ENDS_WITHIN,
            "it does not end within {ENDS_WITHIN:?}"
        );
        sleep(Duration::from_millis(5));
    }
}

fn failed(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().expect("starts");
    let text = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(1), "{text}");
    text
}

#[test]
fn it_tells_its_service_manager_and_ends_cleanly_on_a_signal() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (directory, file) = node(PCAP_PORT);
        let socket = directory.path().join("control.sock");
        let mut running = Running::ready(directory.path(), &mut program(&file));
        assert!(
            matches!(
                ask(&socket, &ControlRequest::Version),
                ControlReply::Version(_)
            ),
            "ready means answering"
        );
        running.signal(signal);
        assert_eq!(running.told(), "STOPPING=1");
        assert_eq!(ended(&mut running.child).code(), Some(0));
        assert!(!socket.exists());
    }
}

#[test]
fn a_client_that_never_leaves_does_not_hold_up_the_end() {
    let (directory, file) = node(PCAP_PORT);
    let mut running = Running::ready(directory.path(), &mut program(&file));
    let socket = directory.path().join("control.sock");
    let client = covalent_pipe::seqpacket::Connection::connect(&socket).expect("control listens");
    running.signal(Signal::SIGTERM);
    assert_eq!(ended(&mut running.child).code(), Some(0));
    drop(client);
}

#[test]
fn at_rest_it_costs_nothing() {
    let (directory, file) = node(PCAP_PORT);
    let running = Running::ready(directory.path(), &mut program(&file));
    let proc = PathBuf::from(format!("/proc/{}", running.child.id()));
    // Past the first quick attempts to connect.
    sleep(Duration::from_millis(300));
    let before = cpu_ticks(&proc);
    sleep(Duration::from_secs(2));
    let ticks = cpu_ticks(&proc) - before;
    assert!(ticks <= 2, "{ticks} ticks of 10 ms in 2 s without a daemon");
    let status = fs::read_to_string(proc.join("status")).expect("a process");
    let kib: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok())
        .expect("a size");
    assert!(kib < 50 * 1024, "{kib} KiB resident");
    let threads = fs::read_dir(proc.join("task")).expect("a process").count();
    assert_eq!(threads, 1, "one thread is enough");
}

/// User and system time in clock ticks: fields 14 and 15 of proc(5), the second field being in brackets.
fn cpu_ticks(proc: &Path) -> u64 {
    let stat = fs::read_to_string(proc.join("stat")).expect("a process");
    let after_name = stat.rsplit(')').next().expect("a name");
    after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().expect("a number"))
        .sum()
}

#[test]
fn a_taken_address_is_named_with_the_key_to_change() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("a port");
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = config(directory.path(), PCAP_PORT);
    config.control.metrics_listen = address;
    let file = directory.path().join("covalent.toml");
    fs::write(&file, config.to_toml().expect("UTF-8")).expect("written");
    let text = failed(&mut program(&file));
    assert!(
        text.contains(&address.to_string()) && text.contains("`control.metrics_listen`"),
        "{text}"
    );
    assert!(
        !directory.path().join("control.sock").exists(),
        "a failed start leaves nothing"
    );
}

#[test]
fn a_second_control_of_the_same_node_is_refused_and_the_first_goes_on() {
    let (directory, file) = node(PCAP_PORT);
    let running = Running::ready(directory.path(), &mut program(&file));
    let text = failed(&mut program(&file));
    assert!(
        text.contains("control.sock: another covalent-control answers")
            && text.contains("`node.runtime_dir`"),
        "{text}"
    );
    assert!(matches!(
        ask(
            &directory.path().join("control.sock"),
            &ControlRequest::Version
        ),
        ControlReply::Version(_)
    ));
    drop(running);
    // Killed just now: its socket is still there, and the next one takes it over.
    assert!(directory.path().join("control.sock").exists());
    fs::remove_file(directory.path().join("notify.sock")).expect("the test's own");
    drop(Running::ready(directory.path(), &mut program(&file)));
}

#[test]
fn a_broken_configuration_is_named_with_file_line_and_key() {
    let (directory, file) = node(PCAP_PORT);
    let text = fs::read_to_string(&file)
        .expect("written")
        .replace("bring_up", "bring_upp");
    fs::write(&file, text).expect("written");
    let said = failed(&mut program(&file));
    assert!(
        said.contains("covalent.toml:") && said.contains("did you mean `bring_up`?"),
        "{said}"
    );
    let said = failed(&mut program(&directory.path().join("absent.toml")));
    assert!(
        said.contains("absent.toml: there is no such file"),
        "{said}"
    );
    let said = failed(program(&file).args(["--log-level", "loud=shout"]));
    assert!(
        said.contains("bring_upp") || said.contains("loud=shout"),
        "{said}"
    );
}

#[test]
fn log_lines_are_json_if_wanted() {
    let (directory, file) = node(PCAP_PORT);
    let mut running = Running::ready(
        directory.path(),
        program(&file).args(["--log-format", "json"]),
    );
    running.signal(Signal::SIGTERM);
    ended(&mut running.child);
    let mut text = String::new();
    let mut stderr = running.child.stderr.take().expect("piped");
    std::io::Read::read_to_string(&mut stderr, &mut text).expect("text");
    assert!(text.lines().count() >= 2, "{text}");
    for line in text.lines() {
        let value: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|problem| panic!("{problem}: {line}"));
        assert!(
            value["level"].is_string() && value["message"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn it_tells_its_service_manager_that_it_lives() {
    let (directory, file) = node(PCAP_PORT);
    let mut command = program(&file);
    command.env("WATCHDOG_USEC", "200000");
    let running = Running::ready(directory.path(), &mut command);
    for _ in 0..3 {
        assert_eq!(running.told(), "WATCHDOG=1");
    }
    running.signal(Signal::SIGTERM);
    while running.told() != "STOPPING=1" {}
}

#[test]
fn it_runs_in_a_sandbox_with_no_capability_but_for_interfaces() {
    let (directory, file) = node(PCAP_PORT);
    let running = Running::ready(directory.path(), &mut program(&file));
    let status = fs::read_to_string(format!("/proc/{}/status", running.child.id()));
    let status = status.expect("it runs");
    let line = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.expect("the kernel tells").trim().to_owned()
    };
    assert_eq!(line("Seccomp:"), "2");
    assert_eq!(line("NoNewPrivs:"), "1");
    let capabilities = u64::from_str_radix(&line("CapPrm:"), 16).expect("a number");
    // CAP_NET_ADMIN has number 12 (capabilities(7)).
    assert_eq!(capabilities & !(1 << 12), 0, "{capabilities:x}");
    assert_eq!(line("CapEff:"), line("CapPrm:"));
}
