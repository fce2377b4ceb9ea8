//! Frames of real captures.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
};

use pcap_file::pcap::PcapReader;

/// Directories with the captures: the one named by COVALENT_CAPTURES, otherwise a large collection
/// beside the repository if there is one, otherwise the samples of the applications.
fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let collection = root.join("../../shared/data");
    let folder = match env::var_os("COVALENT_CAPTURES") {
        Some(named) => PathBuf::from(named),
        None if collection.is_dir() => collection,
        None => root.join("../apps/samples"),
    };
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

/// Every capture file in those folders with its frames, in the order of their names.
pub fn all() -> Vec<(PathBuf, Vec<Vec<u8>>)> {
    let mut files: Vec<PathBuf> = folders()
        .into_iter()
        .flat_map(|folder| {
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        })
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "pcap")
        })
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| (path.clone(), read(&path)))
        .collect()
}

fn read(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(File::open(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut frames = Vec::new();
    // Raw: lengths and times of damaged captures are not for us to judge.
    while let Some(packet) = reader.next_raw_packet() {
        match packet {
            Ok(packet) => frames.push(packet.data.into_owned()),
            // Some captures end in the middle of a frame.
            Err(_) => break,
        }
    }
    assert!(!frames.is_empty(), "{} has no frames", path.display());
    frames
}
