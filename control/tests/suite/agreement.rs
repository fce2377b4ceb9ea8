//! Tests the agreement of control with a daemon played by the test: adopted, reloaded, resolved,
//! reinstated, and refused before the daemon is queried.

use std::{
    fs::{self, Permissions},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    API_VERSION,
    agreement::{HeldBrief, Objection, RefusalBrief, VerdictBrief},
    control::{ControlReply, ControlRequest},
    event::EventKind,
    hex64::Hex64,
    request::{Reply, Request},
};
use covalent_config::{Config, Effect};
use covalent_control::control::Control;
use covalent_ipc::seqpacket::Listener;
use covalent_protocol::agreement::digest;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::{
    client::{PCAP_PORT, config, get, send_request},
    fake::{PATIENCE, Session, listen, welcome},
    grpc,
};

/// Control in a thread of its own, with its file.
struct Running {
    directory: TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut running = Self {
            directory,
            stop: None,
            thread: None,
        };
        running.write("");
        running.begin();
        running
    }

    fn begin(&mut self) {
        let config = config(self.directory.path(), PCAP_PORT);
        let file = self.file();
        let (announce, reported) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        self.stop = Some(stop);
        self.thread = Some(thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let started = Control::start_from(&config, Some(&file)).await;
                let control = started.expect("starts");
                announce.send(()).expect("the test waits");
                let stop = async { drop(stopped.await) };
                control.run(stop).await.expect("serves");
            });
        }));
        reported.recv_timeout(PATIENCE).expect("control starts");
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "control panicked");
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("node.toml")
    }

    /// Writes the file: the configuration at control's start, and `more`.
    fn write(&self, more: &str) {
        fs::write(self.file(), self.text(more)).expect("written");
    }

    /// Canonical.
    fn text(&self, more: &str) -> String {
        let config = config(self.directory.path(), &format!("{PCAP_PORT}{more}"));
        config.to_toml().expect("UTF-8")
    }

    fn listen(&self) -> Listener {
        listen(&self.directory.path().join("covalentd.sock"))
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("control.sock")
    }

    /// Has the file reloaded, elsewhere.
    fn reload(&self) -> thread::JoinHandle<ControlReply> {
        let socket = self.socket();
        thread::spawn(move || send_request(&socket, &ControlRequest::Reload))
    }

    fn refused(&self) -> Vec<String> {
        match send_request(&self.socket(), &ControlRequest::Reload) {
            ControlReply::NotReloaded { problems } => problems,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until control and its daemon hold `held`.
    fn wait_for(&self, held: HeldBrief) {
        wait_for(&self.socket(), held);
    }
}

/// Waits until the control behind `socket` and its daemon hold `held`.
pub fn wait_for(socket: &Path, held: HeldBrief) {
    let deadline = Instant::now() + PATIENCE;
    let wanted = ControlReply::Agreed {
        agreed: Some(held),
        is_shared: true,
    };
    loop {
        let reply = send_request(socket, &ControlRequest::Agreed);
        if reply == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{reply:?} is not {wanted:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

pub fn held(incarnation: u64, epoch: u64, text: &str) -> HeldBrief {
    HeldBrief {
        incarnation: Hex64(incarnation),
        epoch,
        digest: Hex64(digest(text.as_bytes())),
    }
}

/// The daemon played by the test: the connection that follows its events, and the one for
/// agreements.
pub struct Played {
    pub follows: Session,
    pub talk: Session,
}

impl Played {
    pub fn greet(listener: &Listener) -> Self {
        let follows = Session::greeted(listener);
        Self {
            follows,
            talk: Self::greet_second(listener),
        }
    }

    fn greet_second(listener: &Listener) -> Session {
        let talk = Session::accept(listener);
        assert!(matches!(talk.next(), Some(Request::Hello { .. })));
        talk.send_reply(&welcome(API_VERSION));
        talk
    }

    /// Answers control's query for the held configuration.
    pub fn announce(talk: &Session, held: HeldBrief) {
        assert_eq!(talk.next(), Some(Request::Agreement));
        talk.send_reply(&Reply::Agreement { held });
    }

    /// Answers control's request for the text of the held configuration, in pieces.
    pub fn announce_text(talk: &Session, held: HeldBrief, text: &str) {
        let half = text.len() / 2;
        for (from, to) in [(0, half), (half, text.len())] {
            let from_bytes = from as u64;
            assert_eq!(talk.next(), Some(Request::AgreedText { from_bytes }));
            talk.send_reply(&Reply::AgreedText {
                held,
                text: text[from..to].to_owned(),
                next_bytes: (to < text.len()).then_some(to as u64),
            });
        }
    }

    /// Receives control's offer: the text, the epoch, and the configuration that control believes
    /// to be in force.
    pub fn receive_proposal(talk: &Session) -> (String, u64, HeldBrief) {
        let mut draft = String::new();
        loop {
            match talk.next() {
                Some(Request::Draft { from_bytes, text }) => {
                    assert_eq!(from_bytes, draft.len() as u64);
                    draft += &text;
                    talk.send_reply(&Reply::Done);
                }
                Some(Request::Offer {
                    epoch,
                    believes,
                    digest: of,
                    reopen: _,
                }) => {
                    assert_eq!(of, Hex64(digest(draft.as_bytes())));
                    return (draft, epoch, believes);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

pub fn verdict(
    held: HeldBrief,
    refused: Option<RefusalBrief>,
    objections: Vec<Objection>,
) -> Reply {
    Reply::Verdict(Box::new(VerdictBrief {
        held,
        refused,
        lanes: Vec::new(),
        objections,
        changed: Vec::new(),
        beware: vec!["2 pipes wait".to_owned()],
    }))
}

/// Control and the played daemon hold `text` under `epoch` of incarnation 1.
fn agreed(text: &str, epoch: u64) -> (Running, Listener, Played, HeldBrief) {
    let running = Running::start();
    let text = running.text(text);
    let listener = running.listen();
    let played = Played::greet(&listener);
    let held = held(1, epoch, &text);
    Played::announce(&played.talk, held);
    Played::announce_text(&played.talk, held, &text);
    running.wait_for(held);
    (running, listener, played, held)
}

const EDIT: &str = "[dataplane]\nspin_us = 77\n";
const OTHER: &str = "[dataplane]\nspin_us = 33\n";

#[test]
fn a_starting_control_adopts_the_dataplanes_configuration() {
    // Differs from the file.
    let (mut running, listener, played, held) = agreed(OTHER, 7);
    running.end();
    drop(played);
    // After a kill and a restart, control queries again.
    running.begin();
    let played = Played::greet(&listener);
    Played::announce(&played.talk, held);
    Played::announce_text(&played.talk, held, &running.text(OTHER));
    running.wait_for(held);
}

#[test]
fn an_edited_file_is_proposed_whole_and_reported_when_in_force() {
    let (running, _listener, played, before) = agreed("", 7);
    running.write(EDIT);
    let reload = running.reload();
    let (text, epoch, believes) = Played::receive_proposal(&played.talk);
    assert_eq!(text, running.text(EDIT));
    assert_eq!((epoch, believes), (8, before));
    let after = held(1, 8, &text);
    played.talk.send_reply(&verdict(after, None, Vec::new()));
    let reply = reload.join().expect("an answer");
    let ControlReply::Reloaded {
        epoch: 8,
        changed,
        beware,
    } = reply
    else {
        panic!("{reply:?}");
    };
    assert_eq!(beware, ["2 pipes wait"]);
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].key, "dataplane.spin_us");
    assert_eq!(
        (changed[0].from.as_str(), changed[0].to.as_str()),
        ("50", "77")
    );
    assert_eq!(changed[0].effect, Effect::Live);
    running.wait_for(after);
    // No request is sent for a configuration in force.
    let reply = send_request(&running.socket(), &ControlRequest::Reload);
    let nothing = ControlReply::Reloaded {
        epoch: 8,
        changed: Vec::new(),
        beware: Vec::new(),
    };
    assert_eq!(reply, nothing);
    assert!(played.talk.is_quiet());
}

#[test]
fn a_bad_file_names_line_and_key_and_sends_no_request() {
    let (running, _listener, played, before) = agreed("", 7);
    fs::write(running.file(), "[node]\nname = \"a\"\n[link]\nslots = 0\n").expect("written");
    let problems = running.refused();
    let file = running.file().display().to_string();
    assert!(
        problems
            .iter()
            .any(|it| it.starts_with(&format!("{file}:4:9: `link.slots`"))),
        "{problems:?}"
    );
    fs::remove_file(running.file()).expect("removed");
    assert!(running.refused()[0].contains("no such file"));
    assert!(played.talk.is_quiet());
    running.wait_for(before);
}

#[test]
fn an_objection_is_reported_with_its_line() {
    let (running, _listener, played, before) = agreed("", 7);
    fs::write(
        running.file(),
        format!("# mine\n{}", running.text("[link]\nslots = 3\n")),
    )
    .expect("written");
    let reload = running.reload();
    Played::receive_proposal(&played.talk);
    let objection = Objection {
        key: "link.slots".to_owned(),
        message: "is read at start".to_owned(),
    };
    let refused = verdict(before, Some(RefusalBrief::Unready), vec![objection]);
    played.talk.send_reply(&refused);
    let reply = reload.join().expect("an answer");
    let ControlReply::NotReloaded { problems } = reply else {
        panic!("{reply:?}");
    };
    let text = fs::read_to_string(running.file()).expect("there");
    let line = text
        .lines()
        .position(|line| line == "slots = 3")
        .expect("there")
        + 1;
    let file = running.file().display().to_string();
    let expected = format!("{file}:{line}:9: `link.slots`: is read at start");
    assert_eq!(problems, [expected]);
    running.wait_for(before);
}

#[test]
fn a_restarted_dataplane_gets_the_agreed_configuration_back() {
    let (running, listener, played, _) = agreed(OTHER, 7);
    drop(played);
    let played = Played::greet(&listener);
    let now = held(2, 0, &running.text(""));
    Played::announce(&played.talk, now);
    let (text, epoch, believes) = Played::receive_proposal(&played.talk);
    assert_eq!(
        (text.as_str(), epoch, believes),
        (running.text(OTHER).as_str(), 8, now)
    );
    let after = held(2, 8, &text);
    played.talk.send_reply(&verdict(after, None, Vec::new()));
    running.wait_for(after);
}

#[test]
fn a_dataplane_that_took_leave_is_believed() {
    let (running, listener, played, _) = agreed(OTHER, 7);
    played.talk.event(9, EventKind::Stopping);
    drop(played);
    let played = Played::greet(&listener);
    let now = held(2, 0, &running.text(""));
    Played::announce(&played.talk, now);
    Played::announce_text(&played.talk, now, &running.text(""));
    running.wait_for(now);
    assert!(played.talk.is_quiet());
}

#[test]
fn a_reload_whose_connection_breaks_is_resolved_by_a_query() {
    for taken in [true, false] {
        let (running, listener, played, before) = agreed("", 7);
        running.write(EDIT);
        let reload = running.reload();
        let (text, epoch, _) = Played::receive_proposal(&played.talk);
        // The daemon keeps running: only this connection closes.
        let Played {
            follows: _follows,
            talk,
        } = played;
        drop(talk);
        let talk = Played::greet_second(&listener);
        let now = if taken { held(1, epoch, &text) } else { before };
        Played::announce(&talk, now);
        let reply = reload.join().expect("an answer");
        match reply {
            ControlReply::Reloaded { epoch: 8, .. } => assert!(taken),
            ControlReply::NotReloaded { problems } => {
                assert!(
                    !taken && problems[0].contains("reload again"),
                    "{problems:?}"
                );
            }
            other => panic!("{other:?}"),
        }
        running.wait_for(now);
    }
}

#[test]
fn pages_move_when_the_file_is_in_force_and_not_before() {
    let (running, _listener, played, before) = agreed("", 7);
    let taken = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address: SocketAddr = taken.local_addr().expect("an address");
    let moved = running
        .text("")
        .replace("127.0.0.1:0", &address.to_string());
    fs::write(running.file(), &moved).expect("written");
    let problems = running.refused();
    assert!(
        problems[0].contains("`control.metrics_listen`") && problems[0].contains("is in use"),
        "{problems:?}"
    );
    assert!(played.talk.is_quiet());
    running.wait_for(before);
    drop(taken);
    let reload = running.reload();
    let (text, ..) = Played::receive_proposal(&played.talk);
    assert_eq!(text, moved);
    let after = held(1, 8, &text);
    played.talk.send_reply(&verdict(after, None, Vec::new()));
    let reply = reload.join().expect("an answer");
    assert!(matches!(reply, ControlReply::Reloaded { .. }), "{reply:?}");
    let (code, body) = get(address, "/metrics");
    assert_eq!(code, 200);
    assert!(
        body.contains("covalent_control_agreed_revision{node=\"node-a\"} 8"),
        "{body}"
    );
    assert!(
        body.contains("how=\"reloaded\",node=\"node-a\"} 1"),
        "{body}"
    );
}

#[test]
fn telemetry_gets_an_address_by_a_reload_and_loses_it_by_another() {
    let (running, _listener, played, _) = agreed("", 7);
    let taken = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address: SocketAddr = taken.local_addr().expect("an address");
    let place = format!("http://{address}");
    let without = running.text("");
    let listens = format!("bring_up = true\ngrpc_listen = \"{address}\"");
    let with = Config::parse(&without.replace("bring_up = true", &listens), "test.toml");
    let with = with.expect("a configuration").to_toml().expect("UTF-8");
    fs::write(running.file(), &with).expect("written");
    let problems = running.refused();
    assert!(
        problems[0].contains("`control.grpc_listen`") && problems[0].contains("is in use"),
        "{problems:?}"
    );
    drop(taken);
    for (text, epoch, is_served) in [(with, 8, true), (without, 9, false)] {
        fs::write(running.file(), &text).expect("written");
        let reload = running.reload();
        let (offered, ..) = Played::receive_proposal(&played.talk);
        assert_eq!(offered, text);
        played
            .talk
            .send_reply(&verdict(held(1, epoch, &text), None, Vec::new()));
        let reply = reload.join().expect("an answer");
        assert!(matches!(reply, ControlReply::Reloaded { .. }), "{reply:?}");
        // The server receives the change and then applies it.
        let deadline = Instant::now() + PATIENCE;
        while grpc::is_served(&place) != is_served {
            assert!(
                Instant::now() < deadline,
                "served at {place}: not {is_served}"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn without_a_dataplane_nothing_is_reloaded() {
    let running = Running::start();
    running.write(EDIT);
    assert!(running.refused()[0].contains("no covalentd answers"));
    let expected = ControlReply::Agreed {
        agreed: None,
        is_shared: false,
    };
    assert_eq!(
        send_request(&running.socket(), &ControlRequest::Agreed),
        expected
    );
}

#[test]
fn an_unprivileged_user_may_not_reload() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: root is needed to act as another user");
        return;
    }
    let running = Running::start();
    let open = Permissions::from_mode(0o755);
    fs::set_permissions(running.directory.path(), open).expect("ours");
    let socket = running.socket();
    let reply = thread::spawn(move || {
        const UNPRIVILEGED: u32 = 65_534;
        // SAFETY: without the C library's wrapper this changes only the calling thread, which ends
        // here.
        let changed = unsafe {
            nix::libc::syscall(nix::libc::SYS_setresuid, u32::MAX, UNPRIVILEGED, u32::MAX)
        };
        assert_eq!(changed, 0);
        send_request(&socket, &ControlRequest::Reload)
    });
    let reply = reply.join().expect("an answer");
    let ControlReply::Refused { reason } = reply else {
        panic!("{reply:?}");
    };
    assert!(reason.contains("user 65534 may not"), "{reason}");
}
