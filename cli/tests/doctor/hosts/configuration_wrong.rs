//! The file has a key that does not exist.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::File,
    breaks: |ward| ward.edit("[dataplane]\n", "[dataplane]\nspinn_us = 5\n"),
    findings: &[Expected {
        check: "configuration",
        level: "failed",
        found: &["spinn_us", "covalent.toml"],
        cure: "covalent config print-default",
    }],
    mend: |ward, _| ward.edit("spinn_us = 5\n", ""),
};
