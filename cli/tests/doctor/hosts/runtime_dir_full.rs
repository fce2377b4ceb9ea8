//! The file system of the node's sockets is full.

use std::fs;

use crate::{
    broken::{Broken, Expected, MadeOf},
    ward::command,
};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| {
        let run = ward.at("run");
        fs::create_dir(&run).unwrap();
        command(&format!("mount -t tmpfs -o size=128k none {}", run.display()));
        let mut room = 128 << 10;
        while fs::write(run.join("filler"), vec![0; room]).is_err() {
            room -= 4096;
        }
    },
    findings: &[Expected {
        check: "node.runtime_dir",
        level: "failed",
        found: &["lies on a full file system: 0 KiB free, 64 KiB needed"],
        cure: "df -h PLACE/run",
    }],
    mend: |ward, cures| {
        ward.type_in(&cures[0].replace(" shows it", ""));
        fs::remove_file(ward.at("run/filler")).unwrap();
    },
};
