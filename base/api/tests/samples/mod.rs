//! Messages with something in every field.
#![allow(dead_code, reason = "each test file uses its own part of them")]

use covalent_api::{
    agreement::HeldBrief,
    guid::Guid,
    hex64::Hex64,
    refusal::LinkRefusal,
    request::PipeKind,
    rule::{Match, Transport},
    status::{
        Causes, ConfigStatus, DurableRegionStatus, FabricStatus, FarNodeStatus, GroupStatus,
        JournalStatus, LaneStatus, LinkStatus, NodeStatus, PathStatus, PipeStatus, PortMode,
        PortStatus, ReclaimedStatus, RegionStatus, VerbStatus,
    },
};

pub fn refusal() -> LinkRefusal {
    LinkRefusal {
        cause: "own_port".into(),
        reason: "both ends of this cable are ports of this node (`p0`, `p3`)".into(),
        cure: "move one end to another node".into(),
    }
}

pub fn guid() -> Guid {
    Guid::new(0x0123_4567_89ab_cdef).expect("not zero")
}

pub fn held() -> HeldBrief {
    HeldBrief {
        incarnation: Hex64(u64::MAX),
        epoch: 3,
        digest: Hex64(0x0123_4567_89ab_cdef),
    }
}

pub fn causes() -> Causes {
    [
        ("pipe_full".to_owned(), 0),
        ("too_long".to_owned(), u64::MAX),
    ]
    .into()
}

pub fn pipe(pipe: u32) -> PipeStatus {
    PipeStatus {
        session: 3,
        pipe,
        program: Some("p".into()),
        port: Some("p0".into()),
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
        used_bytes: 128,
        drops: causes(),
        port_lost_packets: 13,
    }
}

pub fn far_node(number: u64) -> FarNodeStatus {
    FarNodeStatus {
        guid: Guid::new(number).expect("not zero"),
        name: Some(format!("node-{number}")),
        standing: "reached".into(),
        hops: Some(2),
        port: Some("p0".into()),
    }
}

pub fn status() -> NodeStatus {
    NodeStatus {
        node: "a".into(),
        guid: guid(),
        pid: 1,
        uptime_ns: 2,
        resident_bytes: 3,
        lanes: vec![LaneStatus {
            address: Guid::new(0xabc),
            lane: 0,
            core: None,
            idle: "adaptive".into(),
            loops: 1,
            busy_loops: 2,
            sleeps: 3,
            cpu_ns: 4,
            longest_round_ns: 5,
            busy_ns: 9,
            journal: Some(JournalStatus {
                appended: 6,
                durable: 6,
                regions: 6,
                kept: 6,
                region_bytes: 6,
                held: 6,
                refused: 6,
                retried: 6,
                failure: Some("disk full".into()),
            }),
        }],
        ports: vec![PortStatus {
            number: 0,
            absent: None,
            facts: Some(covalent_api::agreement::PortFacts {
                index: 4,
                address: "02:00:00:00:00:01".into(),
                mtu_bytes: 1500,
                queues: 2,
                all_queues: true,
                program_id: 77,
            }),
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
            faults: causes(),
            device_counts: causes(),
            device_events: causes(),
            xdp_counts: causes(),
            tx_room_frames: 4,
        }],
        links: vec![LinkStatus {
            port: "p0".into(),
            state: "up".into(),
            peer: Some(guid()),
            peer_name: Some("b".into()),
            peer_port: Some(1),
            refusal: Some(refusal()),
            epoch: 7,
            open_transactions: 1,
            ups: 2,
            failures: causes(),
            tx_frames: 13,
            rx_frames: 14,
            tx_records: 3,
            rx_records: 4,
            drops: causes(),
            committed: 5,
            refused: 6,
            reversed: 7,
            resolved: 8,
            never_seen: 10,
            relayed: 11,
            relays_passed: 12,
            executed: 9,
            last_failover_ns: None,
            credit_records: 250,
            unreflected_records: 3,
            keepalive_misses: 1,
            round_trips: covalent_api::status::RoundTrips::default(),
        }],
        fabric: Some(FabricStatus {
            reached: 1,
            lost: 2,
            hops_max: 3,
            repairs: causes(),
            losses: 4,
            shortened: 5,
            waves: 6,
            paths: causes(),
            transits: 7,
            passed_records: 8,
            dropped_records: 9,
        }),
        nodes: vec![far_node(1)],
        paths: vec![PathStatus {
            lane: 0,
            far: guid(),
            far_name: Some("c".into()),
            opener: true,
            state: "up".into(),
            open_transactions: 3,
        }],
        groups: vec![GroupStatus {
            group: "orders".into(),
            session: 3,
            id: Hex64(u64::MAX),
            stay: Hex64(7),
            standing: "member".into(),
            view: 4,
            members: vec![Guid::new(1).expect("not zero")],
            voters: 1,
            views: 2,
            multicasts: 3,
            deliveries: 5,
            envelopes: causes(),
        }],
        pipes: vec![pipe(0)],
        regions: vec![RegionStatus {
            name: "bank".into(),
            rkey: 1,
            size_bytes: 4096,
            session: 3,
        }],
        durable_regions: vec![DurableRegionStatus {
            name: "ledger".into(),
            uid: 1000,
            lane: 0,
            size_bytes: 4096,
            session: None,
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
        config: ConfigStatus {
            held: held(),
            under_way: Some("taking".to_owned()),
        },
    }
}

pub fn every_match() -> Vec<Match> {
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
