//! Checks the table of drivers against results from guests (`check/guest/results`).
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use covalent_config::{
    CopyMode, XdpMode,
    auto::{Copying, Hook, InterfaceFacts, Linux, Wishes, choose},
};
use serde_json::Value;

#[test]
fn the_table_matches_the_measured_results() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../check/guest/results");
    let mut seen = 0;
    for entry in fs::read_dir(results).unwrap() {
        let path = entry.unwrap().path();
        let result: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let (Some(driver), Some(mode)) = (result["nic"].as_str(), result["facts"]["mode"].as_str())
        else {
            continue;
        };
        if !mode.starts_with("AF_XDP") || mode.contains("veth") {
            continue;
        }
        let facts = InterfaceFacts {
            linux: Linux::of_release(result["kernel"].as_str().unwrap()),
            driver,
            mtu_bytes: 1500,
            queues: 1,
            queues_most: 0,
        };
        let wishes = Wishes {
            xdp: XdpMode::Auto,
            copy: CopyMode::Auto,
            queues: 0,
        };
        let choices = choose(&facts, wishes);
        let (native, copies) = (mode.contains("native"), !mode.contains("zero-copy"));
        let agrees = match choices.xdp.value {
            Hook::Native => native,
            Hook::Generic => !native,
            Hook::Ask => true,
        } && match choices.copy.value {
            Copying::ZeroCopy => !copies,
            Copying::Copy => copies,
            Copying::Ask => true,
        };
        assert!(agrees, "{}: {mode}, but {choices:?}", path.display());
        seen += 1;
    }
    assert!(seen >= 10, "{seen} results");
}
