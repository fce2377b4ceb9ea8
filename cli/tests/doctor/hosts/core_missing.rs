//! A lane is to run on a core that the machine does not have.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::File,
    breaks: |ward| ward.edit("[control]\n", "[[lane]]\ncore = 1023\n[control]\n"),
    findings: &[Expected {
        check: "lane 0",
        level: "failed",
        found: &["core 1023 does not exist"],
        cure: "leave `core` out",
    }],
    mend: |ward, _| ward.edit("core = 1023\n", ""),
};
