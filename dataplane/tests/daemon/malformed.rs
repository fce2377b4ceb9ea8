//! Arbitrary bytes on the wire.

use std::time::Duration;

use covalent_api::rule::Match;
use covalent_protocol::{Mode, verb::Verb};

use super::{
    client::{App, Verbs},
    node::{Node, eventually},
    noise::Noise,
    streams::numbered,
};

/// Frames that look like something and are wrong somewhere.
fn malformed(noise: &mut Noise) -> Vec<u8> {
    let length = 14 + noise.below(1500) as usize;
    let mut frame = vec![0; length];
    noise.fill(&mut frame);
    let ethertype: [u8; 2] = match noise.below(8) {
        0 | 1 => [0x88, 0xb5],
        2 => [0x08, 0x00],
        3 => [0x86, 0xdd],
        4 => [0x81, 0x00],
        5 => [0x88, 0xa8],
        6 => [0x00, 0x10],
        _ => [noise.next() as u8, noise.next() as u8],
    };
    frame[12..14].copy_from_slice(&ethertype);
    if ethertype == [0x88, 0xb5] && noise.below(2) == 0 {
        // Whole records, so that the CRC check refuses them.
        frame.truncate(14 + 64 * (1 + (length - 14) / 64).min(23));
        frame.resize(14 + (frame.len() - 14).next_multiple_of(64), 0);
    }
    frame
}

/// An application on `a` sends noise over the cable to every receiver of `b`, as a raw socket
/// could.
#[test]
fn noise_on_the_wire_is_counted_and_does_no_harm() {
    const FRAMES: u64 = 30_000;
    let dir = tempfile::tempdir().expect("a directory");
    // On `wild` only `b` runs a link: from `a` anything may be sent there, link frames too.
    let mut a = Node::new(dir.path(), "a", &["p0", "wild"], "");
    a.config.port[1].link = false;
    let (a, b) = (
        a.start(),
        Node::new(dir.path(), "b", &["p0", "wild"], "").start(),
    );
    eventually("the good link is up", || b.status().links[0].state == "up");
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::EtherType { ethertype: 0x1234 });
    let (other_pipe, _other) = receiver.rx(None);
    receiver.bind(
        other_pipe,
        Match::Prefix {
            dst: "::/0".parse().expect("a prefix"),
        },
    );
    let (rkey, memory) = receiver.register("bank", 64);
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx("wild");
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let mut noise = Noise::new(0xc0de);
    let (mut added, mut sent) = (0, 0);
    for round in 0..FRAMES {
        let frame = malformed(&mut noise);
        sender.send(pipe, &mut tx, &frame);
        if round % 100 == 0 {
            sender.send(pipe, &mut tx, &numbered(sent, 100));
            sent += 1;
        }
        if round % 1000 == 0
            && verbs.post(
                b.guid(),
                Mode::TwoPhase,
                added,
                rkey,
                0,
                Verb::FetchAdd { delta: 1 },
            )
        {
            added += 1;
        }
    }
    let received = receiver.receive(rx_pipe, &mut rx, sent as usize);
    assert!(
        received
            .iter()
            .zip(0..)
            .all(|(frame, number)| *frame == numbered(number, 100)),
        "the good frames arrive in order"
    );
    let mut ended = std::collections::BTreeSet::new();
    while (ended.len() as u64) < added {
        ended.extend(
            verbs
                .wait()
                .into_iter()
                .filter(|(_, how)| !matches!(how, super::client::Ended::Other(_)))
                .map(|(verb, _)| verb),
        );
    }
    assert_eq!(
        memory.load(0),
        Some(added),
        "verbs between the noise are exact"
    );
    let status = b.status();
    let drops = &status.links[1].drops;
    let counted = ["length", "crc", "short", "malformed"]
        .iter()
        .map(|&cause| drops[cause])
        .sum::<u64>();
    assert!(counted > FRAMES / 8, "{drops:?}");
    assert!(status.ports[1].drops["no_pipe"] > FRAMES / 8);
    eventually("the link stands", || b.status().links[0].state == "up");
}

/// The same into a file port: a capture of noise is read to its end.
#[test]
fn a_capture_of_noise_is_read_to_its_end() {
    use pcap_file::pcap::{PcapPacket, PcapWriter};

    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("noise.pcap");
    let mut writer =
        PcapWriter::new(std::fs::File::create(&path).expect("a file")).expect("a header");
    let mut noise = Noise::new(7);
    let frames = 2000;
    for _ in 0..frames {
        let mut frame = malformed(&mut noise);
        if noise.below(10) == 0 {
            frame.truncate(noise.below(20) as usize + 1);
        }
        let packet = PcapPacket::new(Duration::ZERO, frame.len() as u32, &frame);
        writer.write_packet(&packet).expect("room on the disk");
    }
    drop(writer);
    let port = format!(
        "[[port]]\nname = \"file\"\nkind = \"pcap\"\ninput = \"{}\"\n",
        path.display()
    );
    let node = Node::new(dir.path(), "a", &[], &port).start();
    eventually("the capture is read", || {
        let status = node.status();
        let port = &status.ports[0];
        let dropped: u64 = port.drops.values().sum();
        port.rx_packets.max(dropped) >= frames && port.drops["no_pipe"] <= port.rx_packets
    });
}
