//! The exchange with control, run by a raw client: accepted offers, refused offers with their key,
//! and the state after the client has left.

use std::path::Path;

use covalent_api::{
    agreement::{HeldBrief, PIECE_BYTES_MAX, RefusalBrief, VerdictBrief},
    event::EventKind,
    hex64::Hex64,
    request::{PipeKind, Reply, Request},
    rule::{Action, Match, Rule},
};
use covalent_config::{Config, PortKind};
use covalent_protocol::agreement::digest;
use tempfile::TempDir;

use super::{
    client::{App, Client},
    node::{Node, eventually},
};

/// A node of two lanes that runs, with a port on each.
fn node(dir: &Path) -> Node {
    let mut node = Node::new(dir, "a", &["p0", "p1"], "");
    let lane = node.config.lane[0].clone();
    node.config.lane.push(lane);
    node.config.port[1].lane = 1;
    node.start()
}

fn started() -> (TempDir, Node) {
    let dir = tempfile::tempdir().expect("a directory");
    let node = node(dir.path());
    (dir, node)
}

fn attach(node: &Node, lane: u32) -> App {
    App::attach_to_lane(&node.config.socket_path(), lane)
}

/// Returns the next event that `wanted` accepts.
fn event(client: &mut Client, wanted: impl Fn(&EventKind) -> bool) -> EventKind {
    loop {
        match client.receive() {
            Some((Reply::Event(event), _)) if wanted(&event.kind) => return event.kind,
            Some((Reply::Event(_), _)) => {}
            other => panic!("{other:?}"),
        }
    }
}

pub fn held(client: &mut Client) -> HeldBrief {
    match client.call(&Request::Agreement).0 {
        Reply::Agreement { held } => held,
        other => panic!("{other:?}"),
    }
}

fn text_in_force(client: &mut Client) -> String {
    let mut whole = String::new();
    loop {
        let request = Request::AgreedText {
            from_bytes: whole.len() as u64,
        };
        let Reply::AgreedText {
            text, next_bytes, ..
        } = client.call(&request).0
        else {
            panic!("no text");
        };
        whole += &text;
        match next_bytes {
            Some(next) => assert_eq!(next, whole.len() as u64),
            None => return whole,
        }
    }
}

pub fn send_draft(client: &mut Client, text: &str) {
    let mut sent = 0;
    while sent < text.len() {
        let end = text.floor_char_boundary(sent + PIECE_BYTES_MAX);
        client.done(&Request::Draft {
            from_bytes: sent as u64,
            text: text[sent..end].to_owned(),
        });
        sent = end;
    }
}

pub fn proposal(believes: HeldBrief, text: &str) -> Request {
    Request::Offer {
        epoch: believes.epoch + 1,
        believes,
        digest: Hex64(digest(text.as_bytes())),
        reopen: Vec::new(),
    }
}

fn verdict(client: &mut Client, request: &Request) -> VerdictBrief {
    match client.call(request).0 {
        Reply::Verdict(verdict) => *verdict,
        other => panic!("{other:?}"),
    }
}

/// Offers `text`, with the actual state as the belief.
pub fn wish(client: &mut Client, text: &str) -> VerdictBrief {
    let believes = held(client);
    send_draft(client, text);
    verdict(client, &proposal(believes, text))
}

pub fn text(config: &Config) -> String {
    config.to_toml().expect("UTF-8")
}

fn with_rule(config: &Config, ethertype: u16, action: Action) -> Config {
    let mut config = config.clone();
    let matches = Match::EtherType { ethertype };
    config.steer.push(Rule { matches, action });
    config
}

/// Returns everything that a client can see of the configuration in force.
fn seen(node: &Node, client: &mut Client) -> (HeldBrief, String, Vec<String>) {
    let held = held(client);
    let idle = node.status().lanes.into_iter().map(|lane| lane.idle);
    let idle = idle.collect();
    (held, text_in_force(client), idle)
}

#[test]
fn live_changes_are_in_force_on_every_lane() {
    let (_dir, node) = started();
    let mut client = node.client();
    let before = held(&mut client);
    assert_eq!(before.epoch, 0);
    assert_eq!(before.digest, Hex64(digest(text(&node.config).as_bytes())));
    assert_eq!(text_in_force(&mut client), text(&node.config));
    let mut events = node.client();
    events.done(&Request::Subscribe);

    let mut wanted = with_rule(&node.config, 0x2001, Action::Drop);
    wanted.dataplane.idle = covalent_config::Idle::Interrupt;
    wanted.dataplane.burst = 7;
    wanted.dataplane.miss = Action::Drop;
    wanted.dataplane.pipes_per_session_max = 1;
    wanted.link.keepalive_misses_max = 50;
    wanted.link.idle_tick_ms = 3;
    let verdict = wish(&mut client, &text(&wanted));
    assert_eq!(verdict.refused, None, "{verdict:?}");
    assert_eq!(verdict.objections, []);
    assert_eq!(verdict.held.epoch, 1);
    assert_eq!(verdict.held.incarnation, before.incarnation);
    let lanes = verdict.lanes.iter().map(|lane| (lane.lane, lane.epoch));
    assert_eq!(lanes.collect::<Vec<_>>(), [(0, 1), (1, 1)]);
    assert_eq!(verdict.lanes[1].ports[0].name, "p1");
    let keys = [
        "dataplane.burst",
        "dataplane.idle",
        "dataplane.miss",
        "dataplane.pipes_per_session_max",
        "link.idle_tick_ms",
        "link.keepalive_misses_max",
        "steer",
    ];
    assert_eq!(verdict.changed, keys);
    assert_eq!(held(&mut client), verdict.held);
    assert_eq!(text_in_force(&mut client), text(&wanted));
    let status = node.status();
    assert_eq!(status.config.held, verdict.held);
    assert_eq!(status.config.under_way, None);
    assert!(status.lanes.iter().all(|lane| lane.idle == "interrupt"));
    let event = event(&mut events, |kind| {
        matches!(kind, EventKind::Configured { .. })
    });
    assert!(
        matches!(&event, EventKind::Configured { epoch: 1, changed } if *changed == keys),
        "{event:?}"
    );
    // Pipes opened from now on are bounded by it, and the rule is in force.
    let mut app = attach(&node, 0);
    let (pipe, _memory) = app.rx(None);
    let request = Request::OpenPipe {
        kind: PipeKind::Rx,
        capacity_bytes: 1 << 20,
        port: None,
        completions: None,
    };
    assert!(app.client.refused(&request).contains("pipes"));
    let request = Request::Bind {
        pipe,
        matches: Match::EtherType { ethertype: 0x2001 },
        spread: None,
    };
    assert!(app.client.refused(&request).contains("[[steer]]"));
    // The change is reverted the same way.
    let verdict = wish(&mut client, &text(&node.config));
    assert_eq!(verdict.refused, None, "{verdict:?}");
    app.client.done(&request);
}

#[test]
fn an_inapplicable_change_names_its_key_and_changes_nothing() {
    let (_dir, node) = started();
    let mut client = node.client();
    let before = seen(&node, &mut client);
    let mut slots = node.config.clone();
    slots.link.slots = 3;
    slots.dataplane.idle = covalent_config::Idle::Interrupt;
    let mut core = node.config.clone();
    core.lane[1].core = Some(4_000);
    let mut group = node.config.clone();
    group.node.group = "no-such-group-here".to_owned();
    let cases = [
        (text(&slots), "link.slots", "restart covalentd"),
        (text(&core), "lane[1].core", "4000"),
        (text(&group), "node.group", "restart covalentd"),
        (
            text(&node.config).replace("burst", "brust"),
            "dataplane.brust",
            "burst",
        ),
        ("[".to_owned(), "", "not TOML"),
        (
            format!("{}\n# by hand\n", text(&node.config)),
            "",
            "canonical",
        ),
    ];
    for (text, key, expected) in cases {
        let verdict = wish(&mut client, &text);
        assert_eq!(verdict.refused, Some(RefusalBrief::Unready), "{verdict:?}");
        let objection = &verdict.objections[0];
        assert_eq!(objection.key, key);
        assert!(objection.message.contains(expected), "{objection:?}");
        assert_eq!(verdict.held, before.0);
        assert_eq!(verdict.changed, Vec::<String>::new());
        assert_eq!(seen(&node, &mut client), before);
    }
    // Another text than the one that was offered.
    let believes = held(&mut client);
    send_draft(&mut client, &text(&node.config));
    let verdict = verdict(&mut client, &proposal(believes, "another"));
    assert!(
        verdict.objections[0].message.contains("not the text"),
        "{verdict:?}"
    );
    assert_eq!(seen(&node, &mut client), before);
}

#[test]
fn a_rule_that_a_pipe_forbids_is_refused_by_its_lane_and_no_lane_changes() {
    let (_dir, node) = started();
    let mut client = node.client();
    let matches = Match::EtherType { ethertype: 0x2001 };
    // On the second lane, so that the first one could accept the change.
    let mut app = attach(&node, 1);
    let (pipe, _memory) = app.rx(None);
    app.bind(pipe, matches);
    let before = seen(&node, &mut client);
    let mut wanted = with_rule(&node.config, 0x2000, Action::Drop);
    wanted = with_rule(&wanted, 0x2001, Action::Kernel);
    wanted.dataplane.idle = covalent_config::Idle::Interrupt;
    let verdict = wish(&mut client, &text(&wanted));
    assert_eq!(verdict.refused, Some(RefusalBrief::Lane { lane: 1 }));
    assert_eq!(verdict.objections[0].key, "steer[1]");
    let message = &verdict.objections[0].message;
    assert!(message.contains("of session"), "{message}");
    assert_eq!(seen(&node, &mut client), before);
    // A rule that was not in force blocks no binding.
    let mut other = attach(&node, 0);
    let (pipe, _theirs) = other.rx(None);
    other.bind(pipe, Match::EtherType { ethertype: 0x2000 });
    // Rules for the dataplane leave the match to pipes.
    let allowed = with_rule(&node.config, 0x2001, Action::Dataplane);
    assert_eq!(wish(&mut client, &text(&allowed)).refused, None);
}

#[test]
fn a_proposal_with_a_stale_or_unqueried_belief_is_refused() {
    let (_dir, node) = started();
    let mut client = node.client();
    let before = seen(&node, &mut client);
    let mut wanted = node.config.clone();
    wanted.dataplane.spin_us = 7;
    let wanted = text(&wanted);
    let wrong = [
        HeldBrief {
            incarnation: Hex64(before.0.incarnation.0 ^ 1),
            ..before.0
        },
        HeldBrief {
            epoch: 5,
            ..before.0
        },
        HeldBrief {
            digest: Hex64(1),
            ..before.0
        },
    ];
    for believes in wrong {
        send_draft(&mut client, &wanted);
        let verdict = verdict(&mut client, &proposal(believes, &wanted));
        assert_eq!(verdict.refused, Some(RefusalBrief::Stale), "{believes:?}");
    }
    send_draft(&mut client, &wanted);
    let not_later = Request::Offer {
        epoch: 0,
        believes: before.0,
        digest: Hex64(digest(wanted.as_bytes())),
        reopen: Vec::new(),
    };
    let answer = verdict(&mut client, &not_later);
    assert_eq!(answer.refused, Some(RefusalBrief::NotLater));
    // Another client has queried since.
    let mut second = node.client();
    let believes = held(&mut second);
    send_draft(&mut client, &wanted);
    let answer = verdict(&mut client, &proposal(believes, &wanted));
    assert_eq!(answer.refused, Some(RefusalBrief::Stale));
    assert_eq!(seen(&node, &mut client), before);
}

#[test]
fn drafts_are_bounded_and_resume_at_their_end() {
    let (_dir, node) = started();
    let mut client = node.client();
    let piece = |from_bytes, text: String| Request::Draft { from_bytes, text };
    client.done(&piece(0, "ab".to_owned()));
    assert!(
        client
            .refused(&piece(3, "c".to_owned()))
            .contains("2 bytes")
    );
    let long = "x".repeat(PIECE_BYTES_MAX + 1);
    assert!(client.refused(&piece(2, long)).contains("at most"));
    let most = "x".repeat(PIECE_BYTES_MAX);
    client.done(&piece(0, most.clone()));
    let mut sent = most.len() as u64;
    let refused = loop {
        match client.call(&piece(sent, most.clone())).0 {
            Reply::Done => sent += most.len() as u64,
            Reply::Refused { reason, .. } => break reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(
        sent <= 1 << 20 && refused.contains("longer than"),
        "{refused}"
    );
    let request = Request::AgreedText {
        from_bytes: u64::MAX,
    };
    assert!(client.refused(&request).contains("bytes"));
}

/// At whatever point the client leaves, the next one finds the complete old or new configuration,
/// and the daemon keeps serving.
#[test]
fn an_exchange_ends_although_its_client_is_gone() {
    let (_dir, node) = started();
    for round in 0..20_u32 {
        let mut client = node.client();
        let believes = held(&mut client);
        let now = text_in_force(&mut client);
        let mut wanted = with_rule(&node.config, 0x2000 + round as u16, Action::Drop);
        wanted.dataplane.spin_us = 100 + round;
        let wanted = text(&wanted);
        send_draft(&mut client, &wanted);
        client.send(&proposal(believes, &wanted));
        // At another moment of the exchange in each round.
        std::thread::sleep(std::time::Duration::from_micros(u64::from(round) * 40));
        drop(client);
        let mut next = node.client();
        let after = held(&mut next);
        let found = text_in_force(&mut next);
        let taken = after.epoch == believes.epoch + 1;
        assert!(taken || after == believes, "{after:?}");
        assert_eq!(found, if taken { wanted } else { now });
        assert_eq!(node.status().config.under_way, None);
    }
}

#[test]
fn an_agreed_client_is_notified_of_a_graceful_shutdown() {
    let (_dir, mut node) = started();
    let mut control = node.client();
    held(&mut control);
    let mut subscribed = node.client();
    subscribed.done(&Request::Subscribe);
    let mut bystander = node.client();
    let daemon = node.daemon.take().expect("it runs");
    daemon.stop();
    for client in [&mut control, &mut subscribed] {
        event(client, |kind| *kind == EventKind::Stopping);
        assert!(client.receive().is_none());
    }
    assert!(bystander.receive().is_none());
}

/// At whatever point of an exchange the daemon is stopped, its lanes leave in order.
#[test]
fn a_daemon_that_is_stopped_in_the_middle_of_an_exchange_shuts_down_in_order() {
    for round in 0..16_u32 {
        let (_dir, mut node) = started();
        let mut apps = [0, 1].map(|lane| attach(&node, lane));
        let mut control = node.client();
        let believes = held(&mut control);
        let mut wanted = node.config.clone();
        for number in 0..120 {
            wanted = with_rule(&wanted, 0x3000 + number, Action::Drop);
        }
        // Closed and opened again in the middle.
        if let PortKind::Cable { ring_slots, .. } = &mut wanted.port[1].kind {
            *ring_slots = 2048;
        }
        let wanted = text(&wanted);
        send_draft(&mut control, &wanted);
        control.send(&proposal(believes, &wanted));
        std::thread::sleep(std::time::Duration::from_micros(u64::from(round) * 150));
        node.daemon.take().expect("it runs").stop();
        for app in &mut apps {
            event(&mut app.client, |kind| *kind == EventKind::Stopping);
        }
    }
}

#[test]
fn commands_wait_while_a_configuration_is_taken_and_then_continue() {
    let (_dir, node) = started();
    let mut control = node.client();
    // Many rules, so that it takes many rounds.
    let mut wanted = node.config.clone();
    for number in 0..120 {
        wanted = with_rule(&wanted, 0x3000 + number, Action::Drop);
    }
    let wanted = text(&wanted);
    let mut app = attach(&node, 0);
    let (pipe, _memory) = app.rx(None);
    for round in 0..10_u16 {
        let now = text_in_force(&mut control);
        let next = if round % 2 == 0 {
            &wanted
        } else {
            &text(&node.config)
        };
        assert_ne!(&now, next);
        let believes = held(&mut control);
        send_draft(&mut control, next);
        control.send(&proposal(believes, next));
        app.bind(
            pipe,
            Match::EtherType {
                ethertype: 0x4000 + round,
            },
        );
        let Some((Reply::Verdict(verdict), _)) = control.receive() else {
            panic!("no verdict");
        };
        assert_eq!(verdict.refused, None, "{verdict:?}");
    }
    eventually("the status is reported", || {
        node.status().config.held.epoch == 10
    });
}
