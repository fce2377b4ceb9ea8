//! Requests: refusals and their reasons, quotas, events, status.

use covalent_api::{
    event::EventKind,
    request::{PipeKind, Reply, Request, Rights},
    rule::Match,
};
use covalent_config::Config;
use covalent_dataplane::{Daemon, StartError};

use super::{
    client::{App, CAPACITY_BYTES},
    node::{Node, pair, pair_with},
};

#[test]
fn impossible_requests_are_refused_with_their_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(
        dir.path(),
        "a",
        &["p0"],
        "[dataplane]\npipes_per_session_max = 4\nsession_memory_max_mib = 8\n\
         [[steer]]\nmatch = \"ether_type\"\nethertype = 0x0806\naction = \"kernel\"\n",
    )
    .start();
    let mut sessionless = node.client();
    let open = |kind, capacity_bytes, port: Option<&str>| Request::OpenPipe {
        kind,
        capacity_bytes,
        port: port.map(ToOwned::to_owned),
        completions: None,
    };
    let reason = sessionless.refused(&open(PipeKind::Rx, CAPACITY_BYTES, None));
    for part in ["no session yet", "`open_session` first", "`mapped` after"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert!(
        sessionless
            .refused(&Request::OpenSession { lane: 3 })
            .contains("no lane 3")
    );
    let hello = Request::hello("");
    assert!(sessionless.refused(&hello).contains("already"));

    let mut app = App::attach(&node.config.socket_path());
    let client = &mut app.client;
    assert!(
        client
            .refused(&open(PipeKind::Tx, CAPACITY_BYTES, None))
            .contains("`p0`")
    );
    assert!(
        client
            .refused(&open(PipeKind::Tx, CAPACITY_BYTES, Some("p9")))
            .contains("no port `p9`")
    );
    assert!(
        client
            .refused(&open(PipeKind::VerbSubmit, CAPACITY_BYTES, Some("p0")))
            .contains("no port")
    );
    assert!(
        client
            .refused(&open(PipeKind::Rx, 12_345, None))
            .contains("power of two")
    );
    assert!(
        client
            .refused(&open(PipeKind::Rx, 16 << 20, None))
            .contains("session_memory_max_mib")
    );
    assert!(
        client
            .refused(&Request::ClosePipe { pipe: 7 })
            .contains("no pipe 7")
    );

    let (tx, _tx) = app.tx("p0");
    let (rx, _rx) = app.rx(None);
    app.open(PipeKind::VerbSubmit, None);
    let client = &mut app.client;
    assert!(
        client
            .refused(&open(PipeKind::VerbSubmit, CAPACITY_BYTES, None))
            .contains("already")
    );
    assert!(
        client
            .refused(&Request::Bind {
                pipe: tx,
                matches: Match::Any,
                spread: None,
            })
            .contains("only RX")
    );
    let arp = Match::EtherType { ethertype: 0x0806 };
    assert!(
        client
            .refused(&Request::Bind {
                pipe: rx,
                matches: arp,
                spread: None,
            })
            .contains("[[steer]]")
    );
    assert!(
        client
            .refused(&Request::Bind {
                pipe: rx,
                matches: Match::EtherType { ethertype: 5 },
                spread: None,
            })
            .contains("0x0005")
    );
    let of_links = client.refused(&Request::Bind {
        pipe: rx,
        matches: Match::EtherType { ethertype: 0x88b5 },
        spread: None,
    });
    for part in ["0x88b5", "covalentd", "`link.ethertype`", "0x88b6"] {
        assert!(of_links.contains(part), "{of_links}");
    }
    client.done(&Request::Bind {
        pipe: rx,
        matches: Match::Any,
        spread: None,
    });
    let taken = client.refused(&Request::Bind {
        pipe: rx,
        matches: Match::Any,
        spread: None,
    });
    assert!(
        taken.contains(&format!("pipe {rx} of session {}", app.session)),
        "{taken}"
    );
    let client = &mut app.client;
    client.done(&Request::Unbind {
        pipe: rx,
        matches: Match::Any,
    });
    assert!(
        client
            .refused(&Request::Unbind {
                pipe: rx,
                matches: Match::Any
            })
            .contains("not bound")
    );
    client.done(&Request::Bind {
        pipe: rx,
        matches: Match::Any,
        spread: None,
    });
    client.call(&open(PipeKind::Rx, CAPACITY_BYTES, None));
    client.done(&Request::Mapped);
    let most = client.refused(&open(PipeKind::Rx, CAPACITY_BYTES, None));
    assert!(most.contains("pipes_per_session_max"), "{most}");
    client.done(&Request::ClosePipe { pipe: rx });
    assert!(
        client
            .refused(&Request::ClosePipe { pipe: rx })
            .contains("no pipe")
    );

    let register = |name: &str, size_bytes| Request::RegisterRegion {
        name: name.into(),
        size_bytes,
        rights: Rights::ALL,
        durable: false,
    };
    assert!(client.refused(&register("a b", 64)).contains("a b"));
    assert!(
        client
            .refused(&register("bank", 7))
            .contains("multiple of 8")
    );
    client.call(&register("bank", 64));
    client.done(&Request::Mapped);
    let mut other = App::attach(&node.config.socket_path());
    assert!(
        other
            .client
            .refused(&register("bank", 64))
            .contains(&format!("session {}", app.session))
    );
    let key = node.status().regions[0].rkey;
    let withdraw = Request::WithdrawRegion { rkey: key };
    assert!(other.client.refused(&withdraw).contains("no region"));
    client.done(&withdraw);
    assert!(client.refused(&withdraw).contains("no region"));
    assert!(node.status().regions.is_empty());
    other.client.call(&register("bank", 64));
    other.client.done(&Request::Mapped);
    assert_ne!(node.status().regions[0].rkey, key, "no key is given twice");
    assert!(
        other
            .client
            .refused(&Request::SetPort {
                port: "p7".into(),
                enabled: true
            })
            .contains("no port")
    );
}

#[test]
fn a_pipe_for_verbs_and_one_for_completions_make_a_queue() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let mut app = App::attach(&node.config.socket_path());
    let (tx, _tx) = app.tx("p0");
    app.open(PipeKind::VerbSubmit, None);
    let client = &mut app.client;
    let of = |kind, completions| Request::OpenPipe {
        kind,
        capacity_bytes: CAPACITY_BYTES,
        port: None,
        completions: Some(completions),
    };
    for other in [tx, 9] {
        assert!(
            client
                .refused(&of(PipeKind::VerbSubmit, other))
                .contains("receives no completions")
        );
    }
    assert!(
        client
            .refused(&of(PipeKind::Rx, tx))
            .contains("carries no verbs")
    );
    let (first, _first) = app.open(PipeKind::VerbComplete, None);
    let client = &mut app.client;
    assert!(
        client
            .refused(&of(PipeKind::VerbSubmit, first))
            .contains("of another pipe")
    );
    let (second, _second) = app.open(PipeKind::VerbComplete, None);
    let client = &mut app.client;
    client.call(&of(PipeKind::VerbSubmit, second));
    client.done(&Request::Mapped);
    assert!(
        client
            .refused(&of(PipeKind::VerbSubmit, second))
            .contains("of another pipe")
    );
    // A pipe that lost its other one gets the next.
    client.done(&Request::ClosePipe { pipe: second });
    let (third, _third) = app.open(PipeKind::VerbComplete, None);
    let client = &mut app.client;
    assert!(
        client
            .refused(&of(PipeKind::VerbSubmit, third))
            .contains("of another pipe")
    );
}

#[test]
fn a_port_of_another_lane_is_refused_with_the_right_lane() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(
        dir.path(),
        "a",
        &["p0"],
        "[[lane]]\n[[lane]]\n[[port]]\nname = \"q\"\nkind = \"pcap\"\nlane = 1\n",
    )
    .start();
    let mut app = App::attach(&node.config.socket_path());
    let request = Request::OpenPipe {
        kind: PipeKind::Tx,
        capacity_bytes: CAPACITY_BYTES,
        port: Some("q".into()),
        completions: None,
    };
    assert!(
        app.client
            .refused(&request)
            .contains("open a session on lane 1")
    );
    let status = node.status();
    assert_eq!(status.lanes.len(), 2);
    assert_eq!(
        status
            .ports
            .iter()
            .map(|port| (port.name.as_str(), port.lane))
            .collect::<Vec<_>>(),
        [("q", 1), ("p0", 0), ("lane-0-1", 0), ("lane-1-0", 1)],
        "the cable between the lanes comes last"
    );
    let request = Request::OpenPipe {
        kind: PipeKind::Tx,
        capacity_bytes: CAPACITY_BYTES,
        port: Some("lane-0-1".into()),
        completions: None,
    };
    let why = app.client.refused(&request);
    assert!(why.contains("no port `lane-0-1`"), "{why}");
}

#[test]
fn one_match_may_be_bound_once_for_each_port() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, _b) = pair(dir.path(), &["p0", "p1"]);
    let mut app = App::attach(&a.config.socket_path());
    let (first, _) = app.rx(Some("p0"));
    let (second, _) = app.rx(Some("p1"));
    let (both, _) = app.rx(None);
    app.bind(first, Match::Any);
    let refused = app.client.refused(&Request::Bind {
        pipe: both,
        matches: Match::Any,
        spread: None,
    });
    assert!(refused.contains("`p0`"), "{refused}");
    // The refusal left nothing behind on the other port.
    app.bind(second, Match::Any);
}

#[test]
fn events_report_what_happened_without_gaps() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, _b) = pair(dir.path(), &["p0"]);
    let mut subscriber = a.client();
    subscriber.done(&Request::Subscribe);
    let app = App::attach(&a.config.socket_path());
    let session = app.session;
    let mut control = a.client();
    control.done(&Request::SetPort {
        port: "p0".into(),
        enabled: false,
    });
    control.done(&Request::SetPort {
        port: "p0".into(),
        enabled: true,
    });
    drop(app);
    let (mut seen, mut sequences) = (Vec::new(), Vec::new());
    while seen.len() < 6 {
        let Some((Reply::Event(event), _)) = subscriber.receive() else {
            panic!("an event")
        };
        sequences.push(event.sequence);
        seen.push(match event.kind {
            EventKind::LinkUp {
                port, peer_name, ..
            } => format!("up {port} {peer_name}"),
            EventKind::LinkDown { port, reason, .. } => format!("down {port} {reason}"),
            EventKind::Carrier { port, up } => format!("carrier {port} {up}"),
            EventKind::Attached {
                session: found,
                program,
                ..
            } => format!("attached {} {program}", found == session),
            EventKind::Detached {
                session: found,
                reason,
                ..
            } => format!("detached {} {reason}", found == session),
            // The neighbor is known some round trips behind the link's being up.
            EventKind::NodeReachable { .. } | EventKind::NodeUnreachable { .. } => continue,
            other => format!("{other:?}"),
        });
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            "attached true test",
            "carrier p0 false",
            "carrier p0 true",
            "detached true closed",
            "down p0 carrier lost",
            "up p0 b"
        ]
    );
    assert!(
        sequences.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "{sequences:?}"
    );
}

#[test]
fn wrong_configurations_start_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "");
    let with = |change: &dyn Fn(&mut Config)| {
        let mut config = node.config.clone();
        change(&mut config);
        Daemon::start(config).expect_err("refused")
    };
    let error = with(&|config| config.link.slots = 0);
    assert!(
        matches!(error, StartError::Config(_)) && error.to_string().contains("slots"),
        "{error}"
    );
    let error = with(&|config| config.lane[0].core = Some(1023));
    assert!(error.to_string().contains("core 1023"), "{error}");
    let error = with(&|config| config.node.group = "no-such-group".into());
    assert!(error.to_string().contains("groupadd"), "{error}");
    assert!(
        !dir.path().join("a").exists() && !dir.path().join("a-state").exists(),
        "nothing was made"
    );
}

#[test]
fn a_status_of_many_pipes_fits() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, _b) = pair_with(dir.path(), &["p0"], "[dataplane]\nhuge_pages = \"never\"\n");
    let mut app = App::attach(&a.config.socket_path());
    for _ in 0..400 {
        app.client.call(&Request::OpenPipe {
            kind: PipeKind::Rx,
            capacity_bytes: 64 << 10,
            port: None,
            completions: None,
        });
        app.client.done(&Request::Mapped);
    }
    let status = app.client.status();
    assert_eq!(status.pipes.len() as u64 + status.omitted, 400);
    assert!(status.lanes[0].loops > 0 && status.resident_bytes > 0 && status.uptime_ns > 0);
}

#[test]
fn memory_of_closed_pipes_stays_charged_until_the_session_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(
        dir.path(),
        "a",
        &["p0"],
        "[dataplane]\nsession_memory_max_mib = 8\n",
    )
    .start();
    let mut app = App::attach(&node.config.socket_path());
    // As an application that keeps the memory: 1 MiB and a sixteenth per pipe.
    let mut kept = Vec::new();
    for _ in 0..7 {
        let (pipe, memory) = app.open(PipeKind::Rx, None);
        kept.push(memory);
        app.client.done(&Request::ClosePipe { pipe });
    }
    let open = Request::OpenPipe {
        kind: PipeKind::Rx,
        capacity_bytes: CAPACITY_BYTES,
        port: None,
        completions: None,
    };
    let reason = app.client.refused(&open);
    assert!(
        reason.contains("stay charged until it ends") && reason.contains("attach again"),
        "{reason}"
    );
    drop(app);
    App::attach(&node.config.socket_path()).open(PipeKind::Rx, None);
}

#[test]
fn one_user_gets_no_more_memory_with_many_sessions() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: becoming another user needs root");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("own directory");
    let mut node = Node::new(
        dir.path(),
        "a",
        &["p0"],
        "[dataplane]\nsession_memory_max_mib = 2\n",
    );
    // This process's own group, so that other users in it are admitted.
    let group = nix::unistd::Group::from_gid(nix::unistd::getegid());
    node.config.node.group = group.expect("a group file").expect("a group").name;
    let node = node.start();
    let socket = node.config.socket_path();
    let (held, reason) = std::thread::spawn(move || {
        // Of this thread alone; it ends with it.
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).expect("root may");
        let open = Request::OpenPipe {
            kind: PipeKind::Rx,
            capacity_bytes: CAPACITY_BYTES,
            port: None,
            completions: None,
        };
        let mut held = Vec::new();
        // One pipe of 1 MiB and a sixteenth in each; 16 MiB in all.
        for _ in 0..15 {
            let mut app = App::attach(&socket);
            app.open(PipeKind::Rx, None);
            held.push(app);
        }
        let mut late = App::attach(&socket);
        let reason = late.client.refused(&open);
        (held, reason)
    })
    .join()
    .expect("the other user ends well");
    assert!(reason.contains("all your sessions"), "{reason}");
    App::attach(&node.config.socket_path()).open(PipeKind::Rx, None);
    drop(held);
}
