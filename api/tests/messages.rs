//! Every message survives the way through a datagram, and a stranger's message is refused with a reason.

use std::fmt::Debug;

use covalent_api::{
    API_VERSION, MAX_DATAGRAM_BYTES,
    control::{
        ControlReply, ControlRequest, ControlVersion, InterfaceStatus, LinkBrief, Neighbour,
    },
    datagram::{self, DatagramError},
    event::{Event, EventKind},
    guid::Guid,
    request::{PipeKind, PortBrief, Reply, Request, Rights},
    rule::{Match, Spread, Transport},
    status::{
        Causes, LaneStatus, LinkStatus, NodeStatus, PipeStatus, PortMode, PortStatus,
        ReclaimedStatus, RegionStatus, VerbStatus,
    },
};
use serde::{Serialize, de::DeserializeOwned};

fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: &T) {
    let bytes = datagram::encode(message).expect("fits");
    let read: T = datagram::decode(&bytes).expect("own bytes");
    assert_eq!(&read, message, "{}", String::from_utf8_lossy(&bytes));
}

fn guid() -> Guid {
    Guid::new(0x0123_4567_89ab_cdef).expect("not zero")
}

fn causes() -> Causes {
    [
        ("pipe_full".to_owned(), 0),
        ("too_long".to_owned(), u64::MAX),
    ]
    .into()
}

fn pipe(pipe: u32) -> PipeStatus {
    PipeStatus {
        session: 3,
        pipe,
        kind: PipeKind::RxTx,
        capacity_bytes: 1 << 20,
        page_bytes: 4096,
        rx_packets: 1,
        rx_bytes: 2,
        tx_packets: 3,
        tx_bytes: 4,
        notifications_sent: 5,
        notifications_suppressed: 6,
        head_updates: 9,
        tx_discarded_packets: 10,
        unstamped_packets: 11,
        tx_full_packets: 12,
        drops: causes(),
    }
}

fn status() -> NodeStatus {
    NodeStatus {
        node: "a".into(),
        guid: guid(),
        pid: 1,
        uptime_ns: 2,
        resident_bytes: 3,
        lanes: vec![LaneStatus {
            lane: 0,
            core: None,
            idle: "adaptive".into(),
            loops: 1,
            busy_loops: 2,
            sleeps: 3,
            cpu_ns: 4,
            longest_round_ns: 5,
        }],
        ports: vec![PortStatus {
            name: "p0".into(),
            kind: "af_xdp".into(),
            interface: Some("eth1".into()),
            lane: 0,
            carrier: true,
            mode: PortMode {
                xdp: "native".into(),
                zero_copy: false,
                need_wakeup: true,
                page_bytes: 4096,
                queues: 2,
            },
            frame_bytes_max: 1514,
            rx_packets: 1,
            rx_bytes: 2,
            tx_packets: 3,
            tx_bytes: 4,
            passed_to_kernel_packets: 5,
            drops: causes(),
            refusals: causes(),
        }],
        links: vec![LinkStatus {
            port: "p0".into(),
            state: "up".into(),
            peer: Some(guid()),
            peer_name: Some("b".into()),
            peer_port: Some(1),
            epoch: 7,
            open_transactions: 1,
            ups: 2,
            failures: causes(),
            tx_records: 3,
            rx_records: 4,
            drops: causes(),
            committed: 5,
            refused: 6,
            reversed: 7,
            resolved: 8,
            executed: 9,
            last_failover_ns: None,
        }],
        pipes: vec![pipe(0)],
        regions: vec![RegionStatus {
            name: "bank".into(),
            rkey: 1,
            size_bytes: 4096,
            session: 3,
        }],
        verbs: VerbStatus {
            submitted: 1,
            completed: 2,
            in_doubt: 3,
            executed: causes(),
            refused: causes(),
        },
        sessions: 1,
        mappings: 12,
        mappings_max: 57_337,
        sessions_detached: causes(),
        violations: causes(),
        reclaimed: ReclaimedStatus {
            pipes: causes(),
            ..ReclaimedStatus::default()
        },
        peers_refused: causes(),
        events: 9,
        omitted: 0,
    }
}

fn every_match() -> Vec<Match> {
    let (transport, dst) = (Transport::Udp, "2001:db8::1".parse().expect("an address"));
    vec![
        Match::FiveTuple {
            transport,
            src: dst,
            src_port: 1,
            dst,
            dst_port: 2,
        },
        Match::Destination {
            transport,
            dst,
            dst_port: 2,
        },
        Match::Port {
            transport: Transport::Tcp,
            dst_port: 2,
        },
        Match::Prefix {
            dst: "10.0.0.0/8".parse().expect("a prefix"),
        },
        Match::Vlan { vlan: 7 },
        Match::EtherType { ethertype: 0x0806 },
        Match::Any,
    ]
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
        Request::Hello {
            version: API_VERSION,
            program: "größe \"q\"".into(),
        },
        Request::OpenSession { lane: 1 },
        Request::ClosePipe { pipe: 2 },
        Request::RegisterRegion {
            name: "r".into(),
            size_bytes: 1 << 30,
            rights: Rights::ALL,
        },
        Request::Status,
        Request::Subscribe,
        Request::SetPort {
            port: "p0".into(),
            enabled: false,
        },
    ];
    all.extend(kinds.map(|kind| Request::OpenPipe {
        kind,
        capacity_bytes: 1 << 16,
        port: Some("p0".into()),
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
            reason: "sequence gap".into(),
            open_transactions: 3,
        },
        EventKind::Carrier {
            port: "p0".into(),
            up: true,
        },
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
    ];
    let mut all = vec![
        Reply::Welcome {
            version: API_VERSION,
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
        },
        Reply::Region {
            rkey: 1,
            size_bytes: 8,
        },
        Reply::Status(Box::new(status())),
        Reply::Done,
        Reply::Refused {
            reason: "no such port".into(),
        },
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
        ControlRequest::Neighbours,
        ControlRequest::Links,
        ControlRequest::Interfaces,
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
    };
    let version = ControlVersion {
        api: API_VERSION,
        program: "0.1.0".into(),
        pid: 1,
        uptime_ns: 2,
        node: "a".into(),
        guid: Some(guid()),
    };
    let neighbour = Neighbour {
        guid: guid(),
        name: "b".into(),
        links: vec![link.clone()],
    };
    [
        ControlReply::Version(version),
        ControlReply::Neighbours {
            daemon_connected: true,
            neighbours: vec![neighbour],
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
    ]
    .iter()
    .for_each(survives);
}

#[test]
fn strangers_are_refused_with_a_reason() {
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
    let long = Reply::Refused {
        reason: "x".repeat(MAX_DATAGRAM_BYTES),
    };
    assert!(matches!(
        datagram::encode(&long),
        Err(DatagramError::TooLong { .. })
    ));
}

#[test]
fn a_status_of_many_pipes_is_cut_to_one_datagram_and_says_so() {
    let mut small = status();
    small.fit();
    assert_eq!(small, status(), "what fits is left alone");

    let mut large = status();
    large.pipes = (0..2000).map(pipe).collect();
    assert!(datagram::encode(&Reply::Status(Box::new(large.clone()))).is_err());
    large.fit();
    assert_eq!(large.omitted, 2000 - large.pipes.len() as u64);
    assert_eq!(large.regions.len(), 1, "regions stay while pipes can go");
    let bytes = datagram::encode(&Reply::Status(Box::new(large))).expect("fits now");
    assert!(
        bytes.len() > MAX_DATAGRAM_BYTES - 1024,
        "no more is left out than needed: {}",
        bytes.len()
    );
}
