//! Tests on real captures. Frames of many of them once crashed parsers.
#![allow(clippy::unwrap_used)]

use std::{env, path::PathBuf};

use covalent_apps::replay::{capture, sample};

/// A large collection that may lie beside the repository.
const COLLECTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data");

/// The sample, which is always present.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/samples");

/// Returns the directory in COVALENT_CAPTURES, else the collection, else the sample; or the
/// subdirectories of it that hold captures.
fn folders() -> Vec<PathBuf> {
    let folder = env::var_os("COVALENT_CAPTURES").map_or_else(
        || {
            let collection = PathBuf::from(COLLECTION);
            if collection.is_dir() {
                collection
            } else {
                PathBuf::from(SAMPLE)
            }
        },
        PathBuf::from,
    );
    let parts: Vec<PathBuf> = ["captures", "enso"]
        .iter()
        .map(|part| folder.join(part))
        .filter(|part| part.is_dir())
        .collect();
    if parts.is_empty() {
        vec![folder]
    } else {
        parts
    }
}

#[test]
fn the_sample_file_holds_the_built_in_sample() {
    let loaded = capture::load(&[PathBuf::from(SAMPLE)]).unwrap();
    assert_eq!((loaded.captures.len(), loaded.bad.len()), (1, 0));
    let built_in: Vec<_> = sample::captures()
        .into_iter()
        .flat_map(|capture| capture.frames)
        .collect();
    assert_eq!(loaded.captures[0].frames, built_in);
}

#[test]
fn every_capture_is_read_to_its_end() {
    let loaded = capture::load(&folders()).unwrap();
    assert!(!loaded.captures.is_empty());
    assert!(
        loaded
            .captures
            .iter()
            .all(|capture| !capture.frames.is_empty())
    );
    assert_eq!(loaded.bad, []);
    if env::var_os("COVALENT_CAPTURES").is_some() || !PathBuf::from(COLLECTION).is_dir() {
        return;
    }
    // Of the collection more is known.
    assert!(
        loaded.captures.len() > 200,
        "{} captures",
        loaded.captures.len()
    );
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
