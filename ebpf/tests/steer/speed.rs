//! What a frame costs, for whoever wants to know: `cargo test -p covalent-ebpf -- --ignored --nocapture nanoseconds`.

use std::os::fd::AsFd;

use covalent_ebpf::{Action, Key, Steering};

use crate::{
    require_root,
    support::{
        frames::{UDP, ethernet, extension, ports, udp, v6},
        test_run::{How, test_run},
    },
};

const FRAMES: u32 = 2_000_000;

#[test]
#[ignore = "a measurement, not a check"]
fn nanoseconds_per_frame() {
    require_root!();
    let mut steering = Steering::load().unwrap();
    steering.set_link_ethertype(0x88b5).unwrap();
    let (src, dst) = (
        "2001:db8::1".parse().unwrap(),
        "2001:db8::2".parse().unwrap(),
    );
    let chain = vec![extension(60, 1); 8];
    let cases = [
        ("link frame", ethernet(&[], 0x88b5, &[0; 64]), None),
        ("ARP, no rule", ethernet(&[], 0x0806, &[0; 46]), None),
        (
            "UDP over IPv4, no rule",
            udp("10.1.0.1", 1000, "10.2.0.2", 2000),
            None,
        ),
        (
            "UDP over IPv6, no rule",
            udp("2001:db8::1", 1000, "2001:db8::2", 2000),
            None,
        ),
        (
            "the same behind 8 extension headers",
            ethernet(
                &[],
                0x86dd,
                &v6(src, dst, &chain, UDP, &ports(1000, 2000, &[0; 12])),
            ),
            None,
        ),
        (
            "UDP over IPv4, five-tuple rule",
            udp("10.1.0.1", 1000, "10.2.0.3", 2000),
            Some(Key::FiveTuple {
                proto: UDP,
                src: "10.1.0.1".parse().unwrap(),
                src_port: 1000,
                dst: "10.2.0.3".parse().unwrap(),
                dst_port: 2000,
            }),
        ),
    ];
    for (name, frame, key) in &cases {
        if let Some(key) = key {
            steering.insert(key, Action::Kernel).unwrap();
        }
        let how = How {
            repeat: FRAMES,
            ..How::default()
        };
        let best = (0..5)
            .map(|_| test_run(steering.as_fd(), frame, how).unwrap().1)
            .min()
            .unwrap();
        println!("{name}: {best} ns");
    }
}
