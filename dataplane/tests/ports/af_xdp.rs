//! The suite on AF_XDP over a virtual cable, and guarantees that only AF_XDP makes.

use std::{
    net::{Ipv4Addr, UdpSocket},
    thread,
};

use caps::{CapSet, Capability};
use covalent_api::rule::{Action, Match, Transport};
use covalent_config::{
    CopyMode, DataplaneConfig, FaultsConfig, HugePages, LinkConfig, PortConfig, PortKind, XdpMode,
};
use covalent_dataplane::port::{LaneMemory, Port, PortError, SteerChange, TxRefusal, open};

use crate::{
    frames::frame,
    namespace::{in_new_namespace, ip, run_with_env, veth_pair},
    pair::{FramePath, LivePair, collect, until},
    suite,
};

const RING_SLOTS: u32 = 512;

/// EtherType of links other than those of the tests.
const OTHER_LINKS: u16 = 0x88b6;

pub fn af_xdp(interface: &str, queues: u32, ring_slots: u32) -> PortConfig {
    PortConfig {
        name: format!("port-{interface}"),
        lane: 0,
        link: true,
        kind: PortKind::AfXdp {
            interface: interface.to_owned(),
            queues,
            ring_slots,
            xdp: XdpMode::Auto,
            copy: CopyMode::Auto,
        },
        faults: None,
    }
}

/// Opens the ports as one lane does. To these ports the test's frames are application frames, and
/// the dataplane gets them all.
pub fn open_lane(ports: &[PortConfig]) -> Result<Vec<Box<dyn Port>>, PortError> {
    let of_others = LinkConfig {
        ethertype: OTHER_LINKS,
        ..LinkConfig::default()
    };
    let mut ports = open_with(ports, &of_others)?;
    for port in &mut ports {
        port.steer(&SteerChange::Default(Action::Dataplane))?;
    }
    Ok(ports)
}

/// The same, with the test's frames as link frames.
fn open_with(ports: &[PortConfig], link: &LinkConfig) -> Result<Vec<Box<dyn Port>>, PortError> {
    let dataplane = DataplaneConfig {
        huge_pages: HugePages::Never,
        ..DataplaneConfig::default()
    };
    let mut memory = LaneMemory::for_lane(ports, 0)?;
    ports
        .iter()
        .map(|port| open(port, &dataplane, link, &mut memory))
        .collect()
}

/// Each end with memory of its own, as two daemons have.
fn pair() -> LivePair {
    let end = |interface| {
        open_lane(&[af_xdp(interface, 0, RING_SLOTS)])
            .unwrap()
            .remove(0)
    };
    LivePair {
        near: end("near0"),
        far: end("far0"),
    }
}

fn on_veth(queues: u32, test: impl FnOnce(&mut LivePair) + Send) {
    in_new_namespace(|| {
        veth_pair(queues);
        test(&mut pair());
    });
}

/// A pair of which the test's frames are the link's, and so have rings of their own.
fn with_links(queues: u32, test: impl FnOnce(LivePair) + Send) {
    in_new_namespace(|| {
        veth_pair(queues);
        let end = |interface| {
            let config = af_xdp(interface, 0, RING_SLOTS);
            let mut port = open_with(&[config], &LinkConfig::default())
                .unwrap()
                .remove(0);
            port.steer(&SteerChange::Default(Action::Dataplane))
                .unwrap();
            port
        };
        test(LivePair {
            near: end("near0"),
            far: end("far0"),
        });
    });
}

/// A frame that is not the link's.
fn data(number: u64) -> Vec<u8> {
    let mut bytes = frame(number, 64);
    bytes[12..14].copy_from_slice(&0x1234_u16.to_be_bytes());
    bytes
}

/// Sends frames until so many have left, a few at a time: the virtual cable holds 256.
fn send_all(port: &mut dyn Port, frames: impl Iterator<Item = Vec<u8>>) {
    for (number, frame) in frames.enumerate() {
        port.tx(&frame).unwrap();
        if number % 16 == 15 {
            until("they have left", || {
                port.flush().unwrap();
                port.tx_idle()
            });
        }
    }
    until("they have left", || {
        port.flush().unwrap();
        port.tx_idle()
    });
}

fn problem(ports: &[PortConfig]) -> String {
    open_lane(ports)
        .map(|_| ())
        .expect_err("must be refused")
        .to_string()
}

#[test]
fn frames_keep_order_and_bytes() {
    on_veth(1, |pair| suite::order_and_bytes(pair, 20_000));
}

#[test]
fn link_frames_keep_the_guarantees_of_every_port() {
    with_links(2, |mut pair| {
        suite::order_and_bytes(&mut pair, 20_000);
        suite::every_size(&mut pair);
        suite::work_forbids_sleep(&mut pair);
        suite::a_burst_stays_until_the_next(&mut pair);
        suite::no_lost_wake_up(pair, 2_000);
    });
    with_links(1, |mut pair| suite::nothing_leaks(&mut pair, 200_000));
    with_links(1, |mut pair| suite::counters_conserve(&mut pair));
}

/// Applications send several times the capacity of all rings, and no application receives it. Link
/// frames still arrive, all of them and in order.
#[test]
fn received_application_frames_take_no_space_of_the_link() {
    const LINKS: u64 = 200;
    with_links(1, |mut pair| {
        let flood = u64::from(RING_SLOTS) * 4;
        send_all(&mut *pair.near, (0..flood).map(data));
        let link: Vec<_> = (0..LINKS).map(|number| frame(number, 64)).collect();
        send_all(&mut *pair.near, link.iter().cloned());
        let mut arrived = Vec::new();
        until("all are received", || {
            collect(&mut *pair.far, 64, &mut arrived) == 0
        });
        let ethertype = 12..14;
        let (links, others): (Vec<_>, Vec<_>) = arrived
            .into_iter()
            .partition(|got| got[ethertype.clone()] == crate::frames::ETHERTYPE);
        assert!(
            links == link,
            "{} of {LINKS} link frames arrived",
            links.len()
        );
        let counters = pair.far.counters();
        let lost = counters
            .drops
            .iter()
            .find(|(cause, _)| *cause == "rx_ring_full")
            .map_or(0, |(_, count)| *count);
        assert_eq!(others.len() as u64 + lost, flood, "{:?}", counters.drops);
        assert!(lost > 0, "the flood was too small");
    });
}

/// Applications leave no chunk to send from, and nothing leaves. Link frames are accepted all the
/// same, and leave before the others.
#[test]
fn sent_application_frames_take_no_space_of_the_link() {
    with_links(1, |mut pair| {
        let mut sent = 0;
        while pair.near.tx(&data(sent)).is_ok() {
            sent += 1;
        }
        assert_eq!(pair.near.tx_space(), 0);
        let room = pair.near.link_tx_space().unwrap();
        assert!(room >= 250, "{room}: as many as may be in flight");
        for number in 0..room as u64 {
            pair.near.tx(&frame(number, 64)).unwrap();
        }
        assert_eq!(pair.near.tx(&frame(0, 64)), Err(TxRefusal::Full));
        let mut arrived = Vec::new();
        until("everything arrives", || {
            pair.near.flush().unwrap();
            collect(&mut *pair.far, 64, &mut arrived);
            arrived.len() as u64 == sent + room as u64
        });
        assert_eq!(arrived[0], frame(0, 64));
    });
}

#[test]
fn frames_keep_order_and_bytes_over_two_queues() {
    on_veth(2, |pair| suite::order_and_bytes(pair, 20_000));
}

#[test]
fn every_size_crosses() {
    on_veth(1, |pair| suite::every_size(pair));
}

#[test]
fn an_unsendable_frame_is_refused() {
    on_veth(1, |pair| suite::refusals(pair));
}

#[test]
fn a_full_port_pushes_back_and_recovers() {
    on_veth(2, suite::back_pressure);
}

#[test]
fn a_million_frames_leak_nothing() {
    on_veth(2, |pair| suite::nothing_leaks(pair, 1_000_000));
}

#[test]
fn counters_conserve() {
    on_veth(1, suite::counters_conserve);
}

#[test]
fn disabling_is_pulling_the_cable() {
    on_veth(1, suite::disabling);
}

#[test]
fn no_wake_up_is_lost() {
    in_new_namespace(|| {
        veth_pair(1);
        suite::no_lost_wake_up(pair(), 5_000);
    });
}

#[test]
fn work_forbids_sleep() {
    on_veth(2, suite::work_forbids_sleep);
}

#[test]
fn a_burst_stays_until_the_next() {
    on_veth(2, suite::a_burst_stays_until_the_next);
}

#[test]
fn damage_that_is_off_changes_nothing() {
    in_new_namespace(|| {
        veth_pair(2);
        let end = |interface| {
            let config = PortConfig {
                faults: Some(FaultsConfig::default()),
                ..af_xdp(interface, 0, RING_SLOTS)
            };
            open_lane(&[config]).unwrap().remove(0)
        };
        let mut pair = LivePair {
            near: end("near0"),
            far: end("far0"),
        };
        suite::order_and_bytes(&mut pair, 20_000);
        suite::every_size(&mut pair);
        suite::back_pressure(&mut pair);
        suite::work_forbids_sleep(&mut pair);
        suite::no_lost_wake_up(pair, 2_000);
    });
}

#[test]
fn the_mode_is_read_back() {
    on_veth(2, |pair| {
        let info = pair.near.info();
        assert_eq!(info.kind, "af_xdp");
        assert_eq!(info.interface.as_deref(), Some("near0"));
        assert_eq!(info.frame_bytes_max, 1514);
        assert_ne!(info.mac, [0; 6]);
        let mode = &info.mode;
        assert_eq!(
            (
                mode.xdp.as_str(),
                mode.zero_copy,
                mode.need_wakeup,
                mode.page_bytes,
                mode.queues
            ),
            ("native", false, true, 4096, 2)
        );
    });
}

#[test]
fn generic_mode_works_if_requested() {
    in_new_namespace(|| {
        veth_pair(1);
        let end = |interface| {
            let mut config = af_xdp(interface, 1, RING_SLOTS);
            if let PortKind::AfXdp { xdp, copy, .. } = &mut config.kind {
                (*xdp, *copy) = (XdpMode::Generic, CopyMode::Copy);
            }
            open_lane(&[config]).unwrap().remove(0)
        };
        let mut pair = LivePair {
            near: end("near0"),
            far: end("far0"),
        };
        assert_eq!(pair.near.info().mode.xdp, "generic");
        suite::order_and_bytes(&mut pair, 2_000);
    });
}

#[test]
fn unsupported_zero_copy_is_refused_and_leaves_nothing_behind() {
    in_new_namespace(|| {
        veth_pair(1);
        let mut config = af_xdp("near0", 0, RING_SLOTS);
        if let PortKind::AfXdp { copy, .. } = &mut config.kind {
            *copy = CopyMode::ZeroCopy;
        }
        let text = problem(&[config]);
        assert!(
            text.contains("`near0` has no zero-copy mode") && text.contains("copy = \"auto\""),
            "{text}"
        );
        suite::order_and_bytes(&mut pair(), 100);
    });
}

#[test]
fn two_interfaces_of_a_lane_are_two_ports() {
    in_new_namespace(|| {
        veth_pair(2);
        let mut ports = open_lane(&[
            af_xdp("near0", 0, RING_SLOTS),
            af_xdp("far0", 0, RING_SLOTS),
        ])
        .unwrap();
        let far = ports.remove(1);
        let mut pair = LivePair {
            near: ports.remove(0),
            far,
        };
        suite::order_and_bytes(&mut pair, 5_000);
        suite::back_pressure(&mut pair);
    });
}

#[test]
fn frames_that_the_receiver_does_not_take_are_counted_by_cause() {
    on_veth(1, |pair| {
        let count = u64::from(RING_SLOTS) * 4;
        let mut sent = 0;
        until("all are sent", || {
            while sent < count && pair.near.tx(&frame(sent, 64)).is_ok() {
                sent += 1;
            }
            pair.near.flush().unwrap();
            sent == count && pair.near.tx_idle()
        });
        let mut arrived = Vec::new();
        until("the rest is received", || {
            collect(&mut *pair.far, 64, &mut arrived) == 0
        });
        let counters = pair.far.counters();
        let dropped: u64 = counters.drops.iter().map(|(_, count)| count).sum();
        assert_eq!(counters.rx_packets + dropped, count, "{:?}", counters.drops);
        assert!(dropped > 0, "the rings hold less than was sent");
        let second_batch: Vec<_> = (0..1_000).map(|number| frame(number, 64)).collect();
        assert!(
            pair.transfer(&second_batch, suite::WINDOW) == second_batch,
            "the port recovers"
        );
    });
}

#[test]
fn a_closed_port_can_be_reopened_at_once() {
    in_new_namespace(|| {
        veth_pair(1);
        for _ in 0..5 {
            let mut pair = pair();
            suite::order_and_bytes(&mut pair, 100);
        }
    });
}

#[test]
fn a_port_survives_an_interface_that_goes_down_and_up() {
    on_veth(1, |pair| {
        let before: Vec<_> = (0..100).map(|number| frame(number, 64)).collect();
        assert!(pair.transfer(&before, suite::WINDOW) == before);
        ip(&["link", "set", "near0", "down"]);
        // The carrier watch has not notified the port yet.
        pair.near.tx(&frame(7, 64)).unwrap();
        let flushed = pair.near.flush();
        assert!(
            matches!(flushed, Err(PortError::LinkDown { .. })),
            "{flushed:?}"
        );
        pair.near.set_carrier(false);
        assert!(!pair.near.carrier());
        assert_eq!(pair.near.tx(&frame(8, 64)), Err(TxRefusal::Down));
        assert!(
            pair.near.prepare_sleep(),
            "a lane must not spin on a dead link"
        );
        pair.near.finish_sleep();

        ip(&["link", "set", "near0", "up"]);
        pair.near.set_carrier(true);
        let mut arrived = Vec::new();
        until("frames flow again", || {
            let _ = pair.near.tx(&frame(9, 64));
            let _ = pair.near.flush();
            collect(&mut *pair.far, 64, &mut arrived);
            arrived.contains(&frame(9, 64))
        });
        until("all is quiet", || {
            pair.near.flush().unwrap();
            pair.near.tx_idle() && collect(&mut *pair.far, 64, &mut arrived) == 0
        });
        assert!(pair.transfer(&before, suite::WINDOW) == before);
    });
}

#[test]
fn a_peer_that_goes_down_shows_as_a_failed_link() {
    with_links(1, |mut pair| {
        ip(&["link", "set", "far0", "down"]);
        pair.near.tx(&frame(7, 64)).unwrap();
        let flushed = pair.near.flush();
        assert!(
            matches!(flushed, Err(PortError::LinkDown { .. })),
            "{flushed:?}"
        );
        until("its chunk returns", || {
            let _ = pair.near.flush();
            pair.near.tx_idle()
        });
    });
}

#[test]
fn a_removed_interface_is_reported_gone() {
    on_veth(1, |pair| {
        ip(&["link", "del", "near0"]);
        pair.near.tx(&frame(7, 64)).unwrap();
        let flushed = pair.near.flush();
        assert!(
            matches!(flushed, Err(PortError::Gone { .. })),
            "{flushed:?}"
        );
        assert!(
            flushed
                .unwrap_err()
                .to_string()
                .contains("`near0` was removed")
        );
        assert!(!pair.near.carrier());
        assert_eq!(pair.near.tx(&frame(7, 64)), Err(TxRefusal::Down));
        assert_eq!(collect(&mut *pair.near, 8, &mut Vec::new()), 0);
        pair.near.counters();
        assert!(pair.near.prepare_sleep());
        assert!(pair.near.set_enabled(true).is_err());
    });
}

#[test]
fn a_port_that_cannot_be_opened_is_explained() {
    in_new_namespace(|| {
        veth_pair(2);
        let text = problem(&[af_xdp("none0", 0, RING_SLOTS)]);
        assert!(
            text.contains("no interface `none0` in this network namespace"),
            "{text}"
        );
        let text = problem(&[af_xdp("near0", 3, RING_SLOTS)]);
        assert!(
            text.contains("`queues = 3`, but interface `near0` has 2"),
            "{text}"
        );
        let text = problem(&[af_xdp("near0", 0, 100)]);
        assert!(text.contains("`ring_slots = 100`"), "{text}");
        ip(&["link", "set", "near0", "mtu", "9000"]);
        let text = problem(&[af_xdp("near0", 0, RING_SLOTS)]);
        assert!(
            text.contains("MTU 9000") && text.contains("ip link set near0 mtu 1770"),
            "{text}"
        );
        ip(&["link", "set", "near0", "mtu", "1770"]);
        let port = open_lane(&[af_xdp("near0", 0, RING_SLOTS)])
            .unwrap()
            .remove(0);
        assert_eq!(port.info().frame_bytes_max, 1784);
        let text = problem(&[af_xdp("near0", 0, RING_SLOTS)]);
        assert!(
            text.contains("already has an XDP program") && text.contains("steer"),
            "{text}"
        );
    });
}

#[test]
fn missing_capabilities_are_named() {
    in_new_namespace(|| {
        veth_pair(1);
        let text = thread::spawn(|| {
            caps::clear(None, CapSet::Effective).unwrap();
            problem(&[af_xdp("near0", 0, RING_SLOTS)])
        })
        .join()
        .unwrap();
        assert!(
            text.contains("CAP_NET_RAW")
                && text.contains("CAP_BPF")
                && text.contains("run as root"),
            "{text}"
        );
        let text = thread::spawn(|| {
            caps::drop(None, CapSet::Effective, Capability::CAP_IPC_LOCK).unwrap();
            nix::sys::resource::setrlimit(
                nix::sys::resource::Resource::RLIMIT_MEMLOCK,
                4096,
                8 << 20,
            )
            .unwrap();
            problem(&[af_xdp("near0", 0, RING_SLOTS)])
        })
        .join()
        .unwrap();
        assert!(
            text.contains("has 3328 KiB, but only 4 KiB may be locked"),
            "{text}"
        );
    });
}

#[test]
fn traffic_of_others_passes_to_the_kernel_and_rules_bring_it_here() {
    on_veth(2, |pair| {
        pair.far
            .steer(&SteerChange::Default(Action::Kernel))
            .unwrap();
        // Both ends are in one namespace: a route and a neighbor through the cable prevent the
        // kernel from short-cutting.
        ip(&["addr", "add", "10.9.0.1/24", "dev", "near0"]);
        ip(&[
            "neigh",
            "add",
            "10.9.0.2",
            "lladdr",
            "02:00:00:00:00:02",
            "dev",
            "near0",
        ]);
        let socket = UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 1), 0)).unwrap();
        let to = (Ipv4Addr::new(10, 9, 0, 2), 4242);

        let mut arrived = Vec::new();
        socket.send_to(b"for the kernel", to).unwrap();
        until("the program counts it", || {
            pair.far.counters().passed_to_kernel_packets == 1
        });
        assert_eq!(collect(&mut *pair.far, 8, &mut arrived), 0);

        let rule = Match::Port {
            transport: Transport::Udp,
            dst_port: 4242,
        };
        pair.far
            .steer(&SteerChange::Insert(rule.clone(), Action::Dataplane))
            .unwrap();
        // Many flows, so that the kernel spreads them over both queues.
        for _ in 0..32 {
            let flow = UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 1), 0)).unwrap();
            flow.send_to(b"for the dataplane", to).unwrap();
        }
        until("all arrive", || {
            collect(&mut *pair.far, 8, &mut arrived);
            arrived.len() == 32
        });
        assert!(
            arrived
                .iter()
                .all(|frame| frame.ends_with(b"for the dataplane"))
        );

        pair.far.steer(&SteerChange::Remove(rule)).unwrap();
        socket.send_to(b"for the kernel", to).unwrap();
        until("the program counts it", || {
            pair.far.counters().passed_to_kernel_packets == 2
        });

        pair.far
            .steer(&SteerChange::Default(Action::Dataplane))
            .unwrap();
        socket.send_to(b"for the dataplane", to).unwrap();
        until("it arrives", || {
            collect(&mut *pair.far, 8, &mut arrived) == 1
        });
        pair.far.steer(&SteerChange::Remove(Match::Any)).unwrap();
        socket.send_to(b"for the kernel", to).unwrap();
        until("the program counts it", || {
            pair.far.counters().passed_to_kernel_packets == 3
        });
    });
}

#[test]
fn packet_memory_of_a_usual_node_is_small() {
    // In a separate process: resources of concurrent tests do not belong to this node.
    if std::env::var_os(ALONE).is_none() {
        let name = "af_xdp::packet_memory_of_a_usual_node_is_small";
        run_with_env(
            &std::env::current_exe().unwrap().display().to_string(),
            &["--exact", name],
            ALONE,
        );
        return;
    }
    in_new_namespace(|| {
        veth_pair(2);
        let config = [af_xdp("near0", 0, 2048), af_xdp("far0", 0, 2048)];
        let memory = LaneMemory::for_lane(&config, 0).unwrap();
        assert_eq!(memory.planned_bytes(), 28 << 20);
        let before = resident_bytes();
        let ports = open_lane(&config).unwrap();
        let grown = resident_bytes().saturating_sub(before);
        // Beside the packet memory: the loader's scattered leavings.
        assert!(grown < 40 << 20, "{} KiB", grown >> 10);
        drop(ports);
    });
}

/// Set in a process that runs one test only.
const ALONE: &str = "COVALENT_TEST_ALONE";

/// Memory private to this process. Pages of the program's file are not counted, because the kernel
/// maps them ahead as it likes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .unwrap()
    };
    (kib("RssAnon:") + kib("RssShmem:")) << 10
}
