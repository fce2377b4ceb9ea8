//! A user whom the daemon does not admit connects, as from an application in a container. It needs
//! membership, and no privilege.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::NodeAlone,
    breaks: |ward| {
        ward.before = ["setpriv", "--reuid", "54321", "--regid", "1", "--clear-groups"]
            .map(Into::into)
            .to_vec();
    },
    findings: &[Expected {
        check: "covalentd",
        level: "failed",
        found: &["user 54321 may not connect"],
        cure: "a member of node.group, and needs no capability",
    }],
    mend: |ward, _| {
        // The number of the group `daemon` everywhere.
        ward.edit("[node]\n", "[node]\ngroup = \"daemon\"\n");
        ward.run(&["down"]);
        ward.up();
    },
};
