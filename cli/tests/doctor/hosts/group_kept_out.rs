//! Members of the group that may attach do not get to the socket.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Node,
    breaks: |ward| {
        // Every system has it.
        ward.edit("[node]\n", "[node]\ngroup = \"daemon\"\n");
        ward.run(&["down"]);
        ward.up();
        fs::set_permissions(ward.at("run"), fs::Permissions::from_mode(0o700)).unwrap();
    },
    findings: &[Expected {
        check: "group",
        level: "failed",
        found: &["members of daemon do not get past the directory", "mode 0700"],
        cure: "chmod a+x PLACE/run",
    }],
    mend: |ward, cures| ward.type_in(&cures[0]),
};
