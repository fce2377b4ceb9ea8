//! The kernel has an address on the interface, and the file passes no received frames to the
//! kernel.

use crate::{
    broken::{Broken, Expected, MadeOf},
    ward::command,
};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| {
        command("ip address add 192.0.2.1/24 dev near0");
        ward.edit("[dataplane]\n", "[dataplane]\nmiss = \"drop\"\n");
    },
    findings: &[Expected {
        check: "port p0: misses go to",
        level: "warning",
        found: &["nowhere: they are dropped", "near0 has the kernel's address 192.0.2.1/24"],
        cure: "dataplane.miss = \"kernel\"",
    }],
    mend: |ward, _| ward.edit("miss = \"drop\"", "miss = \"kernel\""),
};
