//! Real traffic, once-malicious frames included.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use covalent_api::rule::Match;
use covalent_dataplane::flow::{FlowTable, key::Frame, parse};
use pcap_file::pcap::PcapReader;

use super::{client::App, node::pair};

/// Returns every Ethernet frame of every capture, at most `length_max` bytes long.
///
/// The captures are in the directory that COVALENT_CAPTURES names. Otherwise they are in a large
/// collection beside the repository, if there is one, or else in the sample of the applications.
fn frames(length_max: usize) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let collection = root.join("../../shared/data");
    let named = std::env::var_os("COVALENT_CAPTURES").map(PathBuf::from);
    let is_collection = named.is_none() && collection.is_dir();
    let folder = match named {
        Some(named) => named,
        None if is_collection => collection,
        None => root.join("../apps/samples"),
    };
    let mut folders: Vec<PathBuf> = ["captures", "enso"]
        .iter()
        .map(|part| folder.join(part))
        .filter(|part| part.is_dir())
        .collect();
    if folders.is_empty() {
        folders.push(folder);
    }
    let mut files = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("captures needed in {}: {error}", folder.display()));
        files.extend(entries.map(|entry| entry.expect("a directory entry").path()));
    }
    files.retain(|path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "pcap")
    });
    files.sort();
    let (files_min, frames_min) = if is_collection { (100, 1000) } else { (1, 1) };
    assert!(files.len() >= files_min, "the folder holds the captures");
    let mut frames = Vec::new();
    for path in files {
        let Ok(mut reader) = File::open(&path)
            .map_err(drop)
            .and_then(|file| PcapReader::new(file).map_err(drop))
        else {
            continue;
        };
        if reader.header().datalink != pcap_file::DataLink::ETHERNET {
            continue;
        }
        while let Some(Ok(packet)) = reader.next_packet() {
            if (1..=length_max).contains(&packet.data.len()) {
                frames.push(packet.data.into_owned());
            }
        }
    }
    assert!(frames.len() >= frames_min, "{} frames", frames.len());
    frames
}

#[test]
fn the_flow_table_finds_a_target_for_every_frame() {
    let frames = frames(usize::MAX);
    let mut table = FlowTable::default();
    for (target, net) in [(4, "0.0.0.0/0"), (6, "::/0")] {
        table
            .insert(
                &Match::Prefix {
                    dst: net.parse().expect("a prefix"),
                },
                target,
            )
            .expect("free");
    }
    table.insert(&Match::Any, 0).expect("free");
    let mut counts = std::collections::BTreeMap::new();
    for frame in &frames {
        let target = table
            .lookup(&mut Frame::new(frame))
            .expect("`any` matches every frame");
        *counts.entry(target).or_insert(0) += 1;
        let version = parse(frame)
            .and_then(|key| key.ip)
            .map_or(0, |ip| if ip.dst.is_ipv4() { 4 } else { 6 });
        assert_eq!(target, version);
    }
    eprintln!("{} frames: {counts:?}", frames.len());
    // Every kind is there: no version, 4 and 6. The sample has few frames, the collection many.
    let count_min = if frames.len() > 1000 { 50 } else { 0 };
    assert!(
        counts.len() == 3 && counts.values().all(|&count| count > count_min),
        "{counts:?}"
    );
}

#[test]
fn every_frame_crosses_two_nodes_unchanged() {
    let frames: Vec<_> = frames(1514)
        .into_iter()
        .filter(|frame| {
            // Runts cannot be sent, and link frames are the link's own.
            frame.len() >= 14 && frame[12..14] != [0x88, 0xb5]
        })
        .collect();
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::Any);
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx("p0");
    for window in frames.chunks(400) {
        for frame in window {
            sender.send(pipe, &mut tx, frame);
        }
        let received = receiver.receive(rx_pipe, &mut rx, window.len());
        assert!(received == window, "a frame was changed");
    }
}
