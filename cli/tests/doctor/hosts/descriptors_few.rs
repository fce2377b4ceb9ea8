//! The daemon would get few descriptors.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::File,
    breaks: |ward| ward.before = ["prlimit", "--nofile=256:256"].map(Into::into).to_vec(),
    findings: &[Expected {
        check: "descriptors",
        level: "warning",
        found: &["256 at most"],
        cure: "LimitNOFILE=1048576",
    }],
    mend: |ward, _| ward.before.clear(),
};
