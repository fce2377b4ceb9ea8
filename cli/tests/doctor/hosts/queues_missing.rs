//! The file requires more receive queues than the interface has.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| ward.edit("interface = \"near0\"\n", "interface = \"near0\"\nqueues = 4\n"),
    findings: &[Expected {
        check: "port p0: queues",
        level: "failed",
        found: &["queues = 4, but near0 has 2"],
        cure: "queues = 2",
    }],
    mend: |ward, _| ward.edit("queues = 4", "queues = 2"),
};
