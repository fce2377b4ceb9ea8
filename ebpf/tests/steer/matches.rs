//! Hand-made frames: each kind of key, their order, and everything that is not quite a packet.

use std::{
    fs::File,
    net::{Ipv6Addr, UdpSocket},
    os::fd::AsFd,
    thread,
    time::Duration,
};

use covalent_ebpf::{Action, ETHERTYPES_MAX, Key, PREFIXES_MAX};

use crate::{
    require_root,
    support::{
        frames::{
            self, Extension, TCP, UDP, V4, authentication, ethernet, extension, fragment, ports,
            udp, v6,
        },
        namespace::in_new_namespace,
        rtnetlink::veth_pair,
        socket::Socket,
        test_run::{How, test_run},
        world::World,
    },
};

const LINK: u16 = 0x88b5;

/// Runs `test` in a world whose loopback queue has a socket, so that `Dataplane` is visible in the
/// verdict. The map holds the socket bound to `a`. A test run only checks whether there is one.
fn with_socket(test: impl FnOnce(&mut World) + Send) {
    in_new_namespace(|| {
        veth_pair(1);
        let socket = Socket::bind("a", 0);
        let mut world = World::new();
        world.steering.set_socket(0, socket.fd()).unwrap();
        world.has_socket = true;
        test(&mut world);
    });
}

fn five_tuple(src: &str, src_port: u16, dst: &str, dst_port: u16) -> Key {
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    Key::FiveTuple {
        proto: UDP,
        src,
        src_port,
        dst,
        dst_port,
    }
}

fn destination(dst: &str, dst_port: u16) -> Key {
    Key::Destination {
        proto: UDP,
        dst: dst.parse().unwrap(),
        dst_port,
    }
}

fn prefix(dst: &str, len: u8) -> Key {
    Key::Prefix {
        dst: dst.parse().unwrap(),
        len,
    }
}

/// Every kind of key that matches one packet in VLAN 1, most specific first.
fn ladder(src: &str, dst: &str, ethertype: u16) -> Vec<(Key, &'static str)> {
    let longest = if dst.contains(':') { 128 } else { 32 };
    vec![
        (five_tuple(src, 1000, dst, 2000), "five_tuple"),
        (destination(dst, 2000), "destination"),
        (
            Key::Port {
                proto: UDP,
                dst_port: 2000,
            },
            "port",
        ),
        (prefix(dst, longest), "prefix"),
        (prefix(dst, longest / 2), "prefix"),
        (prefix(dst, 0), "prefix"),
        (Key::Vlan(1), "vlan"),
        (Key::EtherType(ethertype), "ethertype"),
    ]
}

#[test]
fn the_most_specific_rule_decides() {
    require_root!();
    with_socket(|world| {
        for (src, dst, ethertype) in [
            ("10.1.0.1", "10.2.0.2", 0x0800),
            ("2001:db8::1", "2001:db8::2", 0x86dd),
        ] {
            let frame = tagged(&udp(src, 1000, dst, 2000), 0x8100, 1);
            let rules = ladder(src, dst, ethertype);
            // From the least specific on: each new rule takes the frame over, with another action.
            let mut action = Action::Kernel;
            assert_eq!(world.check(&frame), ("default", false));
            for (key, cause) in rules.iter().rev() {
                action = match action {
                    Action::Kernel => Action::Dataplane,
                    Action::Dataplane => Action::Drop,
                    Action::Drop => Action::Kernel,
                };
                world.insert(*key, action);
                assert_eq!(world.check(&frame), (*cause, action == Action::Dataplane));
            }
            // And back: without its rule the frame falls to the next one.
            for (index, (key, _)) in rules.iter().enumerate() {
                world.remove(*key);
                let next = rules.get(index + 1).map_or("default", |(_, cause)| cause);
                assert_eq!(world.check(&frame).0, next);
            }
        }
    });
}

/// `frame` with one more tag in front, of this type and with this control information.
fn tagged(frame: &[u8], tag: u16, control: u16) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend(tag.to_be_bytes());
    tagged.extend(control.to_be_bytes());
    tagged.extend(&frame[12..]);
    tagged
}

#[test]
fn the_outermost_tag_names_the_vlan() {
    require_root!();
    with_socket(|world| {
        world.set_link_ethertype(LINK);
        world.insert(Key::Vlan(7), Action::Dataplane);
        world.insert(Key::Vlan(0), Action::Drop);
        world.insert(Key::Vlan(4095), Action::Drop);
        let packet = udp("10.1.0.1", 1000, "10.2.0.2", 2000);
        let arp = ethernet(&[], 0x0806, &[0; 46]);
        let llc = ethernet(&[], 0x0026, &[0; 46]);
        let damaged = &packet[..33];
        for tag in [0x8100, 0x88a8, 0x9100] {
            for inner in [&packet, &arp, &llc, damaged, &tagged(&arp, 0x8100, 8)] {
                // Priority and the bit for dropping first are no part of the id.
                for control in [7, 0xf007] {
                    assert_eq!(
                        world.check(&tagged(inner, tag, control)),
                        ("vlan", true),
                        "{tag:#x} {control:#x}"
                    );
                }
                assert_eq!(world.check(&tagged(inner, tag, 0xe000)), ("vlan", false));
                assert_eq!(world.check(&tagged(inner, tag, 0x0fff)), ("vlan", false));
                assert_ne!(world.check(&tagged(inner, tag, 8)).0, "vlan");
            }
            // A frame of a link is one only without a tag.
            let link = ethernet(&[], LINK, &[0; 46]);
            assert_eq!(world.check(&tagged(&link, tag, 7)), ("vlan", true));
            // A tag that is cut short names nothing; one with nothing behind it does.
            let whole = tagged(&arp, tag, 7);
            for length in 14..18 {
                assert_eq!(world.check(&whole[..length]).0, "unparsable", "{length}");
            }
            assert_eq!(world.check(&whole[..18]), ("vlan", true));
        }
        // A number in an untagged frame, or in the inner tag, is not a VLAN id.
        assert_eq!(world.check(&packet).0, "default");
        let inner = tagged(&tagged(&arp, 0x8100, 7), 0x88a8, 9);
        assert_eq!(world.check(&inner).0, "default");
        world.remove(Key::Vlan(7));
        assert_eq!(world.check(&tagged(&arp, 0x8100, 7)).0, "default");
    });
}

#[test]
fn frames_to_drop_are_dropped_and_counted_under_their_cause() {
    require_root!();
    with_socket(|world| {
        world.set_link_ethertype(LINK);
        world.set_default(Action::Drop);
        let packet = udp("10.1.0.1", 1000, "10.2.0.2", 2000);
        world.check(&packet);
        world.check(&packet[..33]);
        world.check(&ethernet(&[], 0x0026, &[0; 46]));
        assert_eq!(world.check(&ethernet(&[], LINK, &[0; 46])), ("link", true));
        world.insert(prefix("10.2.0.0", 16), Action::Kernel);
        world.check(&packet);
        let counters = world.steering.counters().unwrap();
        assert_eq!(counters.dropped(), 3);
        assert_eq!(counters.default.dropped, 2);
        assert_eq!(counters.unparsable.dropped, 1);
        assert_eq!(counters.prefix.to_kernel, 1);
        assert_eq!(counters.frames(), 5);
    });
}

#[test]
fn near_misses_do_not_match() {
    require_root!();
    with_socket(|world| {
        world.insert(
            five_tuple("10.1.0.1", 1000, "10.2.0.2", 2000),
            Action::Dataplane,
        );
        world.insert(destination("10.2.0.3", 2001), Action::Dataplane);
        world.insert(
            Key::Port {
                proto: TCP,
                dst_port: 2002,
            },
            Action::Dataplane,
        );
        world.insert(prefix("10.3.128.0", 17), Action::Dataplane);
        for frame in [
            udp("10.1.0.2", 1000, "10.2.0.2", 2000),
            udp("10.1.0.1", 1001, "10.2.0.2", 2000),
            udp("10.1.0.1", 1000, "10.2.0.1", 2000),
            udp("10.1.0.1", 1000, "10.2.0.2", 2001),
            // The same, backwards.
            udp("10.2.0.2", 2000, "10.1.0.1", 1000),
            // 0x07d0 with its bytes turned round.
            udp("10.1.0.1", 1000, "10.2.0.2", 0xd007),
            udp("10.1.0.1", 1, "10.2.0.3", 2000),
            // Port 2002, but of UDP.
            udp("10.1.0.1", 1, "10.2.0.3", 2002),
            udp("10.1.0.1", 1, "10.3.127.255", 1),
            // 10.2.0.2 as the first bytes of an IPv6 address.
            udp("a01:1::", 1000, "a02:2::", 2000),
            // IPv4 mapped into IPv6 is IPv6.
            udp("::ffff:10.1.0.1", 1000, "::ffff:10.2.0.2", 2000),
        ] {
            assert_eq!(world.check(&frame), ("default", false));
        }
        assert_eq!(
            world.check(&udp("10.9.9.9", 1, "10.3.128.0", 1)),
            ("prefix", true)
        );
        assert_eq!(
            world.check(&udp("10.9.9.9", 1, "10.2.0.3", 2001)),
            ("destination", true)
        );
        let tcp = V4 {
            protocol: TCP,
            ..V4::default()
        }
        .packet(&ports(7, 2002, &[0; 12]));
        assert_eq!(world.check(&ethernet(&[], 0x0800, &tcp)), ("port", true));
    });
}

#[test]
fn the_longest_prefix_decides() {
    require_root!();
    with_socket(|world| {
        for (dst, len, action) in [
            ("10.0.0.0", 8, Action::Dataplane),
            ("10.2.0.0", 16, Action::Kernel),
            ("10.2.3.0", 24, Action::Dataplane),
            ("10.2.3.4", 32, Action::Kernel),
            ("2001:db8::", 32, Action::Dataplane),
            ("2001:db8:1::", 48, Action::Kernel),
            ("::", 0, Action::Kernel),
        ] {
            world.insert(prefix(dst, len), action);
        }
        for (dst, redirected) in [
            ("10.200.0.1", true),
            ("10.2.200.1", false),
            ("10.2.3.200", true),
            ("10.2.3.4", false),
            ("2001:db8:2::1", true),
            ("2001:db8:1::1", false),
            ("fe80::1", false),
        ] {
            let src = if dst.contains(':') { "::1" } else { "10.9.9.9" };
            assert_eq!(
                world.check(&udp(src, 1, dst, 1)),
                ("prefix", redirected),
                "{dst}"
            );
        }
        assert_eq!(
            world.check(&udp("10.9.9.9", 1, "11.0.0.1", 1)),
            ("default", false)
        );
    });
}

#[test]
fn untagged_link_frames_precede_every_rule() {
    require_root!();
    with_socket(|world| {
        let frame = ethernet(&[], LINK, &[0x11; 64]);
        assert_eq!(world.check(&frame), ("default", false));
        world.set_link_ethertype(LINK);
        world.insert(Key::EtherType(LINK), Action::Kernel);
        assert_eq!(world.check(&frame), ("link", true));
        // The shortest possible.
        assert_eq!(world.check(&ethernet(&[], LINK, &[])), ("link", true));
        assert_eq!(
            world.check(&ethernet(&[0x8100], LINK, &[0; 46])),
            ("ethertype", false)
        );
        world.set_link_ethertype(0x0800);
        assert_eq!(
            world.check(&udp("10.1.0.1", 1, "10.2.0.2", 2)),
            ("link", true)
        );
        assert_eq!(world.check(&frame), ("ethertype", false));
        // Off: and a field of 0 is the length of an empty LLC frame, not "no link EtherType".
        world.set_link_ethertype(0);
        assert_eq!(world.check(&ethernet(&[], 0, &[0; 46])), ("default", false));
        for number in [1, 0x05ff] {
            assert!(
                world
                    .steering
                    .set_link_ethertype(number)
                    .unwrap_err()
                    .to_string()
                    .contains("0x0600")
            );
        }
    });
}

#[test]
fn without_a_socket_the_kernel_gets_the_frame() {
    require_root!();
    with_socket(|world| {
        world.set_link_ethertype(LINK);
        world.set_default(Action::Dataplane);
        let link = ethernet(&[], LINK, &[0x11; 64]);
        let other = ethernet(&[], 0x0806, &[0x22; 46]);
        assert!(world.check(&link).1 && world.check(&other).1);
        world.steering.clear_socket(0).unwrap();
        world.steering.clear_socket(0).unwrap();
        world.has_socket = false;
        assert!(!world.check(&link).1 && !world.check(&other).1);
        assert_eq!(world.steering.counters().unwrap().no_socket, 2);
    });
}

#[test]
fn a_closed_socket_leaves_its_queue_to_the_kernel() {
    require_root!();
    in_new_namespace(|| {
        veth_pair(1);
        let mut world = World::new();
        world.set_default(Action::Dataplane);
        let socket = Socket::bind("a", 0);
        world.steering.set_socket(0, socket.fd()).unwrap();
        world.has_socket = true;
        let frame = ethernet(&[], 0x0806, &[0x22; 46]);
        assert!(world.check(&frame).1);
        drop(socket);
        // The kernel releases a socket's memory, and with it the map's entry, a moment later.
        let gone = (0..500).any(|_| {
            thread::sleep(Duration::from_millis(2));
            let before = world.steering.counters().unwrap().no_socket;
            let fd = world.steering.as_fd();
            test_run(fd, &frame, How::default()).unwrap();
            world.steering.counters().unwrap().no_socket > before
        });
        assert!(
            gone,
            "the program still redirects to a socket that was closed a second ago"
        );
    });
}

#[test]
fn up_to_two_vlan_tags_are_skipped() {
    require_root!();
    with_socket(|world| {
        world.insert(
            Key::Port {
                proto: UDP,
                dst_port: 2000,
            },
            Action::Dataplane,
        );
        world.insert(Key::EtherType(0x0806), Action::Dataplane);
        for number in [0x8100, 0x88a8, 0x9100] {
            world.insert(Key::EtherType(number), Action::Dataplane);
        }
        let packet = V4::default().packet(&ports(1000, 2000, &[0; 16]));
        let stacks: [&[u16]; 7] = [
            &[],
            &[0x8100],
            &[0x88a8],
            &[0x9100],
            &[0x88a8, 0x8100],
            &[0x8100, 0x8100],
            &[0x9100, 0x88a8],
        ];
        for tags in stacks {
            assert_eq!(
                world.check(&ethernet(tags, 0x0800, &packet)),
                ("port", true),
                "{tags:x?}"
            );
            assert_eq!(
                world.check(&ethernet(tags, 0x0806, &[0; 28])),
                ("ethertype", true),
                "{tags:x?}"
            );
            // LLC behind the tags has no EtherType.
            assert_eq!(
                world.check(&ethernet(tags, 0x0026, &[0; 38])),
                ("default", false),
                "{tags:x?}"
            );
            // Cut within each tag.
            let frame = ethernet(tags, 0x0806, &[]);
            for length in 14..frame.len() {
                assert_eq!(
                    world.check(&frame[..length]).0,
                    "unparsable",
                    "{tags:x?} cut to {length}"
                );
            }
            assert_eq!(world.check(&frame), ("ethertype", true));
        }
        // A third tag is the EtherType.
        assert_eq!(
            world.check(&ethernet(&[0x88a8, 0x8100, 0x8100], 0x0800, &packet)),
            ("ethertype", true)
        );
        world.remove(Key::EtherType(0x8100));
        assert_eq!(
            world.check(&ethernet(&[0x88a8, 0x8100, 0x8100], 0x0800, &packet)),
            ("default", false)
        );
    });
}

#[test]
fn ipv4_options_fragments_and_contradictions() {
    require_root!();
    with_socket(|world| {
        world.insert(
            Key::Port {
                proto: UDP,
                dst_port: 2000,
            },
            Action::Dataplane,
        );
        world.insert(prefix("10.2.0.0", 16), Action::Kernel);
        world.insert(Key::EtherType(0x0800), Action::Dataplane);
        let segment = ports(1000, 2000, &[0; 16]);
        for option_words in 0..=10 {
            let packet = V4 {
                option_words,
                ..V4::default()
            }
            .packet(&segment);
            assert_eq!(
                world.check(&ethernet(&[], 0x0800, &packet)),
                ("port", true),
                "{option_words} words"
            );
            // Every length of the packet: a truncated header is unparsable, truncated ports are no
            // ports.
            let header_bytes = 20 + option_words * 4;
            for length in 0..packet.len() {
                let expected = match length {
                    _ if length < header_bytes => "unparsable",
                    _ if length < header_bytes + 4 => "prefix",
                    _ => "port",
                };
                assert_eq!(
                    world.check(&ethernet(&[], 0x0800, &packet[..length])).0,
                    expected,
                    "{length}"
                );
            }
        }
        for (fragment, cause) in [
            (0x4000, "port"),
            (0x2000, "port"),
            (0x2001, "prefix"),
            (0x0001, "prefix"),
            (0x1000, "prefix"),
            (0x1fff, "prefix"),
        ] {
            let packet = V4 {
                fragment,
                ..V4::default()
            }
            .packet(&segment);
            assert_eq!(
                world.check(&ethernet(&[], 0x0800, &packet)).0,
                cause,
                "fragment field {fragment:#06x}"
            );
        }
        let icmp = V4 {
            protocol: 1,
            ..V4::default()
        }
        .packet(&segment);
        assert_eq!(world.check(&ethernet(&[], 0x0800, &icmp)).0, "prefix");
        // Version 6, header of 16 bytes, header of 60 in a packet of 44, total length below the
        // header's.
        let good = V4 {
            option_words: 1,
            ..V4::default()
        }
        .packet(&segment[..20]);
        for (at, value) in [(0, 0x66), (0, 0x44), (0, 0x4f), (3, 23)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(
                world.check(&ethernet(&[], 0x0800, &bad)),
                ("unparsable", false),
                "byte {at} = {value:#x}"
            );
        }
    });
}

#[test]
fn ipv6_extension_headers_are_walked_within_bounds() {
    require_root!();
    with_socket(|world| {
        let (src, dst): (Ipv6Addr, Ipv6Addr) = (
            "2001:db8::1".parse().unwrap(),
            "2001:db8::2".parse().unwrap(),
        );
        world.insert(
            Key::Port {
                proto: UDP,
                dst_port: 2000,
            },
            Action::Dataplane,
        );
        world.insert(prefix("2001:db8::", 64), Action::Kernel);
        let segment = ports(1000, 2000, &[0; 16]);
        let frame =
            |chain: &[Extension]| ethernet(&[], 0x86dd, &v6(src, dst, chain, UDP, &segment));
        let chains: [(&str, &[Extension]); 15] = [
            ("port", &[]),
            ("port", &[extension(0, 1)]),
            (
                "port",
                &[extension(0, 3), extension(43, 2), extension(60, 1)],
            ),
            ("port", &[extension(60, 256)]),
            ("port", &[fragment(0, true)]),
            ("prefix", &[fragment(1, true)]),
            ("prefix", &[fragment(0x1fff, false)]),
            ("prefix", &[extension(0, 1), fragment(1, false)]),
            ("port", &[authentication(2)]),
            ("port", &[authentication(3), extension(60, 1)]),
            ("port", &[authentication(257)]),
            // Encrypted, no next header, and a header that is not walked: no readable ports.
            ("prefix", &[(50, vec![0; 16])]),
            ("prefix", &[(59, vec![0; 8])]),
            ("prefix", &[(135, vec![0; 8])]),
            (
                "port",
                &[
                    extension(0, 1),
                    extension(0, 1),
                    extension(0, 1),
                    extension(0, 1),
                    extension(60, 1),
                    extension(60, 1),
                    extension(60, 1),
                    extension(60, 1),
                ],
            ),
        ];
        for (cause, chain) in chains {
            assert_eq!(world.check(&frame(chain)).0, cause, "{chain:?}");
        }
        // Nine are one too many: no ports.
        assert_eq!(world.check(&frame(&vec![extension(60, 1); 9])).0, "prefix");
        assert_eq!(world.check(&frame(&vec![extension(60, 1); 40])).0, "prefix");
        // Every length of a chain of three.
        let whole = frame(&[extension(0, 2), fragment(0, true), authentication(4)]);
        let headers_bytes = 14 + 40 + 16 + 8 + 16;
        for length in 14..whole.len() {
            let expected = match length {
                _ if length < headers_bytes => "unparsable",
                _ if length < headers_bytes + 4 => "prefix",
                _ => "port",
            };
            assert_eq!(world.check(&whole[..length]).0, expected, "{length}");
        }
        // A header that claims more than the frame has.
        let mut long = extension(60, 1);
        long.1[1] = 200;
        assert_eq!(world.check(&frame(&[long])).0, "unparsable");
        let mut version = frame(&[]);
        version[14] = 0x40;
        assert_eq!(world.check(&version).0, "unparsable");
    });
}

#[test]
fn unparsable_frames_follow_the_default_action_alone() {
    require_root!();
    with_socket(|world| {
        world.insert(Key::EtherType(0x0800), Action::Dataplane);
        world.insert(prefix("0.0.0.0", 0), Action::Dataplane);
        let cut = &udp("10.1.0.1", 1000, "10.2.0.2", 2000)[..33];
        assert_eq!(world.check(cut), ("unparsable", false));
        world.set_default(Action::Dataplane);
        world.insert(Key::EtherType(0x0800), Action::Kernel);
        world.insert(prefix("0.0.0.0", 0), Action::Kernel);
        assert_eq!(world.check(cut), ("unparsable", true));
    });
}

/// No known kernel shows a program fewer than 14 bytes: test runs refuse such frames, veth drops
/// them, and `bpf_xdp_adjust_tail` makes none. If a kernel does, only the default action may
/// decide.
#[test]
fn runts_are_refused_by_the_kernel_or_follow_the_default_action_alone() {
    require_root!();
    with_socket(|world| {
        world.set_link_ethertype(LINK);
        world.insert(Key::EtherType(0xffff), Action::Dataplane);
        let mut refused = 0;
        for length in 0..14 {
            let frame = vec![0xff; length];
            match test_run(world.steering.as_fd(), &frame, How::default()) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused += 1,
                _ => assert_eq!(world.check(&frame), ("runt", false), "{length} bytes"),
            }
        }
        println!("the kernel refused {refused} of 14 runts");
        assert_eq!(world.check(&[0xff; 14]), ("ethertype", true));
    });
}

#[test]
fn a_full_table_names_what_is_full() {
    require_root!();
    let mut world = World::new();
    for number in 0..ETHERTYPES_MAX as u16 {
        world
            .steering
            .insert(&Key::EtherType(0x0800 + number), Action::Kernel)
            .unwrap();
    }
    let error = world
        .steering
        .insert(&Key::EtherType(0x0700), Action::Kernel)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no room for another EtherType rule: 256 are there"),
        "{error}"
    );
    // Changing an existing rule needs no space, and removing one frees space.
    world
        .steering
        .insert(&Key::EtherType(0x0800), Action::Dataplane)
        .unwrap();
    assert!(world.steering.remove(&Key::EtherType(0x0801)).unwrap());
    assert!(!world.steering.remove(&Key::EtherType(0x0801)).unwrap());
    world
        .steering
        .insert(&Key::EtherType(0x0700), Action::Kernel)
        .unwrap();
    for number in 0..PREFIXES_MAX {
        let dst = frames::v4_address(number).into();
        world
            .steering
            .insert(&Key::Prefix { dst, len: 32 }, Action::Kernel)
            .unwrap();
    }
    let dst = frames::v4_address(u32::MAX).into();
    let error = world
        .steering
        .insert(&Key::Prefix { dst, len: 32 }, Action::Kernel)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no room for another IPv4 prefix rule: 4096"),
        "{error}"
    );
}

#[test]
fn queues_and_sockets_are_checked() {
    require_root!();
    let mut world = World::new();
    let file = File::open("/dev/null").unwrap();
    let fd = file.as_fd();
    let error = world.steering.set_socket(64, fd).unwrap_err();
    assert!(
        error.to_string().contains("serves queues 0 to 63"),
        "{error}"
    );
    assert!(world.steering.clear_socket(64).is_err());
    let error = world.steering.set_socket(63, fd).unwrap_err();
    assert!(
        error.to_string().contains("not an AF_XDP socket"),
        "{error}"
    );
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = world.steering.set_socket(0, udp.as_fd()).unwrap_err();
    assert!(
        error.to_string().contains("not an AF_XDP socket"),
        "{error}"
    );
}
