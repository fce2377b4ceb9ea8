//! The committed object: the kernel accepts it, and its maps have the sizes that the loader
//! expects.

use std::{fs, os::fd::AsFd};

use aya::maps::loaded_maps;
use covalent_ebpf::{
    DESTINATIONS_MAX, ETHERTYPES_MAX, FIVE_TUPLES_MAX, PORTS_MAX, PREFIXES_MAX, QUEUES_MAX,
    Steering, VLANS_MAX,
};

use crate::{require_root, support::test_run::*};

#[test]
fn the_kernel_accepts_the_program_and_its_maps_have_the_declared_sizes() {
    require_root!();
    let steering = Steering::load().unwrap();
    let program = aya::programs::loaded_programs()
        .flatten()
        .find(|program| program.id() == steering.program_id())
        .unwrap();
    assert_eq!(program.name_as_str(), Some("steer"));
    // The kernel's limit is a million. Stay far below it, so that a change does not reach it
    // unnoticed.
    let verified = program.verified_instruction_count().unwrap();
    println!(
        "verified {verified} instructions, jitted to {} bytes",
        program.size_jitted()
    );
    assert!(
        verified < 100_000,
        "the verifier followed {verified} instructions"
    );
    // Name, bytes of a key, bytes of a value, entries.
    let mut found: Vec<(String, u32, u32, u32)> = Vec::new();
    let ids = program.map_ids().unwrap().unwrap();
    for map in loaded_maps()
        .flatten()
        .filter(|map| ids.contains(&map.id()))
    {
        found.push((
            map.name_as_str().unwrap().to_owned(),
            map.key_size(),
            map.value_size(),
            map.max_entries(),
        ));
    }
    found.sort();
    let counter_bytes = 32 * 8;
    let expected = [
        (".rodata", 4, 512, 1),
        ("COUNTERS", 4, counter_bytes, 1),
        ("DESTINATIONS", 20, 4, DESTINATIONS_MAX),
        ("ETHERTYPES", 2, 4, ETHERTYPES_MAX),
        ("FIVE_TUPLES", 40, 4, FIVE_TUPLES_MAX),
        ("PORTS", 4, 4, PORTS_MAX),
        ("PREFIXES_V4", 8, 4, PREFIXES_MAX),
        ("PREFIXES_V6", 20, 4, PREFIXES_MAX),
        ("SETTINGS", 4, 4, 3),
        ("VLANS", 2, 4, VLANS_MAX),
        ("XSKS", 4, 4, 2 * QUEUES_MAX),
    ];
    assert_eq!(
        found,
        expected.map(|(name, key, value, entries)| (name.to_owned(), key, value, entries))
    );
}

#[test]
fn the_object_is_stripped_and_names_no_path_of_its_build_machine() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/object/steer.bpf.o");
    let object = fs::read(path).unwrap();
    assert!(
        object.len() < 64 * 1024,
        "{} bytes: debug information left in?",
        object.len()
    );
    let contains = |text: &str| {
        object
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    for absent in [
        ".debug_info",
        "/home/",
        "/root/",
        "/.cargo/",
        env!("CARGO_MANIFEST_DIR"),
    ] {
        assert!(!contains(absent), "the object contains {absent}");
    }
    assert!(contains(".BTF"), "bpftool needs type information");
}

#[test]
fn every_frame_passes_to_the_kernel_by_default() {
    require_root!();
    let steering = Steering::load().unwrap();
    for frame in [vec![0xff; 14], vec![0; 64], vec![0xff; 1_514]] {
        assert_eq!(
            test_run(steering.as_fd(), &frame, How::default())
                .unwrap()
                .0,
            XDP_PASS
        );
    }
    let counters = steering.counters().unwrap();
    assert_eq!((counters.frames(), counters.default.to_kernel), (3, 3));
}

#[test]
fn it_can_be_moved_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Steering>();
}
