//! The other end of the cable is down.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| ward.on_far_side("ip link set far0 down"),
    findings: &[Expected {
        check: "port p0: interface",
        level: "warning",
        found: &["near0 (veth) is up and has no carrier"],
        cure: "check the cable and the other end",
    }],
    mend: |ward, _| ward.on_far_side("ip link set far0 up"),
};
