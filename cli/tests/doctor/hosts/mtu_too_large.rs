//! The interface's MTU exceeds the frame size of packet memory.

use crate::{
    broken::{Broken, Expected, MadeOf},
    ward::command,
};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |_| command("ip link set near0 mtu 9000"),
    findings: &[Expected {
        check: "port p0: MTU",
        level: "failed",
        found: &["9000 bytes", "at most 1770"],
        cure: "ip link set near0 mtu 1770",
    }],
    mend: |ward, cures| ward.type_in(&cures[0]),
};
