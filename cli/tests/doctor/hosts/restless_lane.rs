//! A lane at rest takes a whole core, because the file has it spin for a second before it sleeps.

use std::fs;

use crate::{
    broken::{Broken, Expected, MadeOf},
    ward,
};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Node,
    breaks: |ward| {
        // The finding depends on the CPU share, and other busy processes would leave the lane a
        // small one.
        if nix::unistd::geteuid().is_root() {
            let tasks = format!("/proc/{}/task", ward.pid("covalentd"));
            for task in fs::read_dir(tasks).unwrap() {
                let thread = task.unwrap().file_name();
                ward::command(&format!("renice -n -15 -p {}", thread.display()));
            }
        }
        ward.edit("[dataplane]\n", "[dataplane]\nspin_us = 1000000\n");
        ward.run(&["reload"]);
    },
    findings: &[Expected {
        check: "lane 0: at rest",
        level: "warning",
        found: &["% of a core", "dataplane.spin_us = 1000000"],
        cure: "covalent reload --config PLACE/covalent.toml",
    }],
    mend: |ward, _| {
        ward.edit("spin_us = 1000000", "spin_us = 50");
        ward.run(&["reload"]);
    },
};
