//! Frames that match no rule and no pipe, and frames that a rule drops: on each kind of port, as
//! configured.

use std::{fs, path::Path};

use covalent_api::{
    rule::{Match, Spread},
    status::PortStatus,
};
use covalent_config::PortKind;
use pcap_file::pcap::{PcapPacket, PcapWriter};

use super::{
    af_xdp,
    client::App,
    flows::{Taker, to_port, udp},
    namespace::with_veth,
    node::{Node, eventually},
};

const ACTIONS: [&str; 3] = ["kernel", "dataplane", "drop"];

/// Destinations of frames that no application has bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    passed_to_kernel: u64,
    no_pipe: u64,
    steered_to_kernel: u64,
    steered_to_drop: u64,
}

impl Ends {
    const NONE: Self = Self {
        passed_to_kernel: 0,
        no_pipe: 0,
        steered_to_kernel: 0,
        steered_to_drop: 0,
    };

    fn of(port: &PortStatus) -> Self {
        Self {
            passed_to_kernel: port.passed_to_kernel_packets,
            no_pipe: port.drops["no_pipe"],
            steered_to_kernel: port.drops["steered_to_kernel"],
            steered_to_drop: port.drops["steered_to_drop"],
        }
    }
}

/// Returns a `[dataplane]` section with this action on a miss, and a rule that drops frames to port
/// 9.
fn policy(miss: &str) -> String {
    format!(
        "miss = \"{miss}\"\n[[steer]]\nmatch = \"port\"\ntransport = \"udp\"\ndst_port = 9\naction \
         = \"drop\"\n"
    )
}

/// Sends `frames` misses, `frames` frames that the rule drops, and `frames` frames that a fallback
/// set takes while it exists.
fn send_each(a: &Node, b: &Node, port: &str, frames: u64) {
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx(port);
    for number in 0..frames {
        sender.send(pipe, &mut tx, &udp(1, 7000, number));
        sender.send(pipe, &mut tx, &udp(1, 9, number));
    }
    let settled = |expected: u64| {
        eventually("each frame has its end", || {
            let ends = Ends::of(&b.status().ports[0]);
            ends.passed_to_kernel + ends.no_pipe + ends.steered_to_kernel + ends.steered_to_drop
                == expected
        });
    };
    settled(2 * frames);
    // A set that is bound to the rest leaves no misses, whatever the action on a miss. The rule
    // still drops.
    let mut app = App::attach(&b.config.socket_path());
    let mut takers = [0, 1].map(|_| Taker::new(&mut app, None));
    for taker in &takers {
        app.share(taker.pipe, Match::Any, Spread::RoundRobin);
    }
    for number in 0..frames {
        sender.send(pipe, &mut tx, &udp(1, 7000, number));
        sender.send(pipe, &mut tx, &udp(1, 9, number));
    }
    let mut came = [0; 2];
    eventually("the set has them", || {
        for (taker, came) in takers.iter_mut().zip(&mut came) {
            *came += taker.take(&mut app, |_| {});
        }
        came == [frames / 2; 2]
    });
    settled(3 * frames);
    // The set ends with its last pipe, and a miss is handled as before.
    drop(app);
    eventually("the set is removed", || b.status().sessions == 0);
    for number in 0..frames {
        sender.send(pipe, &mut tx, &udp(1, 7000, number));
    }
    settled(4 * frames);
}

#[test]
fn on_a_cable_a_miss_is_counted_as_configured() {
    for miss in ACTIONS {
        let dir = tempfile::tempdir().expect("a directory");
        let a = Node::new(dir.path(), "a", &["p0"], "").start();
        let more = format!("[dataplane]\n{}", policy(miss));
        let b = Node::new(dir.path(), "b", &["p0"], &more).start();
        af_xdp::await_link(&b, "up");
        send_each(&a, &b, "p0", 10);
        let ends = Ends::of(&b.status().ports[0]);
        let expected = match miss {
            "drop" => Ends {
                steered_to_drop: 40,
                ..Ends::NONE
            },
            _ => Ends {
                no_pipe: 20,
                steered_to_drop: 20,
                ..Ends::NONE
            },
        };
        assert_eq!(ends, expected, "{miss}");
    }
}

#[test]
fn a_miss_over_af_xdp_follows_the_configured_action() {
    with_veth(|| {
        for miss in ACTIONS {
            let dir = tempfile::tempdir().expect("a directory");
            let a = af_xdp::configured(dir.path(), "a", "near0", "");
            let b = af_xdp::configured(dir.path(), "b", "far0", &policy(miss));
            af_xdp::await_link(&b, "up");
            send_each(&a, &b, "x0", 10);
            let port = b.status().ports[0].clone();
            let by_rule = Ends {
                steered_to_drop: 20,
                ..Ends::NONE
            };
            let expected = match miss {
                "kernel" => Ends {
                    passed_to_kernel: 20,
                    ..by_rule
                },
                "dataplane" => Ends {
                    no_pipe: 20,
                    ..by_rule
                },
                _ => Ends {
                    steered_to_drop: 40,
                    ..Ends::NONE
                },
            };
            assert_eq!(Ends::of(&port), expected, "{miss}");
        }
    });
}

fn capture(path: &Path) {
    let file = fs::File::create(path).expect("own directory");
    let mut writer = PcapWriter::new(file).expect("a capture");
    for number in 0..10 {
        for frame in [udp(1, 7000, number), udp(1, 9, number), udp(1, 7, number)] {
            let length = frame.len() as u32;
            let packet = PcapPacket::new(std::time::Duration::ZERO, length, &frame);
            writer.write_packet(&packet).expect("room");
        }
    }
}

#[test]
fn from_a_capture_a_miss_is_counted_as_configured() {
    let dir = tempfile::tempdir().expect("a directory");
    let input = dir.path().join("in.pcap");
    capture(&input);
    for miss in ACTIONS {
        let place = tempfile::tempdir().expect("a directory");
        let mut node = Node::new(
            place.path(),
            "a",
            &["p0"],
            &format!(
                "[dataplane]\n{}\
            [[steer]]\nmatch = \"port\"\ntransport = \"udp\"\ndst_port = 7\naction = \"kernel\"\n",
                policy(miss)
            ),
        );
        node.config.port[0].link = false;
        node.config.port[0].kind = PortKind::Pcap {
            input: Some(input.clone()),
            output: None,
        };
        node.config.check().expect("a valid configuration");
        let node = node.start();
        eventually("the capture is read", || {
            node.status().ports[0].rx_packets == 30
        });
        let by_rules = Ends {
            steered_to_drop: 10,
            steered_to_kernel: 10,
            ..Ends::NONE
        };
        let expected = match miss {
            "drop" => Ends {
                steered_to_drop: 20,
                ..by_rules
            },
            _ => Ends {
                no_pipe: 10,
                ..by_rules
            },
        };
        assert_eq!(Ends::of(&node.status().ports[0]), expected, "{miss}");
    }
}

#[test]
fn a_removed_binding_restores_the_action_on_a_miss() {
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let a = af_xdp::configured(dir.path(), "a", "near0", "");
        let b = af_xdp::configured(dir.path(), "b", "far0", "miss = \"drop\"");
        af_xdp::await_link(&b, "up");
        let mut sender = App::attach(&a.config.socket_path());
        let (pipe, mut tx) = sender.tx("x0");
        let mut app = App::attach(&b.config.socket_path());
        let (rx_pipe, mut rx) = app.rx(None);
        for round in 1..=3 {
            app.bind(rx_pipe, to_port(7000));
            sender.send(pipe, &mut tx, &udp(1, 7000, round));
            assert_eq!(app.receive(rx_pipe, &mut rx, 1), [udp(1, 7000, round)]);
            app.unbind(rx_pipe, to_port(7000));
            sender.send(pipe, &mut tx, &udp(1, 7000, round));
            eventually("it is dropped", || {
                b.status().ports[0].drops["steered_to_drop"] == round
            });
        }
        // The frame never came up to the lane.
        assert_eq!(b.status().ports[0].drops["no_pipe"], 0);
        assert_eq!(b.status().ports[0].passed_to_kernel_packets, 0);
    });
}
