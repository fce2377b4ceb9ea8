//! Measures the cost of a frame. Run it with `cargo test -p covalent-ebpf --test steer -- --ignored
//! --nocapture nanoseconds`.

use std::os::fd::AsFd;

use covalent_ebpf::{Action, FIVE_TUPLES_MAX, Key, Steering};

use crate::{
    require_root,
    support::{
        frames::{UDP, ethernet, extension, ports, udp, v4_address, v6},
        test_run::{How, test_run},
    },
};

const FRAMES: u32 = 1_000_000;
const TRIES: usize = 7;

/// Prints the fastest of several runs: other load on the machine only adds time.
fn measure(name: &str, frame: &[u8], rules: &[Key]) {
    let mut steering = Steering::load().unwrap();
    steering.set_link_ethertype(0x88b5).unwrap();
    for key in rules {
        steering.insert(key, Action::Kernel).unwrap();
    }
    let how = How {
        repeat: FRAMES,
        ..How::default()
    };
    let runs = (0..TRIES).map(|_| test_run(steering.as_fd(), frame, how).unwrap().1);
    println!("{:>4} ns  {name}", runs.min().unwrap());
}

#[test]
#[ignore = "a measurement, not a check"]
fn nanoseconds_per_frame() {
    require_root!();
    let v4 = udp("10.1.0.1", 1000, "10.2.0.2", 2000);
    let v6_src = "2001:db8::1".parse().unwrap();
    let v6_dst = "2001:db8::2".parse().unwrap();
    let chain = vec![extension(60, 1); 8];
    let long = v6(v6_src, v6_dst, &chain, UDP, &ports(1000, 2000, &[0; 12]));
    measure("link frame", &ethernet(&[], 0x88b5, &[0; 64]), &[]);
    measure("ARP, no rules", &ethernet(&[], 0x0806, &[0; 46]), &[]);
    measure("UDP over IPv4, no rules", &v4, &[]);
    measure(
        "UDP over IPv6, no rules",
        &udp("2001:db8::1", 1000, "2001:db8::2", 2000),
        &[],
    );
    measure(
        "the same behind 8 extension headers",
        &ethernet(&[], 0x86dd, &long),
        &[],
    );

    let arp = ethernet(&[0x8100], 0x0806, &[0; 46]);
    measure("ARP in a VLAN, its VLAN rule", &arp, &[Key::Vlan(1)]);

    let (src, dst) = ("10.1.0.1".parse().unwrap(), "10.2.0.2".parse().unwrap());
    let tuple = |src_port, dst| Key::FiveTuple {
        proto: UDP,
        src,
        src_port,
        dst,
        dst_port: 2000,
    };
    measure(
        "UDP over IPv4, its port rule",
        &v4,
        &[Key::Port {
            proto: UDP,
            dst_port: 2000,
        }],
    );
    measure(
        "UDP over IPv4, its prefix rule",
        &v4,
        &[Key::Prefix { dst, len: 16 }],
    );
    measure(
        "UDP over IPv4, its five-tuple rule",
        &v4,
        &[tuple(1000, dst)],
    );
    let mut full: Vec<Key> = (1..FIVE_TUPLES_MAX)
        .map(|number| tuple(1001, v4_address(number).into()))
        .collect();
    full.push(tuple(1000, dst));
    measure(
        "UDP over IPv4, its five-tuple rule among 16,384",
        &v4,
        &full,
    );
    let near_misses = [
        tuple(1001, dst),
        Key::Destination {
            proto: UDP,
            dst,
            dst_port: 2001,
        },
        Key::Port {
            proto: UDP,
            dst_port: 2001,
        },
        Key::Prefix { dst, len: 32 },
        Key::Prefix {
            dst: "11.0.0.0".parse().unwrap(),
            len: 8,
        },
        Key::Vlan(2),
        Key::EtherType(0x0806),
    ];
    measure(
        "UDP over IPv4, rules of every kind, matched by a prefix",
        &v4,
        &near_misses,
    );
    let near_misses: Vec<Key> = near_misses
        .into_iter()
        .filter(|key| *key != Key::Prefix { dst, len: 32 })
        .collect();
    measure(
        "UDP over IPv4, rules of every kind and none matches",
        &v4,
        &near_misses,
    );
}
