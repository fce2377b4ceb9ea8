//! Little memory may be locked, and the capability to do so nevertheless is missing.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| {
        ward.before = ["setpriv", "--bounding-set", "-ipc_lock", "prlimit", "--memlock=65536:65536"]
            .map(Into::into)
            .to_vec();
    },
    findings: &[
        Expected {
            check: "locked memory",
            level: "failed",
            found: &["64 KiB may be locked", "9472 KiB"],
            cure: "LimitMEMLOCK=infinity",
        },
        Expected {
            check: "privilege",
            level: "failed",
            found: &["CAP_IPC_LOCK"],
            cure: "run as root",
        },
    ],
    mend: |ward, _| ward.before.clear(),
};
