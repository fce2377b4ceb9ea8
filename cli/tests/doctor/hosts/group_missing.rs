//! The group that may attach does not exist.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::File,
    breaks: |ward| ward.edit("[node]\n", "[node]\ngroup = \"no-such-group\"\n"),
    findings: &[Expected {
        check: "group",
        level: "failed",
        found: &["there is no such group"],
        cure: "groupadd --system no-such-group",
    }],
    mend: |ward, _| ward.edit("group = \"no-such-group\"\n", ""),
};
