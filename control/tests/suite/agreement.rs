//! What control agrees on with a daemon that the test plays: adopted, reloaded, resolved, reinstated; and what is refused before anybody is asked.

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
    config::{Config, Effect},
    control::{ControlReply, ControlRequest},
    event::EventKind,
    hex64::Hex64,
    request::{Reply, Request},
};
use covalent_control::control::Control;
use covalent_pipe::seqpacket::Listener;
use covalent_protocol::agreement::digest;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::{
    client::{PCAP_PORT, ask, config, get},
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
        let (tell, told) = std::sync::mpsc::channel();
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
                tell.send(()).expect("the test waits");
                let stop = async { drop(stopped.await) };
                control.run(stop).await.expect("serves");
            });
        }));
        told.recv_timeout(PATIENCE).expect("control starts");
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

    /// The file says what control was started with, and `more`.
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
        thread::spawn(move || ask(&socket, &ControlRequest::Reload))
    }

    fn refused(&self) -> Vec<String> {
        match ask(&self.socket(), &ControlRequest::Reload) {
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
        let reply = ask(socket, &ControlRequest::Agreed);
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

/// The daemon that the test plays: the connection that follows its events, and the one for agreements.
pub struct Played {
    pub follows: Session,
    pub talk: Session,
}

impl Played {
    pub fn greet(listener: &Listener) -> Self {
        let follows = Session::greeted(listener);
        Self {
            follows,
            talk: Self::greet_again(listener),
        }
    }

    fn greet_again(listener: &Listener) -> Session {
        let talk = Session::accept(listener);
        assert!(matches!(talk.next(), Some(Request::Hello { .. })));
        talk.say(&welcome(API_VERSION));
        talk
    }

    /// Control asks what is held, and is told.
    pub fn tell(talk: &Session, held: HeldBrief) {
        assert_eq!(talk.next(), Some(Request::Agreement));
        talk.say(&Reply::Agreement { held });
    }

    /// Control wants the text of what is held, and gets it in pieces.
    pub fn tell_text(talk: &Session, held: HeldBrief, text: &str) {
        let half = text.len() / 2;
        for (from, to) in [(0, half), (half, text.len())] {
            let from_bytes = from as u64;
            assert_eq!(talk.next(), Some(Request::AgreedText { from_bytes }));
            talk.say(&Reply::AgreedText {
                held,
                text: text[from..to].to_owned(),
                next_bytes: (to < text.len()).then_some(to as u64),
            });
        }
    }

    /// The text that control offers, and under which epoch, believing what.
    pub fn hear_offer(talk: &Session) -> (String, u64, HeldBrief) {
        let mut draft = String::new();
        loop {
            match talk.next() {
                Some(Request::Draft { from_bytes, text }) => {
                    assert_eq!(from_bytes, draft.len() as u64);
                    draft += &text;
                    talk.say(&Reply::Done);
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

/// Control and the played daemon hold `text` under `epoch` of life 1.
fn agreed(text: &str, epoch: u64) -> (Running, Listener, Played, HeldBrief) {
    let running = Running::start();
    let text = running.text(text);
    let listener = running.listen();
    let played = Played::greet(&listener);
    let held = held(1, epoch, &text);
    Played::tell(&played.talk, held);
    Played::tell_text(&played.talk, held, &text);
    running.wait_for(held);
    (running, listener, played, held)
}

const EDIT: &str = "[dataplane]\nspin_us = 77\n";
const OTHER: &str = "[dataplane]\nspin_us = 33\n";

#[test]
fn a_control_that_starts_adopts_what_the_dataplane_holds() {
    // Not what the file says.
    let (mut running, listener, played, held) = agreed(OTHER, 7);
    running.end();
    drop(played);
    // Killed and started again, it asks again.
    running.begin();
    let played = Played::greet(&listener);
    Played::tell(&played.talk, held);
    Played::tell_text(&played.talk, held, &running.text(OTHER));
    running.wait_for(held);
}

#[test]
fn an_edited_file_is_offered_whole_and_told_when_it_is_in_force() {
    let (running, _listener, played, before) = agreed("", 7);
    running.write(EDIT);
    let reload = running.reload();
    let (text, epoch, believes) = Played::hear_offer(&played.talk);
    assert_eq!(text, running.text(EDIT));
    assert_eq!((epoch, believes), (8, before));
    let after = held(1, 8, &text);
    played.talk.say(&verdict(after, None, Vec::new()));
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
    // Nobody is asked for what is in force.
    let reply = ask(&running.socket(), &ControlRequest::Reload);
    let nothing = ControlReply::Reloaded {
        epoch: 8,
        changed: Vec::new(),
        beware: Vec::new(),
    };
    assert_eq!(reply, nothing);
    assert!(played.talk.is_quiet());
}

#[test]
fn a_bad_file_names_line_and_key_and_nobody_is_asked() {
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
fn an_objection_is_told_with_its_line() {
    let (running, _listener, played, before) = agreed("", 7);
    fs::write(
        running.file(),
        format!("# mine\n{}", running.text("[link]\nslots = 3\n")),
    )
    .expect("written");
    let reload = running.reload();
    Played::hear_offer(&played.talk);
    let objection = Objection {
        key: "link.slots".to_owned(),
        message: "is read at start".to_owned(),
    };
    let refused = verdict(before, Some(RefusalBrief::Unready), vec![objection]);
    played.talk.say(&refused);
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
fn a_dataplane_that_died_gets_back_what_was_agreed() {
    let (running, listener, played, _) = agreed(OTHER, 7);
    drop(played);
    let played = Played::greet(&listener);
    let now = held(2, 0, &running.text(""));
    Played::tell(&played.talk, now);
    let (text, epoch, believes) = Played::hear_offer(&played.talk);
    assert_eq!(
        (text.as_str(), epoch, believes),
        (running.text(OTHER).as_str(), 8, now)
    );
    let after = held(2, 8, &text);
    played.talk.say(&verdict(after, None, Vec::new()));
    running.wait_for(after);
}

#[test]
fn a_dataplane_that_took_leave_is_believed() {
    let (running, listener, played, _) = agreed(OTHER, 7);
    played.talk.event(9, EventKind::Stopping);
    drop(played);
    let played = Played::greet(&listener);
    let now = held(2, 0, &running.text(""));
    Played::tell(&played.talk, now);
    Played::tell_text(&played.talk, now, &running.text(""));
    running.wait_for(now);
    assert!(played.talk.is_quiet());
}

#[test]
fn a_reload_whose_connection_breaks_is_resolved_by_asking() {
    for taken in [true, false] {
        let (running, listener, played, before) = agreed("", 7);
        running.write(EDIT);
        let reload = running.reload();
        let (text, epoch, _) = Played::hear_offer(&played.talk);
        // The daemon lives on: only this connection goes.
        let Played {
            follows: _follows,
            talk,
        } = played;
        drop(talk);
        let talk = Played::greet_again(&listener);
        let now = if taken { held(1, epoch, &text) } else { before };
        Played::tell(&talk, now);
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
        problems[0].contains("`control.metrics_listen`") && problems[0].contains("is taken"),
        "{problems:?}"
    );
    assert!(played.talk.is_quiet());
    running.wait_for(before);
    drop(taken);
    let reload = running.reload();
    let (text, ..) = Played::hear_offer(&played.talk);
    assert_eq!(text, moved);
    let after = held(1, 8, &text);
    played.talk.say(&verdict(after, None, Vec::new()));
    let reply = reload.join().expect("an answer");
    assert!(matches!(reply, ControlReply::Reloaded { .. }), "{reply:?}");
    let (code, body) = get(address, "/metrics");
    assert_eq!(code, 200);
    assert!(
        body.contains("covalent_control_agreed_epoch{node=\"node-a\"} 8"),
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
        problems[0].contains("`control.grpc_listen`") && problems[0].contains("is taken"),
        "{problems:?}"
    );
    drop(taken);
    for (text, epoch, is_served) in [(with, 8, true), (without, 9, false)] {
        fs::write(running.file(), &text).expect("written");
        let reload = running.reload();
        let (offered, ..) = Played::hear_offer(&played.talk);
        assert_eq!(offered, text);
        played
            .talk
            .say(&verdict(held(1, epoch, &text), None, Vec::new()));
        let reply = reload.join().expect("an answer");
        assert!(matches!(reply, ControlReply::Reloaded { .. }), "{reply:?}");
        // It is told to who serves, which then does so.
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
    assert_eq!(ask(&running.socket(), &ControlRequest::Agreed), expected);
}

#[test]
fn a_user_that_is_nobody_may_not_reload() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: root is needed to be somebody else");
        return;
    }
    let running = Running::start();
    let open = Permissions::from_mode(0o755);
    fs::set_permissions(running.directory.path(), open).expect("ours");
    let socket = running.socket();
    let reply = thread::spawn(move || {
        const NOBODY: u32 = 65_534;
        // SAFETY: without the C library's wrapper this changes the calling thread alone, which ends here.
        let changed =
            unsafe { nix::libc::syscall(nix::libc::SYS_setresuid, u32::MAX, NOBODY, u32::MAX) };
        assert_eq!(changed, 0);
        ask(&socket, &ControlRequest::Reload)
    });
    let reply = reply.join().expect("an answer");
    let ControlReply::Refused { reason } = reply else {
        panic!("{reply:?}");
    };
    assert!(reason.contains("user 65534 may not"), "{reason}");
}
