//! Registers on three nodes while servers, daemons and cables fail one after the other: the
//! clients' history stays linearizable.
//!
//! Runs for some seconds with a fixed seed, or for `SOAK_SECONDS` with a new seed, which it prints.
//! `COVALENT_SEED` sets the seed.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use covalent_apps::{
    registers::{
        check,
        torture::{Plan, torture},
    },
    stop::Stop,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    mesh::Mesh,
    nodes::PATIENCE,
    process::REGISTERS,
    seeds::{lasts, seed},
};

const USUAL: Duration = Duration::from_secs(2);

/// A server process, its output lines, and the state that they last reported. Dropping it kills the
/// process.
struct Server {
    child: Child,
    lines: Receiver<Value>,
    /// The view that it is in.
    view: u64,
    /// How many servers count in it; 0 after it stopped.
    voters: u64,
}

impl Server {
    fn start(mesh: &Mesh, at: usize) -> Self {
        let mut child = Command::new(REGISTERS)
            .args(["serve", "--founders", "3", "--format", "json", "--socket"])
            .arg(mesh.socket(at))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (reported, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Ok(line) = serde_json::from_str(&line)
                    && reported.send(line).is_err()
                {
                    break;
                }
            }
        });
        Self {
            child,
            lines,
            view: 0,
            voters: 0,
        }
    }

    /// Waits for a line that `is_wanted` accepts.
    fn await_line(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(rest)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            if is_wanted(&line) {
                return line;
            }
        }
    }

    /// Reads the new lines.
    fn read_events(&mut self) {
        for line in self.lines.try_iter() {
            match line["event"].as_str() {
                Some("view") => {
                    self.view = line["number"].as_u64().unwrap();
                    self.voters = line["voters"].as_u64().unwrap();
                }
                Some("stopped" | "rejoins") => self.voters = 0,
                _ => {}
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as a supervisor does, and gives its report.
    fn end(mut self) -> Value {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        let report = self.await_line("its report", |line| line["type"] == "report");
        assert!(self.child.wait().unwrap().success());
        report
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start_all(mesh: &Mesh) -> Vec<Server> {
    let mut servers: Vec<Server> = (0..3).map(|at| Server::start(mesh, at)).collect();
    await_view_after(&mut servers, 0);
    servers
}

/// Waits until all three servers are in one view after view `before` and are voters in it. Returns
/// its number.
fn await_view_after(servers: &mut [Server], before: u64) -> u64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        servers.iter_mut().for_each(Server::read_events);
        let view = servers[0].view;
        let is_in = |server: &Server| server.view == view && server.voters == 3;
        if view > before && servers.iter().all(is_in) {
            return view;
        }
        let reported: Vec<_> = servers.iter().map(|one| (one.view, one.voters)).collect();
        assert!(
            Instant::now() < deadline,
            "view and voters of each, and nothing more: {reported:?}"
        );
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until one of them is in another view, or in none.
fn await_change(servers: &mut [Server], before: u64) {
    let deadline = Instant::now() + PATIENCE;
    let has_changed = |server: &Server| server.view != before || server.voters != 3;
    while !servers.iter().any(has_changed) {
        assert!(Instant::now() < deadline, "no server noticed the death");
        thread::sleep(Duration::from_millis(1));
        servers.iter_mut().for_each(Server::read_events);
    }
}

/// Takes one thing away, and brings it back: returns when all three serve again.
fn disturb(mesh: &mut Mesh, servers: &mut [Server], at: usize, what: u64) {
    let others: Vec<usize> = (0..3).filter(|&other| other != at).collect();
    let before = await_view_after(servers, 0);
    match what {
        0 => {
            servers[at].kill();
            servers[at] = Server::start(mesh, at);
        }
        1 => {
            mesh.stop(at);
            servers[at].kill();
            mesh.start_one(at);
            servers[at] = Server::start(mesh, at);
        }
        _ => {
            // One cable goes down before the other. The group may first exclude another server, and
            // then this one may continue.
            mesh.set_cables(&[at], &others, false);
            await_change(servers, before);
            mesh.set_cables(&[at], &others, true);
        }
    }
    mesh.await_links();
    await_view_after(servers, before);
}

/// Ends the clients, also when a test fails.
struct Ends<'a>(&'a Stop);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.request();
    }
}

#[test]
fn replies_to_clients_stay_linearizable_when_any_server_dies() {
    let (duration, seed) = (lasts(USUAL), seed());
    let mut mesh = Mesh::start(3);
    let mut servers = start_all(&mesh);
    let plan = Plan {
        group: "registers".to_owned(),
        sockets: [0, 1, 2, 0].map(|at| mesh.socket(at)).to_vec(),
        nodes: Vec::new(),
        registers: 3,
        duration: 100 * duration,
        patience: Duration::from_millis(100),
        give_up: Duration::from_secs(2),
        seed,
    };
    let stop = Stop::default();
    let mut done = [0; 3];
    let history = thread::scope(|scope| {
        let clients = scope.spawn(|| torture(&plan, &stop));
        let ends = Ends(&stop);
        let until = Instant::now() + duration;
        let mut draw = seed;
        while Instant::now() < until || done.contains(&0) {
            draw = draw.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            // All kinds first, whatever is drawn.
            let kind = done.iter().position(|&count| count == 0);
            let kind = kind.map_or((draw >> 40) % 3, |kind| kind as u64);
            disturb(&mut mesh, &mut servers, ((draw >> 33) % 3) as usize, kind);
            done[kind as usize] += 1;
        }
        drop(ends);
        clients.join().unwrap().unwrap()
    });
    let answered = history
        .iter()
        .filter(|one| one.reported().is_some())
        .count();
    eprintln!(
        "{answered} of {} answered; {done:?} servers killed, daemons ended, nodes cut off",
        history.len()
    );
    assert!(answered > 50, "{answered}");
    let broken = check::broken(&history);
    assert_eq!(broken.map(|key| String::from_utf8(key).unwrap()), None);
    for server in servers {
        assert!(server.end()["views"].as_u64().unwrap() > 0);
    }
}

fn run(mesh: &Mesh, at: usize, args: &[&str]) -> (Value, Option<i32>) {
    let output = Command::new(REGISTERS)
        .args(args)
        .args(["--format", "json", "--socket"])
        .arg(mesh.socket(at))
        .output()
        .unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    let value = serde_json::from_str(&line).unwrap_or(Value::String(error));
    (value, output.status.code())
}

/// Tests the commands, their output and their exit codes. A node without a server uses its
/// neighbors' servers.
#[test]
fn registers_are_read_and_written_from_every_node() {
    let mesh = Mesh::start(4);
    let servers = start_all(&mesh);
    let (value, code) = run(&mesh, 3, &["get", "leader"]);
    assert_eq!(
        (value["ok"].as_bool(), code),
        (Some(true), Some(0)),
        "{value}"
    );
    assert!(value.get("value").is_none(), "{value}");
    let (value, code) = run(&mesh, 0, &["cas", "leader", "--unset", "a"]);
    assert_eq!(code, Some(0), "{value}");
    let (value, code) = run(&mesh, 3, &["cas", "leader", "--unset", "d"]);
    assert_eq!(
        (value["value"].as_str(), code),
        (Some("a"), Some(1)),
        "{value}"
    );
    let (value, code) = run(&mesh, 1, &["put", "leader", "b", "--node", "c"]);
    assert_eq!(code, Some(0), "{value}");
    for at in 0..4 {
        let (value, _) = run(&mesh, at, &["get", "leader"]);
        assert_eq!(value["value"], "b");
    }
    let (value, code) = run(&mesh, 3, &["torture", "--seconds", "1", "--clients", "2"]);
    assert_eq!(
        (value["ok"].as_bool(), code),
        (Some(true), Some(0)),
        "{value}"
    );
    let (error, code) = run(&mesh, 0, &["put", "k", &"x".repeat(257)]);
    assert_eq!(code, Some(2));
    assert!(error.to_string().contains("at most 256"), "{error}");
    for server in servers {
        server.end();
    }
    let (error, code) = run(&mesh, 0, &["get", "leader", "--timeout-ms", "300"]);
    assert_eq!(code, Some(2));
    assert!(error.to_string().contains("nothing was done"), "{error}");
}
