//! The committed header is the one that this source generates.

use std::{collections::BTreeSet, fs, path::Path};

use crate::declared::{code, functions, name_of};

/// Set to write the header instead of comparing it.
const WRITE: &str = "COVALENT_WRITE_HEADER";

/// In the header's order.
const MODULES: [&str; 17] = [
    "status",
    "name",
    "device",
    "notice",
    "client",
    "frames",
    "counters",
    "tuning",
    "pipe/mod",
    "framing",
    "region",
    "remote_region",
    "verb",
    "verb_queue",
    "receive_queue",
    "calls",
    "group",
];

#[test]
fn every_exported_function_is_in_the_header() {
    let declared = functions();
    let declared: BTreeSet<_> = declared.iter().map(|text| name_of(text)).collect();
    let mut exported = 0;
    for after in texts("src").split("extern \"C\" fn ").skip(1) {
        let name: String = after
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        assert!(declared.contains(name.as_str()), "{name} is missing");
        exported += 1;
    }
    assert!(exported > 80, "{exported}");
}

/// Text of all files in a folder of this crate and in its subfolders.
fn texts(folder: &str) -> String {
    fn add(folder: &Path, all: &mut String) {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                add(&path, all);
            } else {
                *all += &fs::read_to_string(path).expect("a file is text");
            }
        }
    }
    let mut all = String::new();
    add(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
        &mut all,
    );
    all
}

/// The names in `text` that a call or a declaration follows.
fn called(text: &str) -> BTreeSet<&str> {
    text.match_indices('(')
        .filter_map(|(at, _)| {
            let before = &text[..at];
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            before.rsplit(|c| !is_part(c)).next()
        })
        .filter(|name| name.starts_with("covalent_"))
        .collect()
}

#[test]
fn every_function_of_the_header_is_called_by_a_test_or_an_example() {
    let declared = functions();
    let declared: BTreeSet<_> = declared.iter().map(|text| name_of(text)).collect();
    let callers = texts("tests/live") + &texts("examples");
    let never: Vec<_> = declared.difference(&called(&callers)).copied().collect();
    assert!(never.is_empty(), "no test or example calls {never:?}");
}

/// Structs that never get another field: programs keep them in arrays, or send them to each other.
const FINAL: [&str; 14] = [
    "covalent_commit_word",
    "covalent_completion",
    "covalent_group_contact",
    "covalent_group_member",
    "covalent_in_doubt_id",
    "covalent_message",
    "covalent_name",
    "covalent_packet",
    "covalent_packet_mut",
    "covalent_post",
    "covalent_received",
    "covalent_remote_region",
    "covalent_stamp",
    "covalent_tap_head",
];

#[test]
fn each_struct_states_its_size_or_is_a_handle_or_final() {
    let code = code();
    let mut found = 0;
    for declared in code.split("typedef struct ").skip(1) {
        let (name, fields) = declared.split_once(" {").expect("a struct has fields");
        let first = fields.split(';').next().unwrap().trim();
        let (is_growing, is_handle) =
            (first == "uint32_t struct_bytes", first == "uint64_t handle");
        assert!(
            is_handle || is_growing != FINAL.contains(&name),
            "{name}: begin it with `struct_bytes`, or add it to FINAL"
        );
        found += usize::from(is_growing);
    }
    assert!(found > 10, "{found}");
}

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config =
        cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is readable");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for module in MODULES {
        builder = builder.with_src(root.join("src").join(module).with_extension("rs"));
    }
    let mut generated = Vec::new();
    builder
        .generate()
        .expect("the sources are C-like")
        .write(&mut generated);
    let path = root.join("include/covalent.h");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &generated).expect("the header can be written");
    }
    let committed = fs::read(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "{} is out of date: run `{WRITE}=1 cargo test -p covalent-c --test interface` and commit it",
        path.display()
    );
}
