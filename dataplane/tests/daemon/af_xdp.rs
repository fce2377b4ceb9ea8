//! The daemon on AF_XDP sockets over a virtual cable: behavior that only appears with a kernel
//! below.

use std::{
    net::{Ipv4Addr, UdpSocket},
    path::Path,
    process::Command,
    time::Duration,
};

use covalent_api::{
    event::EventKind,
    request::{Reply, Request},
    rule::{Match, Transport},
};
use covalent_config::Config;
use covalent_dataplane::Daemon;
use covalent_protocol::{Mode, verb::Verb};

use super::{
    client::{App, Client, Verbs},
    command::Running,
    namespace::{ip, with_veth},
    node::{Node, eventually},
    streams::{lengths, numbered},
};

/// Returns a node whose port `x0` is `interface`.
fn node(dir: &Path, name: &str, interface: &str) -> Node {
    configured(dir, name, interface, "")
}

/// As [`node`], with more text in `[dataplane]`, and behind it other tables.
pub fn configured(dir: &Path, name: &str, interface: &str, more: &str) -> Node {
    with_rings(dir, name, interface, more, 1024)
}

fn with_rings(dir: &Path, name: &str, interface: &str, more: &str, ring_slots: u32) -> Node {
    let text = format!(
        "[node]\nname = \"{name}\"\nruntime_dir = \"{0}/{name}\"\nstate_dir \
         = \"{0}/{name}-state\"\n\
         [dataplane]\nhuge_pages = \"never\"\n{more}\n[link]\nidle_tick_ms = 20\n\
         [[port]]\nname = \"x0\"\nkind = \"af_xdp\"\ninterface = \"{interface}\"\nring_slots = \
         {ring_slots}\n",
        dir.display()
    );
    Node {
        config: Config::parse(&text, "test").expect("a valid configuration"),
        daemon: None,
    }
    .start()
}

pub fn pair(dir: &Path) -> (Node, Node) {
    let (a, b) = (node(dir, "a", "near0"), node(dir, "b", "far0"));
    for node in [&a, &b] {
        await_link(node, "up");
    }
    (a, b)
}

pub fn await_link(node: &Node, state: &str) {
    let mut client = node.client();
    eventually(&format!("the link is {state}"), || {
        client.status().links[0].state == state
    });
}

/// Waits for the next event that `wanted` accepts.
fn await_event(client: &mut Client, wanted: impl Fn(&EventKind) -> bool) {
    loop {
        match client.receive() {
            Some((Reply::Event(event), _)) if wanted(&event.kind) => return,
            Some(_) => {}
            None => panic!("the daemon closed the connection"),
        }
    }
}

#[test]
fn streams_and_verbs_cross_and_survive_an_interface_that_goes_down() {
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (a, b) = pair(dir.path());
        let mut receiver = App::attach(&b.config.socket_path());
        let (rx_pipe, mut rx) = receiver.rx(None);
        receiver.bind(rx_pipe, Match::EtherType { ethertype: 0x1234 });
        let (rkey, memory) = receiver.register("bank", 64);
        let mut sender = App::attach(&a.config.socket_path());
        let (pipe, mut tx) = sender.tx("x0");
        let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
        let mut control = a.client();
        control.done(&Request::Subscribe);
        for round in 0..3 {
            let frames: Vec<_> = (0..500)
                .zip(lengths())
                .map(|(number, length)| numbered(number, length))
                .collect();
            for window in frames.chunks(100) {
                for frame in window {
                    sender.send(pipe, &mut tx, frame);
                }
                let received = receiver.receive(rx_pipe, &mut rx, window.len());
                // The kernel may pad short frames; nothing else may change.
                assert!(
                    received
                        .iter()
                        .zip(window)
                        .all(|(got, sent)| got.starts_with(sent)),
                    "a frame was changed"
                );
            }
            for count in 0..100 {
                let old = verbs.run(
                    b.guid(),
                    Mode::TwoPhase,
                    rkey,
                    0,
                    Verb::FetchAdd { delta: 1 },
                );
                assert_eq!(old.word(), round * 100 + count);
            }
            ip("link set near0 down");
            await_event(&mut control, |event| {
                matches!(event, EventKind::Carrier { up: false, .. })
            });
            await_link(&a, "down");
            ip("link set near0 up");
            await_link(&a, "up");
            await_link(&b, "up");
        }
        assert_eq!(memory.load(0), Some(300));
        let status = a.status();
        assert_eq!(status.ports[0].mode.xdp, "native");
        // A node that sends before the carrier report arrives detects the loss by the failed send.
        let failures = &status.links[0].failures;
        let reported = failures["carrier_lost"] + failures["transmit_failed"];
        assert!(reported >= 3, "{failures:?}");
    });
}

/// An application has far more frames outstanding than the rings hold. No link loses a frame. Each
/// lost frame of the application is counted at the pipe or at the sender's port.
#[test]
fn bursts_of_an_application_hurt_no_link_and_no_loss_goes_uncounted() {
    const BURST: usize = 4096;
    const BURSTS: usize = 10;
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let node = |name, interface| with_rings(dir.path(), name, interface, "", 64);
        let (a, b) = (node("a", "near0"), node("b", "far0"));
        for node in [&a, &b] {
            await_link(node, "up");
        }
        let mut receiver = App::attach(&b.config.socket_path());
        let (rx_pipe, mut rx) = receiver.rx(None);
        receiver.bind(rx_pipe, Match::EtherType { ethertype: 0x1234 });
        let (rkey, memory) = receiver.register("bank", 64);
        let mut sender = App::attach(&a.config.socket_path());
        let (pipe, mut tx) = sender.tx("x0");
        let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
        let (mut sent, mut received) = (0, 0);
        for burst in 0..BURSTS {
            for number in 0..BURST {
                sender.send(pipe, &mut tx, &numbered(number as u32, 64));
                sent += 1;
                if number % 512 == 0 {
                    let add = Verb::FetchAdd { delta: 1 };
                    verbs.run(b.guid(), Mode::TwoPhase, rkey, 0, add);
                }
            }
            let mut reported = String::new();
            eventually("each frame has arrived or is counted", || {
                while let Some(batch) = rx.recv() {
                    received += batch.iter().count() as u64;
                    if batch.free_all() {
                        receiver.ring(rx_pipe);
                    }
                }
                let (here, there) = (b.status(), a.status());
                let pipe = here
                    .pipes
                    .iter()
                    .find(|it| it.pipe == rx_pipe && it.rx_packets > 0);
                let lost = pipe.map_or(0, |pipe| pipe.port_lost_packets);
                assert!(
                    rx.counters().port_lost >= lost,
                    "the application sees it too"
                );
                let unsent = there.ports[0].drops["tx_dropped_by_device"];
                reported = format!(
                    "burst {burst}: {sent} sent, {received} received, {lost} lost, {unsent} not \
                     sent"
                );
                assert!(received + lost <= sent, "{reported}");
                received + lost + unsent >= sent
            });
            eprintln!("{reported}");
        }
        assert_eq!(memory.load(0), Some((BURSTS * BURST / 512) as u64));
        let reported = [&a, &b].map(|node| node.status());
        // A debug build on a busy machine may be silent for too long; then both ends begin anew.
        let silent = reported
            .each_ref()
            .map(|it| it.links[0].failures["peer_silent"]);
        let is_silent = silent.iter().any(|&count| count > 0);
        for status in reported {
            let failures = &status.links[0].failures;
            eprintln!("{}: failures of the link: {failures:?}", status.node);
            for (reason, &count) in failures {
                let is_of_silence = ["peer_silent", "peer_reinitialized"].contains(&&reason[..]);
                assert!(count == 0 || is_silent && is_of_silence, "{failures:?}");
            }
            assert_eq!(status.ports[0].drops["link_rx_ring_full"], 0);
        }
    });
}

/// Covers any program that the process embedding the daemon starts.
#[test]
fn a_program_that_is_started_beside_a_daemon_does_not_keep_its_queues() {
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let nodes = pair(dir.path());
        let sleeper = Command::new("sleep").arg("600").spawn();
        let _sleeper = Running(sleeper.expect("it is there"));
        drop(nodes);
        pair(dir.path());
    });
}

#[test]
fn only_bound_frames_are_taken_from_the_kernel_while_bound() {
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (a, b) = pair(dir.path());
        ip("addr add 10.9.0.2/24 dev far0");
        ip("neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev far0");
        let kernel = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 7000)).expect("a socket");
        kernel
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a timeout");
        let mac: [u8; 6] = nix::ifaddrs::getifaddrs()
            .expect("interfaces")
            .filter(|found| found.interface_name == "far0")
            .find_map(|found| found.address?.as_link_addr()?.addr())
            .expect("far0 has an address");
        let frame = |text: &[u8]| {
            let mut frame = Vec::new();
            etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], mac)
                .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 9)
                .udp(9, 7000)
                .write(&mut frame, text)
                .expect("memory");
            frame
        };
        let mut sender = App::attach(&a.config.socket_path());
        let (pipe, mut tx) = sender.tx("x0");
        let mut buffer = [0; 64];
        let mut check_received = |app: &mut App, tx: &mut _, text: &[u8]| {
            app.send(pipe, tx, &frame(text));
            let length = kernel
                .recv(&mut buffer)
                .expect("the kernel's socket receives it");
            assert_eq!(&buffer[..length], text);
        };
        check_received(&mut sender, &mut tx, b"before");
        let mut receiver = App::attach(&b.config.socket_path());
        let (rx_pipe, mut rx) = receiver.rx(None);
        let matches = Match::Port {
            transport: Transport::Udp,
            dst_port: 7000,
        };
        receiver.bind(rx_pipe, matches.clone());
        sender.send(pipe, &mut tx, &frame(b"while"));
        let received = receiver.receive(rx_pipe, &mut rx, 1);
        assert!(received[0].starts_with(&frame(b"while")));
        receiver.client.done(&Request::Unbind {
            pipe: rx_pipe,
            matches: matches.clone(),
        });
        check_received(&mut sender, &mut tx, b"after");
        // An application that goes without a word gives its frames back too.
        receiver.bind(rx_pipe, matches);
        drop(receiver);
        eventually("the binding is removed", || b.status().sessions == 0);
        check_received(&mut sender, &mut tx, b"at last");
        assert!(b.status().ports[0].passed_to_kernel_packets >= 3);
    });
}

#[test]
fn a_removed_interface_is_an_event_and_the_daemon_continues() {
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (a, b) = pair(dir.path());
        let mut control = b.client();
        control.done(&Request::Subscribe);
        ip("link del near0");
        await_event(&mut control, |event| {
            matches!(event, EventKind::Carrier { up: false, .. })
        });
        for node in [&a, &b] {
            await_link(node, "down");
            assert!(!node.status().ports[0].carrier);
        }
        let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
        assert!(
            verbs.post(
                b.guid(),
                Mode::OnePhase,
                1,
                1,
                0,
                Verb::FetchAdd { delta: 1 }
            ),
            "verbs wait"
        );
    });
}

/// No port, no address, no neighbor is configured; the second node is called as its host.
#[test]
fn a_name_and_an_interface_are_all_that_two_nodes_need() {
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let node = |place: &str, name: &str, interface: &str| {
            // The writable directories are not under test.
            let text = format!(
                "[node]\n{name}interfaces = [\"{interface}\"]\nruntime_dir \
                 = \"{0}/{place}\"\nstate_dir = \"{0}/{place}-state\"\n",
                dir.path().display()
            );
            let config = Config::parse(&text, "test").expect("a valid configuration");
            let daemon = None;
            Node { config, daemon }.start()
        };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("procfs");
        // A host whose name is not a valid node name needs a configured one.
        let unnamed = match covalent_api::name::check(host.trim()) {
            Ok(()) => String::new(),
            Err(_) => "name = \"b\"\n".to_owned(),
        };
        let a = node("a", "name = \"a\"\n", "near0");
        let b = node("b", &unnamed, "far0");
        for (node, port) in [(&a, "near0"), (&b, "far0")] {
            await_link(node, "up");
            assert_eq!(node.status().ports[0].name, port);
            assert_eq!(node.guid() & 0xff, 0);
        }
        let link = a.status().links[0].clone();
        assert_eq!(link.peer_name.as_deref(), Some(&b.config.node.name[..]));
        assert_eq!(b.status().links[0].peer_name.as_deref(), Some("a"));
        let mut owner = App::attach(&b.config.socket_path());
        let (rkey, _memory) = owner.register("bank", 64);
        let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
        let add = Verb::FetchAdd { delta: 1 };
        let ended = verbs.run(b.guid(), Mode::TwoPhase, rkey, 0, add);
        assert_eq!(ended.word(), 0);
    });
}

#[test]
fn two_daemons_on_one_interface_are_refused_with_the_name_of_the_program() {
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let _first = node(dir.path(), "a", "near0");
        let mut config = node(dir.path(), "b", "far0").config;
        config.node.runtime_dir = dir.path().join("c");
        config.node.state_dir = dir.path().join("c-state");
        let covalent_config::PortKind::AfXdp { interface, .. } = &mut config.port[0].kind else {
            panic!("af_xdp")
        };
        *interface = "near0".to_owned();
        let error = Daemon::start(config).expect_err("taken").to_string();
        assert!(
            error.contains("near0") && error.contains("steer"),
            "{error}"
        );
        assert!(
            !dir.path().join("c/covalentd.sock").exists(),
            "nothing is left behind"
        );
    });
}

#[test]
fn an_idle_lane_on_af_xdp_sleeps() {
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (a, b) = pair(dir.path());
        let cpu = || [&a, &b].map(|node| node.status().lanes[0].cpu_ns);
        let before = cpu();
        std::thread::sleep(Duration::from_secs(1));
        for (before, after) in before.into_iter().zip(cpu()) {
            let share = (after - before) as f64 / 1e9;
            eprintln!(
                "a resting lane on AF_XDP took {:.2} % of a core",
                share * 100.0
            );
            assert!(
                share < 0.10,
                "a resting lane took {:.1} % of a core",
                share * 100.0
            );
        }
    });
}

/// The interface of a running node is removed: no process stops, and subscribers are notified.
#[test]
fn a_port_whose_interface_is_removed_is_absent() {
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (a, b) = pair(dir.path());
        let mut app = App::attach(&a.config.socket_path());
        let (rx_pipe, _rx) = app.rx(None);
        let before = a.status().ports.remove(0);
        assert!(before.rx_packets > 0 && before.absent.is_none());
        let mut control = a.client();
        control.done(&Request::Subscribe);
        ip("link del near0");
        await_event(&mut control, |event| {
            matches!(
                event,
                EventKind::PortAbsent { port, reason } if port == "x0" && reason.contains(
                    "`near0` was removed",
                ),
            )
        });
        let after = a.status().ports.remove(0);
        assert!(after.absent.is_some_and(|reason| reason.contains("near0")));
        assert!(!after.carrier);
        assert!(after.rx_packets >= before.rx_packets, "no count goes back");
        assert_eq!(after.number, before.number);
        await_link(&a, "down");
        // A binding is accepted, because the port may come back. Earlier bindings can be removed.
        app.bind(rx_pipe, Match::EtherType { ethertype: 0x1234 });
        app.unbind(rx_pipe, Match::EtherType { ethertype: 0x1234 });
        let refused = a.client().refused(&Request::SetPort {
            port: "x0".to_owned(),
            enabled: true,
        });
        assert!(refused.contains("near0"), "{refused}");
        drop(b);
    });
}
