//! Tests how control detects the loss of the daemon: by the end of its process, or of the
//! connection.

use std::{
    env,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use covalent_api::request::{Reply, Request};

use crate::{
    client::get,
    daemon::Running,
    fake::{Session, listen},
    fixture,
};

/// Where the daemon that a child plays is to listen.
const SOCKET: &str = "COVALENT_TEST_SOCKET";

/// A role for [`Played`], not a test: a daemon that hands a copy of its connection to a process
/// that outlives it.
#[test]
#[ignore = "a role that a test plays"]
#[expect(
    clippy::zombie_processes,
    reason = "a killed process waits for no child; the test ends the heir"
)]
#[expect(clippy::print_stdout, reason = "the test reads it")]
fn plays_the_daemon() {
    let socket = PathBuf::from(env::var_os(SOCKET).expect("started by a test"));
    let listener = listen(&socket);
    let session = Session::greeted(&listener);
    let heir = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::from(session.copy()))
        .spawn()
        .expect("coreutils are installed");
    println!("heir: {}", heir.id());
    session.answer(&fixture::status());
}

/// A process that plays the daemon, and its heir. Both are killed when this is dropped.
struct Played {
    daemon: Child,
    heir: Option<nix::unistd::Pid>,
}

impl Played {
    fn start(socket: PathBuf) -> Self {
        let mut daemon = Command::new(env::current_exe().expect("a program"))
            .args([
                "--exact",
                "witness::plays_the_daemon",
                "--ignored",
                "--nocapture",
            ])
            .env(SOCKET, socket)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs once more");
        let output = BufReader::new(daemon.stdout.take().expect("piped"));
        let mut played = Self { daemon, heir: None };
        for line in output.lines() {
            let line = line.expect("text");
            if let Some(pid) = line.split("heir: ").nth(1) {
                let pid = pid.trim().parse().expect("a number");
                played.heir = Some(nix::unistd::Pid::from_raw(pid));
                return played;
            }
        }
        panic!("the daemon has ended");
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        if let Some(heir) = self.heir {
            let _ = nix::sys::signal::kill(heir, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// Losses detected by the end of the process, and by the end of the connection.
fn losses(control: &Running) -> [f64; 2] {
    let read = control.scrape();
    ["pidfd", "socket"].map(|evidence| {
        read.named("covalent_control_daemon_losses_total")
            .find(|sample| sample.labels["evidence"] == evidence)
            .map(|sample| sample.value)
            .expect("each evidence is there from the start")
    })
}

#[test]
fn a_killed_daemon_is_lost_although_its_connection_stays_open() {
    let control = Running::start();
    let mut played = Played::start(control.daemon_socket());
    control.wait_for(|table| table.daemon().is_some() && !table.links().is_empty());
    assert_eq!(losses(&control), [0.0, 0.0]);
    played.daemon.kill().expect("a child of this process");
    control.wait_for(|table| table.daemon().is_none() && table.links().is_empty());
    assert_eq!(losses(&control), [1.0, 0.0]);
    assert_eq!(control.scrape().value("covalent_up"), Some(0.0));
    assert_eq!(get(control.metrics, "/healthz").0, 503);
}

#[test]
fn a_live_daemon_that_closes_the_connection_is_lost() {
    let control = Running::start();
    {
        let listener = control.listen();
        let daemon = Session::greeted(&listener);
        assert_eq!(daemon.next(), Some(Request::Status));
        daemon.send_reply(&Reply::Status(Box::new(fixture::status())));
        control.wait_for(|table| table.daemon().is_some());
    }
    control.wait_for(|table| table.daemon().is_none());
    // The process is waited for a moment before the loss is counted.
    let mut counted = losses(&control);
    for _ in 0..100 {
        if counted != [0.0, 0.0] {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        counted = losses(&control);
    }
    assert_eq!(counted, [0.0, 1.0]);
}
