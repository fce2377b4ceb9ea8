//! Tags on a wire: in the frame's bytes, or beside them.

use std::{
    net::{Ipv4Addr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use covalent_ebpf::{Action, AttachMode, Key, Steering};
use nix::sys::socket::{setsockopt, sockopt::BindToDevice};

use crate::{
    require_root,
    support::{
        frames::ethernet,
        namespace::in_new_namespace,
        rtnetlink::{add_address, veth_pair},
        socket::Socket,
        vlan_offload::{push_vlan, txvlan_off},
    },
};

const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

fn run(mode: AttachMode) {
    in_new_namespace(|| {
        let pair = veth_pair(1);
        add_address(pair.a, Ipv4Addr::new(10, 9, 0, 1));
        let mut steering = Steering::load().unwrap();
        steering.attach(pair.b, "b", mode).unwrap();
        steering.insert(&Key::Vlan(1), Action::Dataplane).unwrap();
        let mut receiver = Socket::bind("b", 0);
        steering.set_socket(0, receiver.fd()).unwrap();
        let mut sender = Socket::bind("a", 0);

        // Our sockets and raw sockets send frames with the tags in the bytes.
        let frame = ethernet(&[0x8100, 0x8100], 0x0806, &[0x5a; 46]);
        sender.send(std::slice::from_ref(&frame));
        assert_eq!(receiver.receive(PATIENCE), Some(frame));
        assert_eq!(steering.counters().unwrap().vlan.to_dataplane, 1);

        let talker = UdpSocket::bind("10.9.0.1:0").unwrap();
        talker.set_broadcast(true).unwrap();
        setsockopt(&talker, BindToDevice, &"a".into()).unwrap();
        let send_frame = || talker.send_to(&[0x5a; 40], "10.9.0.255:7000").unwrap();
        let _in_vlan = match push_vlan(pair.a, 1) {
            Ok(link) => link,
            Err(error) => {
                println!("not seen: a tag beside the frame, since this kernel makes none: {error}");
                return;
            }
        };
        // A VLAN device's frame leaves with its tag outside the bytes. A veth passes it on
        // unchanged, so the program sees no tag.
        let passed = || steering.counters().unwrap().default.to_kernel;
        let before = passed();
        send_frame();
        let deadline = Instant::now() + PATIENCE;
        while passed() == before {
            assert!(Instant::now() < deadline, "the frame arrives");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(receiver.receive(SHORT), None);
        assert_eq!(steering.counters().unwrap().vlan.to_dataplane, 1);
        // With the offload off, the sender inserts the tag into the bytes.
        txvlan_off("a");
        send_frame();
        let frame = receiver.receive(PATIENCE).expect("it is steered");
        assert_eq!(frame[12..18], [0x81, 0, 0, 1, 8, 0]);
        assert!(frame.ends_with(&[0x5a; 40]));
    });
}

#[test]
fn native_mode_sees_a_tag_in_the_frame_and_none_beside_it() {
    require_root!();
    run(AttachMode::Native);
}

#[test]
fn generic_mode_sees_a_tag_in_the_frame_and_none_beside_it() {
    require_root!();
    run(AttachMode::Generic);
}
