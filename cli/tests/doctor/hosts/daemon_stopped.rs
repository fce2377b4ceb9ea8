//! The daemon was stopped by a signal or by a debugger.

use nix::sys::signal::{Signal, kill};

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Node,
    breaks: |ward| kill(ward.pid("covalentd"), Signal::SIGSTOP).unwrap(),
    findings: &[Expected {
        check: "covalentd",
        level: "failed",
        found: &["is stopped (SIGSTOP or a debugger)"],
        cure: "kill -CONT ",
    }],
    mend: |ward, cures| ward.type_in(&cures[0]),
};
