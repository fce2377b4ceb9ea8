//! Real captures, among them many whose frames once crashed parsers.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use covalent_apps::replay::capture;

/// The captures lie beside the repository.
fn data() -> PathBuf {
    let data = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"));
    assert!(
        data.is_dir(),
        "this test reads the captures in {}, which is absent",
        data.display()
    );
    data
}

#[test]
fn every_capture_is_read_to_its_end() {
    let loaded = capture::load(&[data().join("captures"), data().join("enso")]).unwrap();
    assert!(
        loaded.captures.len() > 200,
        "{} captures",
        loaded.captures.len()
    );
    assert!(
        loaded
            .captures
            .iter()
            .all(|capture| !capture.frames.is_empty())
    );
    assert_eq!(loaded.bad, []);
    // Two were written on big-endian machines.
    for big_endian in ["pptp.pcap", "unaligned-nfs-1.pcap"] {
        assert!(
            loaded
                .captures
                .iter()
                .any(|capture| capture.name == big_endian),
            "{big_endian}"
        );
    }
    assert_eq!(
        loaded
            .captures
            .iter()
            .map(|capture| capture.frames.len())
            .sum::<usize>(),
        5205
    );
}
