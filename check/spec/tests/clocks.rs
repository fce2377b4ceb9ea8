//! The wall clock decides nothing: it may be set, forwards and back, while a node runs. It is only
//! shown to people and written beside events.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Names that read the wall clock.
const READS: [&str; 5] = [
    "SystemTime",
    "CLOCK_REALTIME",
    "Timestamp::now",
    "Zoned::now",
    "gettimeofday(",
];

/// Files that read it, each with the purpose.
const EXPECTED: [(&str, &str); 6] = [
    (
        "base/counters/src/ring/write.rs",
        "the time of a record, beside the monotonic one",
    ),
    (
        "base/counters/src/write.rs",
        "the time of a set of counters, beside the monotonic one",
    ),
    (
        "control/src/grpc/sampler.rs",
        "the time of a sample, for its reader",
    ),
    (
        "dataplane/src/lane/stamp.rs",
        "the time of a frame, for its reader",
    ),
    ("dataplane/src/port/pcap.rs", "the time of a captured frame"),
    (
        "dataplane/src/server/events.rs",
        "the time of an event, for people",
    ),
];

/// Crates that run on a node.
const ROOMS: [&str; 16] = [
    "apps/src",
    "base/api/src",
    "base/config/src",
    "base/counters/src",
    "base/grpc-schema/src",
    "base/ipc/src",
    "base/log/src",
    "base/sandbox/src",
    "cli/src",
    "control/src",
    "dataplane/src",
    "ebpf/src",
    "pipe/src",
    "protocol/src",
    "verbs/c/src",
    "verbs/src",
];

fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a room") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|it| it == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn the_wall_clock_decides_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for room in ROOMS {
        sources(&root.join(room), &mut files);
    }
    assert!(files.len() > 300, "{} files were read", files.len());
    let mut reads = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("text");
        // Test code may read it freely.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let found = code.filter(|line| READS.iter().any(|it| line.contains(it)));
        let found: Vec<&str> = found.collect();
        if !found.is_empty() {
            let name = file.strip_prefix(&root).expect("below the root");
            reads.insert(name.display().to_string(), found.join("\n"));
        }
    }
    let named: Vec<&str> = reads.keys().map(String::as_str).collect();
    assert_eq!(named, EXPECTED.map(|(file, _)| file), "{reads:#?}");
}
