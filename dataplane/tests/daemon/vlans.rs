//! Pipes bound to a VLAN.

use covalent_api::rule::Match;

use super::{
    af_xdp,
    client::App,
    flows::{to_port, udp},
    namespace::with_veth,
    node::{Node, eventually, pair},
    streams::numbered,
};

/// `frame` behind a tag of this type and control information.
fn tagged(frame: &[u8], tag: u16, control: u16) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend(tag.to_be_bytes());
    tagged.extend(control.to_be_bytes());
    tagged.extend(&frame[12..]);
    tagged
}

/// VLAN 7 has a pipe, port 53 another one, EtherType 0x1234 a third: each frame goes where the
/// precedence directs, with its tag.
fn check_vlan_has_its_pipe(a: &Node, b: &Node, port: &str) {
    let mut app = App::attach(&b.config.socket_path());
    let (vlan_pipe, mut vlan) = app.rx(None);
    let (udp_pipe, mut dns) = app.rx(None);
    let (type_pipe, mut by_type) = app.rx(None);
    app.bind(vlan_pipe, Match::Vlan { vlan: 7 });
    app.bind(udp_pipe, to_port(53));
    app.bind(type_pipe, Match::EtherType { ethertype: 0x1234 });
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx(port);
    let other = udp(1, 7000, 1);
    let typed = numbered(3, 60);
    let of_vlan = [
        tagged(&other, 0x8100, 7),
        tagged(&other, 0x88a8, 0x6007),
        tagged(&tagged(&other, 0x8100, 9), 0x88a8, 7),
        tagged(&typed, 0x8100, 7),
        tagged(&numbered(4, 1400), 0x8100, 7),
    ];
    let of_port = [udp(1, 53, 2), tagged(&udp(1, 53, 3), 0x8100, 7)];
    let of_type = [typed.clone(), tagged(&typed, 0x8100, 8)];
    let before = b.status().ports[0].clone();
    for frame in of_vlan.iter().chain(&of_port).chain(&of_type) {
        sender.send(pipe, &mut tx, frame);
    }
    let same = |received: Vec<Vec<u8>>, sent: &[Vec<u8>]| {
        assert_eq!(received.len(), sent.len());
        for (got, sent) in received.iter().zip(sent) {
            // The kernel may pad short frames; nothing else may change, and the tag is there.
            assert!(got.starts_with(sent), "{got:02x?} is not {sent:02x?}");
        }
    };
    same(app.receive(vlan_pipe, &mut vlan, 5), &of_vlan);
    same(app.receive(udp_pipe, &mut dns, 2), &of_port);
    same(app.receive(type_pipe, &mut by_type, 2), &of_type);
    // Another VLAN, no VLAN, and an id in the inner tag only match no pipe.
    app.unbind(type_pipe, Match::EtherType { ethertype: 0x1234 });
    for frame in [
        tagged(&other, 0x8100, 8),
        other.clone(),
        tagged(&tagged(&other, 0x8100, 7), 0x88a8, 9),
    ] {
        sender.send(pipe, &mut tx, &frame);
    }
    eventually("they belong to no pipe", || {
        let after = b.status().ports[0].clone();
        after.drops["no_pipe"] + after.passed_to_kernel_packets
            == before.drops["no_pipe"] + before.passed_to_kernel_packets + 3
    });
    assert!(vlan.recv().is_none());
    // Without its binding so is the VLAN.
    app.unbind(vlan_pipe, Match::Vlan { vlan: 7 });
    sender.send(pipe, &mut tx, &of_vlan[0]);
    eventually("it belongs to no pipe", || {
        let after = b.status().ports[0].clone();
        after.drops["no_pipe"] + after.passed_to_kernel_packets
            == before.drops["no_pipe"] + before.passed_to_kernel_packets + 4
    });
}

#[test]
fn a_vlan_has_its_pipe_over_a_cable() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    check_vlan_has_its_pipe(&a, &b, "p0");
}

#[test]
fn a_vlan_has_its_pipe_over_af_xdp() {
    with_veth(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (a, b) = af_xdp::pair(dir.path());
        check_vlan_has_its_pipe(&a, &b, "x0");
    });
}
