//! Tests the program itself: readiness, shutdown, cost, and messages when it cannot start.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::{fs::MetadataExt, net::UnixDatagram},
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
    agreement::Played,
    client::{PCAP_PORT, config, send_request},
    fake::{PATIENCE, link_down, link_up, listen},
    namespace::skip,
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
    /// Starts the program, and waits until it reports readiness.
    fn ready(directory: &Path, command: &mut Command) -> Self {
        let path = directory.join("notify.sock");
        let notify = UnixDatagram::bind(&path).expect("a socket");
        notify.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let child = command.env("NOTIFY_SOCKET", &path).spawn().expect("starts");
        let running = Self { child, notify };
        assert_eq!(running.next_notification(), "READY=1");
        running
    }

    /// The next notification to the service manager.
    fn next_notification(&self) -> String {
        let mut buffer = [0; 256];
        let length = self
            .notify
            .recv(&mut buffer)
            .expect("control notifies its service manager");
        String::from_utf8_lossy(&buffer[..length]).trim().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("signaled");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Well below the idle timeout of clients.
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
fn the_service_manager_is_notified_and_a_signal_ends_control_cleanly() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (directory, file) = node(PCAP_PORT);
        let socket = directory.path().join("control.sock");
        let telemetry = directory.path().join("telemetry.sock");
        let mut running = Running::ready(directory.path(), &mut program(&file));
        assert!(
            matches!(
                send_request(&socket, &ControlRequest::Version),
                ControlReply::Version(_)
            ),
            "ready means answering"
        );
        assert!(telemetry.exists());
        running.signal(signal);
        assert_eq!(running.next_notification(), "STOPPING=1");
        assert_eq!(ended(&mut running.child).code(), Some(0));
        assert!(!socket.exists() && !telemetry.exists());
    }
}

#[test]
fn a_client_that_never_leaves_does_not_hold_up_the_end() {
    let (directory, file) = node(PCAP_PORT);
    let mut running = Running::ready(directory.path(), &mut program(&file));
    let socket = directory.path().join("control.sock");
    let client = covalent_ipc::seqpacket::Connection::connect(&socket).expect("control listens");
    running.signal(Signal::SIGTERM);
    assert_eq!(ended(&mut running.child).code(), Some(0));
    drop(client);
}

#[test]
fn an_idle_control_uses_no_cpu() {
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

/// User and system time in clock ticks: fields 14 and 15 of proc(5). The second field is in
/// parentheses.
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
fn a_second_control_of_a_node_is_refused_and_the_first_continues() {
    let (directory, file) = node(PCAP_PORT);
    let running = Running::ready(directory.path(), &mut program(&file));
    let text = failed(&mut program(&file));
    assert!(
        text.contains("control.sock: another covalent-control answers")
            && text.contains("`node.runtime_dir`"),
        "{text}"
    );
    assert!(matches!(
        send_request(
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
    let error_output = failed(&mut program(&file));
    assert!(
        error_output.contains("covalent.toml:")
            && error_output.contains("did you mean `bring_up`?"),
        "{error_output}"
    );
    let error_output = failed(&mut program(&directory.path().join("absent.toml")));
    assert!(
        error_output.contains("absent.toml: there is no such file"),
        "{error_output}"
    );
    let error_output = failed(program(&file).args(["--log-level", "loud=shout"]));
    assert!(
        error_output.contains("bring_upp") || error_output.contains("loud=shout"),
        "{error_output}"
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

/// The fields of the datagrams sent to a journald that the test plays. No value has several lines.
fn journal(socket: &UnixDatagram) -> Vec<BTreeMap<String, String>> {
    socket.set_nonblocking(true).expect("a socket");
    let mut buffer = vec![0; 1 << 18];
    let mut lines = Vec::new();
    while let Ok(length) = socket.recv(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let fields = text.lines().filter_map(|line| line.split_once('='));
        lines.push(
            fields
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        );
    }
    lines
}

/// Control's output from start to exit, to standard error and to journald, if systemd names this
/// stream.
fn written_under_systemd(
    stream: impl Fn(&Metadata) -> String,
) -> Option<(String, Vec<BTreeMap<String, String>>)> {
    if !rustix::process::geteuid().is_root() {
        skip("a mount namespace, in which journald is the test, needs root");
        return None;
    }
    let (directory, file) = node(PCAP_PORT);
    let place = directory.path().join("journal");
    fs::create_dir(&place).expect("made");
    let socket = UnixDatagram::bind(place.join("socket")).expect("a socket");
    let errors = directory.path().join("stderr");
    let stderr = fs::File::create(&errors).expect("made");
    let named = stream(&stderr.metadata().expect("a file"));
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-ec"])
        .arg(
            "mount -t tmpfs none /run; mkdir -p /run/systemd/journal; \
             mount --bind \"$1\" /run/systemd/journal; exec \"$2\" --config \"$3\"",
        )
        .arg("sh")
        .args([
            &place,
            Path::new(env!("CARGO_BIN_EXE_covalent-control")),
            &file,
        ])
        .env_remove("COVALENT_LOG_FORMAT")
        .env("JOURNAL_STREAM", named)
        .stderr(stderr);
    let mut running = Running::ready(directory.path(), &mut command);
    running.signal(Signal::SIGTERM);
    assert_eq!(ended(&mut running.child).code(), Some(0));
    let text = fs::read_to_string(errors).expect("text");
    Some((text, journal(&socket)))
}

#[test]
fn under_systemd_lines_go_to_journald_with_their_fields() {
    let own = |file: &Metadata| format!("{}:{}", file.dev(), file.ino());
    let Some((text, lines)) = written_under_systemd(own) else {
        return;
    };
    assert_eq!(text, "", "each line is in one place");
    let of = |words: &str| {
        let line = lines.iter().find(|line| line["MESSAGE"].starts_with(words));
        line.unwrap_or_else(|| panic!("{words}: {lines:?}"))
    };
    let serves = of("control serves ");
    assert_eq!(serves["COVALENT_NODE"], "node-a");
    assert_eq!(serves["PRIORITY"], "6");
    assert_eq!(serves["SYSLOG_IDENTIFIER"], "covalent-control");
    assert!(serves["COVALENT_SOCKET"].ends_with("/control.sock"));
    assert!(serves["MESSAGE"].contains(" node=node-a"));
    // After the sandbox is closed, too.
    assert_eq!(of("control ends")["COVALENT_SIGNAL"], "SIGTERM");
    assert_eq!(of("no daemon: ")["PRIORITY"], "4");
}

#[test]
fn where_standard_error_leads_elsewhere_lines_are_for_people() {
    let Some((text, lines)) = written_under_systemd(|_| "8:1".to_owned()) else {
        return;
    };
    assert!(lines.is_empty(), "{lines:?}");
    assert!(
        text.contains("control serves") && text.contains("node"),
        "{text}"
    );
    assert!(
        !text.contains('\u{1b}') && !text.contains("covalent_control::"),
        "{text}"
    );
}

#[test]
fn a_link_that_flaps_is_written_once_and_counted() {
    let (directory, file) = node(PCAP_PORT);
    let listener = listen(&directory.path().join("covalentd.sock"));
    let mut running = Running::ready(
        directory.path(),
        program(&file).args(["--log-format", "json"]),
    );
    let played = Played::greet(&listener);
    for sequence in 0..100 {
        played.follows.event(2 * sequence, link_up("p0"));
        played.follows.event(2 * sequence + 1, link_down("p0"));
    }
    let mut stderr = BufReader::new(running.child.stderr.take().expect("piped")).lines();
    let mut of_links = Vec::new();
    while of_links.len() < 4 {
        let line = stderr.next().expect("a line").expect("text");
        let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        if line["message"]
            .as_str()
            .is_some_and(|words| words.starts_with("link "))
        {
            of_links.push(line);
        }
    }
    assert_eq!(of_links[0]["message"], "link up");
    assert_eq!(of_links[1]["message"], "link down");
    for words in ["link down ", "link up "] {
        let is_meant = |line: &&serde_json::Value| {
            let message = line["message"].as_str().unwrap_or_default();
            message.starts_with(words) && message.ends_with(": again")
        };
        let repeated = of_links.iter().find(is_meant);
        assert_eq!(
            repeated.map(|line| &line["times"]),
            Some(&99.into()),
            "{of_links:?}"
        );
    }
    drop(played);
}

#[test]
fn control_notifies_the_watchdog_of_its_service_manager() {
    let (directory, file) = node(PCAP_PORT);
    let mut command = program(&file);
    command.env("WATCHDOG_USEC", "200000");
    let running = Running::ready(directory.path(), &mut command);
    for _ in 0..3 {
        assert_eq!(running.next_notification(), "WATCHDOG=1");
    }
    running.signal(Signal::SIGTERM);
    while running.next_notification() != "STOPPING=1" {}
}

#[test]
fn it_runs_in_a_sandbox_with_no_capability_but_for_interfaces() {
    let (directory, file) = node(PCAP_PORT);
    let running = Running::ready(directory.path(), &mut program(&file));
    let status = fs::read_to_string(format!("/proc/{}/status", running.child.id()));
    let status = status.expect("it runs");
    let line = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.expect("the kernel reports it").trim().to_owned()
    };
    assert_eq!(line("Seccomp:"), "2");
    assert_eq!(line("NoNewPrivs:"), "1");
    let capabilities = u64::from_str_radix(&line("CapPrm:"), 16).expect("a number");
    // CAP_NET_ADMIN has number 12 (capabilities(7)).
    assert_eq!(capabilities & !(1 << 12), 0, "{capabilities:x}");
    assert_eq!(line("CapEff:"), line("CapPrm:"));
}
