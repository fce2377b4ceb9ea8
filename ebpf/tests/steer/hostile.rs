//! Damaged frames: for any bytes, the program's verdict equals the oracle's.

use std::net::Ipv6Addr;

use covalent_ebpf::{Action, Key};
use proptest::{collection::vec, prelude::*, sample, test_runner::TestRunner};

use crate::{
    require_root,
    support::{
        frames::{TCP, UDP, V4, authentication, ethernet, extension, fragment, ports, v6},
        world::World,
    },
};

/// A valid frame of each shape that the program distinguishes.
fn shape() -> impl Strategy<Value = Vec<u8>> {
    let tags = vec(sample::select(vec![0x8100, 0x88a8, 0x9100, 0x0800]), 0..4);
    let kind = sample::select(vec![0, 43, 44, 51, 60, 50, 59, 135]);
    let extensions = vec((kind, 1..4usize), 0..11).prop_map(|chain| {
        chain
            .into_iter()
            .map(|(kind, size)| match kind {
                44 => fragment(size as u16 - 1, size == 2),
                51 => authentication(size + 1),
                _ => extension(kind, size),
            })
            .collect::<Vec<_>>()
    });
    let packet = prop_oneof![
        (
            0..=10usize,
            sample::select(vec![0, 0, 0x4000, 0x2000, 0x2001, 7]),
            sample::select(vec![TCP, UDP, 1])
        )
            .prop_map(|(option_words, fragment, protocol)| {
                let packet = V4 {
                    option_words,
                    fragment,
                    protocol,
                    ..V4::default()
                };
                (0x0800, packet.packet(&ports(1000, 2000, &[7; 12])))
            }),
        (extensions, sample::select(vec![TCP, UDP, 58])).prop_map(|(chain, protocol)| {
            let (src, dst): (Ipv6Addr, Ipv6Addr) = (
                "2001:db8::1".parse().unwrap(),
                "2001:db8::2".parse().unwrap(),
            );
            (
                0x86dd,
                v6(src, dst, &chain, protocol, &ports(1000, 2000, &[7; 12])),
            )
        }),
        (any::<u16>(), vec(any::<u8>(), 0..80)),
    ];
    (tags, packet).prop_map(|(tags, (ethertype, packet))| ethernet(&tags, ethertype, &packet))
}

/// A frame of some shape with a few bytes changed and perhaps its end cut off, not under 14 bytes.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let changes = vec((any::<sample::Index>(), any::<u8>()), 0..4);
    let cut = proptest::option::of(any::<sample::Index>());
    (shape(), changes, cut).prop_map(|(mut frame, changes, cut)| {
        for (at, value) in changes {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        if let Some(cut) = cut {
            frame.truncate(14 + cut.index(frame.len() - 13));
        }
        frame
    })
}

#[test]
fn damaged_frames_meet_the_same_rule_in_the_kernel_and_in_the_oracle() {
    require_root!();
    let mut world = World::new();
    let v4 = V4::default();
    let v6_dst = "2001:db8::2".parse().unwrap();
    let (src, dst) = (v4.src.into(), v4.dst.into());
    world.insert(
        Key::FiveTuple {
            proto: UDP,
            src,
            src_port: 1000,
            dst,
            dst_port: 2000,
        },
        Action::Dataplane,
    );
    world.insert(
        Key::Destination {
            proto: TCP,
            dst,
            dst_port: 2000,
        },
        Action::Kernel,
    );
    world.insert(
        Key::Destination {
            proto: UDP,
            dst: v6_dst,
            dst_port: 2000,
        },
        Action::Dataplane,
    );
    world.insert(
        Key::Port {
            proto: TCP,
            dst_port: 2000,
        },
        Action::Kernel,
    );
    world.insert(Key::Prefix { dst, len: 24 }, Action::Kernel);
    world.insert(
        Key::Prefix {
            dst: v6_dst,
            len: 127,
        },
        Action::Kernel,
    );
    world.insert(Key::EtherType(0x0800), Action::Dataplane);
    // Tags of hand-made frames number their VLANs from 1.
    world.insert(Key::Vlan(1), Action::Drop);
    world.insert(Key::EtherType(0x8100), Action::Kernel);
    let config = ProptestConfig {
        cases: 30_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(&damaged(), |frame| {
            world.check(&frame);
            Ok(())
        })
        .unwrap();
    // The generator is worth something: every cause occurred.
    let counters = world.steering.counters().unwrap();
    for (cause, verdicts) in counters.by_cause() {
        let expected = !["link", "runt"].contains(&cause);
        let seen = verdicts.to_kernel + verdicts.to_dataplane + verdicts.dropped > 0;
        assert!(
            !expected || seen || ["five_tuple"].contains(&cause),
            "{cause} never occurred: {counters:?}"
        );
    }
    assert!(counters.no_socket > 0);
}
