//! The other end of the virtual cable leaves checksums to hardware that is not there.

use crate::{
    broken::{Broken, Expected, MadeOf},
    ward::command,
};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| {
        command("ip link add near1 type veth peer name far1");
        command("ip link set near1 up");
        command("ip link set far1 up");
        ward.edit("near0", "near1");
    },
    findings: &[Expected {
        check: "port p0: offloads",
        level: "warning",
        found: &["far1, the other end of near1"],
        cure: "ethtool -K far1 tx off",
    }],
    mend: |ward, cures| ward.type_in(&cures[0]),
};
