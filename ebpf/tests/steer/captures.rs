//! Every frame of real captures, many of which once crashed parsers. The program's verdict must
//! equal the oracle's.

use std::collections::{BTreeMap, BTreeSet};

use covalent_ebpf::{Action, Key};

use crate::{
    require_root,
    support::{
        capture_files,
        namespace::in_new_namespace,
        oracle::{Facts, outermost_vlan, read},
        rtnetlink::veth_pair,
        socket::Socket,
        test_run::FRAME_BYTES_MAX,
        world::World,
    },
};

/// Returns some rules of each kind, taken from the frames so that they match.
fn rules_of(frames: &[&[u8]]) -> Vec<Key> {
    let mut kinds: [BTreeSet<Key>; 6] = Default::default();
    kinds[5] = frames
        .iter()
        .filter_map(|frame| outermost_vlan(frame))
        .map(Key::Vlan)
        .collect();
    for facts in frames.iter().filter_map(|frame| read(frame)) {
        let Facts {
            ethertype,
            addresses,
            ports,
        } = facts;
        if let (Some((src, dst)), Some((proto, src_port, dst_port))) = (addresses, ports) {
            kinds[0].insert(Key::FiveTuple {
                proto,
                src,
                src_port,
                dst,
                dst_port,
            });
            kinds[1].insert(Key::Destination {
                proto,
                dst,
                dst_port,
            });
            kinds[2].insert(Key::Port { proto, dst_port });
        }
        if let Some((_, dst)) = addresses {
            let longest = if dst.is_ipv4() { 32 } else { 128 };
            for len in [longest / 4, longest / 2, longest] {
                // In the form that the map keeps, so that equal prefixes are one rule.
                let net = mask(dst, len);
                kinds[3].insert(Key::Prefix { dst: net, len });
            }
        }
        if let Some(number) = ethertype {
            kinds[4].insert(Key::EtherType(number));
        }
    }
    // Only every third one of each kind, so that frames also miss every kind.
    kinds
        .into_iter()
        .flat_map(|keys| keys.into_iter().step_by(3).take(200))
        .collect()
}

fn mask(address: std::net::IpAddr, len: u8) -> std::net::IpAddr {
    match address {
        std::net::IpAddr::V4(ip) => std::net::Ipv4Addr::from_bits(
            ip.to_bits() & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0),
        )
        .into(),
        std::net::IpAddr::V6(ip) => std::net::Ipv6Addr::from_bits(
            ip.to_bits() & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0),
        )
        .into(),
    }
}

#[test]
fn captured_frames_match_the_same_rule_in_the_kernel_and_the_oracle() {
    require_root!();
    let files = capture_files::all();
    let all: Vec<&[u8]> = files
        .iter()
        .flat_map(|(_, frames)| frames)
        .map(Vec::as_slice)
        .collect();
    let longer = all
        .iter()
        .filter(|frame| frame.len() > FRAME_BYTES_MAX)
        .count();
    // BPF_PROG_TEST_RUN refuses frames shorter than an Ethernet header. Longer frames are cut to
    // one buffer, in the kernel and in the oracle alike.
    let frames: Vec<&[u8]> = all
        .iter()
        .filter(|frame| frame.len() >= 14)
        .map(|frame| &frame[..frame.len().min(FRAME_BYTES_MAX)])
        .collect();
    let runts = all.len() - frames.len();
    let mut causes: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    in_new_namespace(|| {
        veth_pair(1);
        let socket = Socket::bind("a", 0);
        let mut world = World::new();
        world.steering.set_socket(0, socket.fd()).unwrap();
        world.has_socket = true;
        world.set_link_ethertype(0x88cc);
        for (index, key) in rules_of(&frames).into_iter().enumerate() {
            world.insert(
                key,
                [Action::Dataplane, Action::Kernel, Action::Drop][index % 3],
            );
        }
        for (index, frame) in frames.iter().enumerate() {
            if index % 1_000 == 0 {
                world.set_default(if index % 2_000 == 0 {
                    Action::Kernel
                } else {
                    Action::Dataplane
                });
            }
            *causes.entry(world.check(frame)).or_default() += 1;
        }
        let counters = world.steering.counters().unwrap();
        assert_eq!(counters.frames(), frames.len() as u64);
        assert_eq!(counters.redirect_refused, 0);
    });
    println!(
        "{} frames of {} captures ({longer} cut to {FRAME_BYTES_MAX} bytes, {runts} runts left \
         out): {causes:?}",
        frames.len(),
        files.len()
    );
    // A large collection has a frame for everything, the small sample has not.
    if frames.len() < 1_000 {
        assert!(causes.len() > 3, "{causes:?}");
        return;
    }
    for cause in [
        "link",
        "five_tuple",
        "destination",
        "port",
        "prefix",
        "vlan",
        "ethertype",
        "default",
        "unparsable",
    ] {
        assert!(
            causes.keys().any(|(name, _)| *name == cause),
            "no capture has a frame for {cause}: {causes:?}"
        );
    }
}
