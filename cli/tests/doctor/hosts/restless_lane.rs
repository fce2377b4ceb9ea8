//! A lane at rest takes a whole core, because the file has it spin for a second before it sleeps.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Node,
    breaks: |ward| {
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
