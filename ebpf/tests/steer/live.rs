//! Frames on a wire: the right socket gets them byte for byte, and the kernel the rest.

use std::{
    net::{Ipv4Addr, UdpSocket},
    time::Duration,
};

use covalent_ebpf::{Action, AttachMode, EffectiveMode, Key, Steering};

use crate::{
    require_root,
    support::{
        frames::{UDP, V4, ethernet, ports},
        namespace::in_new_namespace,
        rtnetlink::{add_address, veth_pair},
        socket::Socket,
        test_run::{How, XDP_PASS, XDP_REDIRECT, test_run},
    },
};

const QUEUES: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

fn link_frame(queue: u32, number: u8) -> Vec<u8> {
    ethernet(
        &[],
        0x88b5,
        &[[queue as u8, number].as_slice(), &[0xc3; 62]].concat(),
    )
}

fn datagram(dst_port: u16, body: &[u8]) -> Vec<u8> {
    let src = Ipv4Addr::new(10, 9, 0, 1);
    let dst = Ipv4Addr::new(10, 9, 0, 2);
    ethernet(
        &[],
        0x0800,
        &V4 {
            src,
            dst,
            ..V4::default()
        }
        .packet(&ports(4_000, dst_port, body)),
    )
}

fn run(mode: AttachMode, effective: EffectiveMode, queues: u32) {
    in_new_namespace(|| {
        let pair = veth_pair(queues);
        add_address(pair.b, Ipv4Addr::new(10, 9, 0, 2));
        let kernel = UdpSocket::bind("10.9.0.2:7000").unwrap();
        kernel.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut steering = Steering::load().unwrap();
        assert_eq!(steering.attach(pair.b, "b", mode).unwrap(), effective);
        steering.set_link_ethertype(0x88b5).unwrap();
        steering
            .insert(
                &Key::Port {
                    proto: UDP,
                    dst_port: 7_001,
                },
                Action::Dataplane,
            )
            .unwrap();
        let mut receivers: Vec<Socket> =
            (0..queues).map(|queue| Socket::bind("b", queue)).collect();
        let mut senders: Vec<Socket> = (0..queues).map(|queue| Socket::bind("a", queue)).collect();
        for (queue, socket) in (0..).zip(&receivers) {
            steering.set_socket(queue, socket.fd()).unwrap();
        }
        let before = steering.counters().unwrap();
        for (queue, sender) in (0..queues).zip(&mut senders) {
            let ours: Vec<Vec<u8>> = (0..20)
                .map(|number| link_frame(queue, number))
                .chain([datagram(7_001, &[queue as u8; 40])])
                .collect();
            sender.send(&ours);
            sender.send(&[datagram(7_000, &[queue as u8; 40])]);
            // A queue's frames arrive on the socket of that queue, complete and in order.
            for frame in &ours {
                assert_eq!(
                    receivers[queue as usize].receive(PATIENCE).as_ref(),
                    Some(frame),
                    "queue {queue}"
                );
            }
            assert_eq!(receivers[queue as usize].receive(SHORT), None);
            let mut body = [0; 64];
            assert_eq!(kernel.recv(&mut body).unwrap(), 40);
            assert_eq!(body[0], queue as u8);
        }
        let counters = steering.counters().unwrap();
        assert_eq!(
            counters.link.to_dataplane - before.link.to_dataplane,
            20 * u64::from(queues)
        );
        assert_eq!(
            counters.port.to_dataplane - before.port.to_dataplane,
            u64::from(queues)
        );
        assert!(counters.default.to_kernel - before.default.to_kernel >= u64::from(queues));
        assert_eq!(counters.no_socket, 0);
        // The rule goes: so does the traffic, to the kernel.
        steering
            .remove(&Key::Port {
                proto: UDP,
                dst_port: 7_001,
            })
            .unwrap();
        let other = UdpSocket::bind("10.9.0.2:7001").unwrap();
        other.set_read_timeout(Some(PATIENCE)).unwrap();
        senders[0].send(&[datagram(7_001, &[9; 40])]);
        assert_eq!(other.recv(&mut [0; 64]).unwrap(), 40);
    });
}

#[test]
fn native_mode_redirects_every_queue_and_passes_other_frames() {
    require_root!();
    run(AttachMode::Native, EffectiveMode::Native, QUEUES);
}

/// One queue: in generic mode a veth's receive queue is not the queue that its peer sent from.
#[test]
fn generic_mode_does_the_same() {
    require_root!();
    run(AttachMode::Generic, EffectiveMode::Generic, 1);
}

/// Link frames go to their own socket and all other frames to the common one. Without a link
/// socket, both go to the common one.
#[test]
fn link_frames_go_to_a_socket_of_their_own_where_there_is_one() {
    require_root!();
    in_new_namespace(|| {
        let pair = veth_pair(2);
        let mut steering = Steering::load().unwrap();
        steering.attach(pair.b, "b", AttachMode::Native).unwrap();
        steering.set_link_ethertype(0x88b5).unwrap();
        steering.set_default(Action::Dataplane).unwrap();
        let (mut others, mut link) = Socket::bind_two("b", 1);
        steering.set_socket(1, others.fd()).unwrap();
        let mut sender = Socket::bind("a", 1);
        let both = [link_frame(1, 0), datagram(7_000, &[1; 40])];
        sender.send(&both);
        for frame in &both {
            assert_eq!(others.receive(PATIENCE).as_ref(), Some(frame));
        }
        steering.set_link_socket(1, link.fd()).unwrap();
        sender.send(&both);
        assert_eq!(link.receive(PATIENCE).as_ref(), Some(&both[0]));
        assert_eq!(others.receive(PATIENCE).as_ref(), Some(&both[1]));
        assert_eq!(link.receive(SHORT), None);
        let counters = steering.counters().unwrap();
        assert_eq!(counters.link.to_dataplane, 2);
        steering.clear_socket(1).unwrap();
        sender.send(&both);
        assert_eq!(link.receive(SHORT), None);
        assert_eq!(steering.counters().unwrap().no_socket, 2);
    });
}

#[test]
fn each_queue_redirects_to_its_own_socket() {
    require_root!();
    in_new_namespace(|| {
        use std::os::fd::AsFd;
        let pair = veth_pair(QUEUES);
        let mut steering = Steering::load().unwrap();
        steering.attach(pair.b, "b", AttachMode::Native).unwrap();
        steering.set_default(Action::Dataplane).unwrap();
        let socket = Socket::bind("b", 2);
        steering.set_socket(2, socket.fd()).unwrap();
        for queue in 0..QUEUES {
            let how = How {
                arrival: Some((pair.b, queue)),
                ..How::default()
            };
            let (verdict, _) = test_run(steering.as_fd(), &link_frame(queue, 0), how).unwrap();
            assert_eq!(
                verdict,
                if queue == 2 { XDP_REDIRECT } else { XDP_PASS },
                "queue {queue}"
            );
        }
        assert_eq!(steering.counters().unwrap().no_socket, 3);
    });
}
