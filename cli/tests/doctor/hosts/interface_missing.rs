//! There is no interface of the name that the file has.

use crate::{
    broken::{Broken, Expected, MadeOf},
    ward::command,
};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |_| command("ip link del near0"),
    findings: &[Expected {
        check: "port p0: interface",
        level: "failed",
        found: &["there is no interface `near0`"],
        cure: "`ip link` lists those that exist",
    }],
    mend: |ward, _| ward.make_veth(),
};
