//! Every message survives encoding as a datagram, and a foreign message is refused with a reason.

mod samples;

use std::fmt::Debug;

use covalent_api::{
    API_VERSION, MAX_DATAGRAM_BYTES,
    agreement::{LaneHeld, Objection, PortFacts, PortHeld, RefusalBrief, VerdictBrief},
    control::{
        Channels, ControlReply, ControlRequest, ControlVersion, InterfaceStatus, LinkBrief,
        Neighbor, RULES_PER_REPLY_MAX, RuleBrief, XdpProgram,
    },
    datagram::{self, DatagramError},
    event::{Event, EventKind},
    faults::FaultRates,
    hex64::Hex64,
    key_change::{Effect, KeyChange},
    request::{PipeKind, PortBrief, Reply, Request, Rights},
    rule::{Action, Match, Rule, Spread, Transport},
    versions::Versions,
};
use samples::{every_match, far_node, guid, held, pipe, refusal, status};
use serde::{Serialize, de::DeserializeOwned};

fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: &T) {
    let bytes = datagram::encode(message).expect("fits");
    let read: T = datagram::decode(&bytes).expect("own bytes");
    assert_eq!(&read, message, "{}", String::from_utf8_lossy(&bytes));
}

#[test]
fn requests_survive() {
    let kinds = [
        PipeKind::Rx,
        PipeKind::Tx,
        PipeKind::RxTx,
        PipeKind::VerbSubmit,
        PipeKind::VerbComplete,
    ];
    let mut all = vec![
        Request::hello("größe \"q\""),
        Request::OpenSession { lane: 1 },
        Request::ClosePipe { pipe: 2 },
        Request::RegisterRegion {
            name: "r".into(),
            size_bytes: 1 << 30,
            rights: Rights::ALL,
            durable: false,
        },
        Request::WithdrawRegion { rkey: 7 },
        Request::DeleteRegion { name: "r".into() },
        Request::Status,
        Request::Subscribe,
        Request::Events { from: 7 },
        Request::SetPort {
            port: "p0".into(),
            enabled: false,
        },
        Request::SetFaults {
            port: "p0".into(),
            rx: FaultRates {
                drop_per_100k: 1,
                corrupt_per_100k: 2,
                duplicate_per_100k: 3,
                blackhole: false,
            },
            tx: FaultRates {
                blackhole: true,
                ..FaultRates::default()
            },
        },
    ];
    all.extend(kinds.map(|kind| Request::OpenPipe {
        kind,
        capacity_bytes: 1 << 16,
        port: Some("p0".into()),
        completions: None,
    }));
    for matches in every_match() {
        for spread in [None, Some(Spread::Hash), Some(Spread::RoundRobin)] {
            all.push(Request::Bind {
                pipe: 1,
                matches: matches.clone(),
                spread,
            });
        }
        all.push(Request::Unbind { pipe: 1, matches });
    }
    all.iter().for_each(survives);
}

#[test]
fn replies_and_events_survive() {
    let events = [
        EventKind::LinkUp {
            port: "p0".into(),
            peer: guid(),
            peer_name: "b".into(),
            peer_port: 1,
            epoch: 2,
        },
        EventKind::LinkDown {
            port: "p0".into(),
            reason: "sequence gap: a frame lost or out of order".into(),
            open_transactions: 3,
        },
        EventKind::LinkRefused {
            port: "p0".into(),
            refusal: refusal(),
        },
        EventKind::LinkRefusalOver { port: "p0".into() },
        EventKind::Carrier {
            port: "p0".into(),
            up: true,
        },
        EventKind::PortAbsent {
            port: "p0".into(),
            reason: "interface `eth1` was removed".into(),
        },
        EventKind::PortOpened { port: "p0".into() },
        EventKind::Attached {
            session: 1,
            pid: 2,
            program: "echo".into(),
        },
        EventKind::Detached {
            session: 1,
            reason: "process ended".into(),
            pipes: 2,
            regions: 3,
        },
        EventKind::JournalFailed {
            lane: 1,
            reason: "write: No space left on device".into(),
        },
        EventKind::Configured {
            epoch: u64::MAX,
            changed: vec!["link.slots".into()],
        },
        EventKind::NotConfigured {
            reason: "`link.slots`: no".into(),
        },
        EventKind::Stopping,
    ];
    let mut all = vec![
        Reply::Welcome {
            version: API_VERSION,
            speaks: Some(Versions::SUPPORTED),
            node: "a".into(),
            guid: guid(),
            lanes: 1,
            ports: vec![PortBrief {
                name: "p0".into(),
                frame_bytes_max: 1514,
                lane: 0,
            }],
        },
        Reply::Session {
            session: u64::MAX,
            slots: 2048,
        },
        Reply::Pipe {
            pipe: 1,
            page_bytes: 4096,
            frame_bytes_max: 0,
            link_ethertype: None,
        },
        Reply::Pipe {
            pipe: 2,
            page_bytes: 4096,
            frame_bytes_max: 1514,
            link_ethertype: Some(0x88b5),
        },
        Reply::Region {
            rkey: 1,
            size_bytes: 8,
            seal: Hex64(u64::MAX),
        },
        Reply::Status(Box::new(status())),
        Reply::Done,
        Reply::refused("no such port"),
        Reply::Agreement { held: held() },
        Reply::AgreedText {
            held: held(),
            text: "[node]\nname = \"größe\"\n".into(),
            next_bytes: Some(20),
        },
        Reply::Verdict(Box::new(VerdictBrief {
            held: held(),
            refused: Some(RefusalBrief::Lane { lane: 1 }),
            lanes: vec![LaneHeld {
                lane: 0,
                epoch: 3,
                loops: u64::MAX,
                ports: vec![PortHeld {
                    name: "p0".into(),
                    open: true,
                    link_epoch: Some(2),
                    facts: Some(PortFacts {
                        index: 4,
                        address: "02:00:00:00:00:01".into(),
                        mtu_bytes: 1500,
                        queues: 2,
                        all_queues: true,
                        program_id: 77,
                    }),
                }],
            }],
            objections: vec![Objection {
                key: "steer[1]".into(),
                message: "no".into(),
            }],
            changed: Vec::new(),
            beware: vec!["2 pipes of session 7 send on `p1`".into()],
        })),
    ];
    all.extend(events.map(|kind| {
        Reply::Event(Event {
            sequence: u64::MAX,
            realtime_ns: 1,
            kind,
        })
    }));
    all.iter().for_each(survives);
}

#[test]
fn control_messages_survive() {
    [
        ControlRequest::Version,
        ControlRequest::Neighbors,
        ControlRequest::Links,
        ControlRequest::Interfaces,
        ControlRequest::Reload,
        ControlRequest::Agreed,
        ControlRequest::Rules { from: 3 },
        ControlRequest::Steer {
            remove: every_match(),
            add: every_rule(),
        },
    ]
    .iter()
    .for_each(survives);
    let link = LinkBrief {
        port: "p0".into(),
        up: true,
        peer: Some(guid()),
        peer_name: Some("b".into()),
        peer_port: Some(0),
        epoch: 1,
        last_failure: None,
        changed_realtime_ns: Some(1),
    };
    let interface = InterfaceStatus {
        port: "p0".into(),
        interface: "eth1".into(),
        index: None,
        admin_up: false,
        carrier: false,
        mtu_bytes: 0,
        brought_up: false,
        address: Some("02:00:00:00:00:01".into()),
        driver: Some("veth".into()),
        programs: vec![XdpProgram {
            mode: "native".into(),
            id: 7,
        }],
        channels: Some(Channels {
            combined: 2,
            combined_max: 4,
            ..Channels::default()
        }),
        features: Some(vec!["rx-vlan-hw-parse".into()]),
    };
    let version = ControlVersion {
        api: API_VERSION,
        oldest: Some(API_VERSION - 1),
        program: "0.1.0".into(),
        pid: 1,
        uptime_ns: 2,
        node: "a".into(),
        guid: Some(guid()),
        file: Some("/etc/covalent/covalent.toml".into()),
    };
    let neighbor = Neighbor {
        guid: guid(),
        name: "b".into(),
        links: vec![link.clone()],
    };
    [
        ControlReply::Version(version),
        ControlReply::Neighbors {
            daemon_connected: true,
            neighbors: vec![neighbor],
        },
        ControlReply::Links {
            daemon_connected: false,
            links: vec![link],
        },
        ControlReply::Interfaces {
            interfaces: vec![interface],
        },
        ControlReply::Refused {
            reason: "why".into(),
        },
        ControlReply::Reloaded {
            epoch: u64::MAX,
            changed: vec![KeyChange {
                key: "lane[0].core".into(),
                from: "1".into(),
                to: "nothing".into(),
                effect: Effect::LiveForNew,
            }],
            beware: vec!["a pipe waits".into()],
        },
        ControlReply::NotReloaded {
            problems: vec!["a:1:2: `link.slots`: no".into()],
        },
        ControlReply::Agreed {
            agreed: Some(held()),
            is_shared: true,
        },
        ControlReply::Rules {
            held: held(),
            rules: every_rule()
                .into_iter()
                .zip([None, Some(true), Some(false)].into_iter().cycle())
                .map(|(rule, in_file)| RuleBrief { rule, in_file })
                .collect(),
            next: Some(7),
        },
    ]
    .iter()
    .for_each(survives);
}

fn every_rule() -> Vec<Rule> {
    every_match()
        .into_iter()
        .map(|matches| Rule {
            matches,
            action: Action::Drop,
        })
        .collect()
}

#[test]
fn the_most_and_longest_rules_of_one_answer_fit() {
    let address = "1234:5678:9abc:def0:1234:5678:9abc:def0";
    let longest = RuleBrief {
        rule: Rule {
            matches: Match::FiveTuple {
                transport: Transport::Tcp,
                src: address.parse().expect("an address"),
                src_port: u16::MAX,
                dst: address.parse().expect("an address"),
                dst_port: u16::MAX,
            },
            action: Action::Dataplane,
        },
        in_file: Some(false),
    };
    survives(&ControlReply::Rules {
        held: held(),
        rules: vec![longest; RULES_PER_REPLY_MAX],
        next: Some(u32::MAX),
    });
}

#[test]
fn unknown_requests_are_refused_with_a_reason() {
    for (text, part) in [
        (r#"{"request":"fly"}"#, "unknown variant `fly`"),
        (
            r#"{"request":"open_session","lane":1,"core":2}"#,
            "unknown field `core`",
        ),
        (r#"{"request":"open_session"}"#, "missing field `lane`"),
        (
            r#"{"request":"bind","pipe":1,"matches":{"match":"any"},"spread":"sticky"}"#,
            "unknown variant `sticky`, expected `hash` or `round_robin`",
        ),
        (
            r#"{"request":"status"} {"request":"status"}"#,
            "trailing characters",
        ),
        ("", "EOF"),
    ] {
        let error = datagram::decode::<Request>(text.as_bytes())
            .expect_err(text)
            .to_string();
        assert!(
            error.contains(part) && error.contains("same version"),
            "{error}"
        );
    }
    let long = vec![b' '; MAX_DATAGRAM_BYTES + 1];
    assert!(matches!(
        datagram::decode::<Request>(&long),
        Err(DatagramError::TooLong { .. })
    ));
    let long = Reply::refused("x".repeat(MAX_DATAGRAM_BYTES));
    assert!(matches!(
        datagram::encode(&long),
        Err(DatagramError::TooLong { .. })
    ));
}

#[test]
fn a_status_of_many_pipes_is_cut_to_one_datagram_and_marked() {
    let mut small = status();
    small.fit();
    assert_eq!(small, status(), "a status that fits is not changed");

    let mut many = status();
    many.nodes = (1..2000).map(far_node).collect();
    many.fit();
    assert_eq!(many.omitted, 1999 - many.nodes.len() as u64);
    assert!(
        many.nodes.len() > 64 && many.pipes.len() == 1,
        "nodes go first"
    );

    let mut large = status();
    large.nodes = (1..=64).map(far_node).collect();
    large.pipes = (0..2000).map(pipe).collect();
    assert!(datagram::encode(&Reply::Status(Box::new(large.clone()))).is_err());
    large.fit();
    assert_eq!(large.omitted, 2000 - large.pipes.len() as u64);
    assert_eq!(
        large.nodes.len(),
        64,
        "no node is left out while pipes can be"
    );
    assert_eq!(large.regions.len(), 1, "and regions");
    let bytes = datagram::encode(&Reply::Status(Box::new(large))).expect("fits now");
    assert!(
        bytes.len() > MAX_DATAGRAM_BYTES - 1024,
        "no more is left out than needed: {}",
        bytes.len()
    );
}
