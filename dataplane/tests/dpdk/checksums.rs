//! Checksums that a device computes, on net_tap. Its other end is a kernel interface that
//! net_af_packet reads.

use std::fs;

use covalent_config::{HugePages, PortConfig, PortKind, TxChecksum};
use etherparse::PacketBuilder;

use crate::{
    devices::{self, number},
    frames::frame,
    namespace::{in_new_namespace, ip},
    pair::{FramePath, LivePair},
};

/// Fewer than a tap device's queue in the kernel holds.
const WINDOW: usize = 16;

fn filling(mut port: PortConfig) -> PortConfig {
    if let PortKind::Dpdk { tx_checksum, .. } = &mut port.kind {
        *tx_checksum = TxChecksum::Fill;
    }
    port
}

fn on_tap(test: impl FnOnce(&mut LivePair) + Send) {
    in_new_namespace(|| {
        // Nothing but the test speaks there.
        fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        let open = |port| {
            devices::open_all(&[port], HugePages::Never)
                .unwrap()
                .remove(0)
        };
        let near = open(filling(devices::port(&format!(
            "net_tap{},iface=tap0",
            number()
        ))));
        ip(&["link", "set", "tap0", "up", "arp", "off"]);
        let far = open(devices::port(&format!(
            "net_af_packet{},iface=tap0,qpairs=1",
            number()
        )));
        let mut pair = LivePair { near, far };
        pair.wait_for_carrier();
        test(&mut pair);
    });
}

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;

/// A datagram as it should arrive.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(7, 7)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

#[test]
fn checksums_are_filled_in() {
    on_tap(|pair| {
        let wanted: Vec<_> = (0..200_u8)
            .map(|number| datagram(&vec![number; 30 + usize::from(number)]))
            .collect();
        let sent: Vec<_> = wanted
            .iter()
            .map(|frame| {
                let mut frame = frame.clone();
                frame[ETHERNET_BYTES + 10..][..2].fill(0xff);
                frame[ETHERNET_BYTES + IPV4_BYTES + 6..][..2].fill(0xff);
                frame
            })
            .collect();
        assert!(pair.transfer(&sent, WINDOW) == wanted);
    });
}

/// Returns a datagram over IPv6 in a frame that ends too early. Its destination options claim a
/// length of `units` units of 8 bytes after the first 8.
fn claims(units: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
    // Version 6, 16 bytes of payload, hop-by-hop options next, hop limit 64.
    frame.extend([0x60, 0, 0, 0, 0, 16, 0, 64]);
    frame.extend([0xfd; 32]);
    // Hop-by-hop options of 8 bytes, followed by destination options, which name UDP as the next
    // header.
    frame.extend([60, 0, 1, 4, 0, 0, 0, 0]);
    frame.extend([17, units, 1, 4, 0, 0, 0, 0]);
    frame
}

#[test]
fn a_frame_with_false_headers_is_sent_unchanged_and_harms_no_other() {
    on_tap(|pair| {
        let frames: Vec<_> = (0..=u8::MAX)
            .flat_map(|units| [claims(units), frame(units.into(), 1500)])
            .collect();
        for _ in 0..4 {
            let arrived = pair.transfer(&frames, WINDOW);
            assert!(
                arrived == frames,
                "{} of {} arrived",
                arrived.len(),
                frames.len()
            );
        }
    });
}
