//! The interface has more receive queues than the file has the port serve.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| ward.edit("interface = \"near0\"\n", "interface = \"near0\"\nqueues = 1\n"),
    findings: &[Expected {
        check: "port p0: queues",
        level: "warning",
        found: &["queues = 1, but near0 spreads frames over 2"],
        cure: "queues = 0",
    }],
    mend: |ward, _| ward.edit("queues = 1", "queues = 0"),
};
