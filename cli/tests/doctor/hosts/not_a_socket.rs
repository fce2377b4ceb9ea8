//! Where the daemon's socket is to be lies something else.

use std::fs;

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::File,
    breaks: |ward| {
        fs::create_dir(ward.at("run")).unwrap();
        fs::write(ward.socket(), "").unwrap();
    },
    findings: &[Expected {
        check: "socket PLACE/run/covalentd.sock",
        level: "failed",
        found: &["something that is not a socket"],
        cure: "mv PLACE/run/covalentd.sock PLACE/run/covalentd.sock.old",
    }],
    mend: |ward, cures| ward.type_in(&cures[0]),
};
