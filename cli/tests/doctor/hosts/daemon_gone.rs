//! The daemon was killed, control runs on.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Node,
    breaks: |ward| ward.kill("covalentd"),
    findings: &[
        Expected {
            check: "covalentd",
            level: "failed",
            found: &["does not run, but covalent-control does"],
            cure: "covalent up --config PLACE/covalent.toml",
        },
        Expected {
            check: "socket PLACE/run/covalentd.sock",
            level: "warning",
            found: &["its process was killed"],
            cure: "the next start replaces it",
        },
        Expected {
            check: "port p0: cable PLACE/cable.sock",
            level: "warning",
            found: &["its process was killed"],
            cure: "the next start replaces it",
        },
        Expected {
            check: "record PLACE/run/covalentd.pid",
            level: "warning",
            found: &["its process is gone"],
            cure: "the next `covalent up` replaces it",
        },
    ],
    mend: |ward, cures| ward.type_in(&cures[0]),
};
