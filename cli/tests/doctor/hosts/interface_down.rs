//! The interface is set down, and no running process would set it up.

use crate::{
    broken::{Broken, Expected, MadeOf},
    ward::command,
};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |_| command("ip link set near0 down"),
    findings: &[Expected {
        check: "port p0: interface",
        level: "warning",
        found: &["near0 (veth) is down"],
        cure: "ip link set near0 up",
    }],
    mend: |_, cures| command(cures[0].split_once("else: ").unwrap().1),
};
