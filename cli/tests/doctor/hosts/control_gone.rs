//! The control process was killed, the daemon runs on.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Node,
    breaks: |ward| ward.kill("covalent-control"),
    findings: &[
        Expected {
            check: "covalent-control",
            level: "warning",
            found: &["does not answer, while covalentd runs"],
            cure: "covalent up --config PLACE/covalent.toml",
        },
        Expected {
            check: "socket PLACE/run/control.sock",
            level: "warning",
            found: &["its process was killed"],
            cure: "the next start replaces it",
        },
        Expected {
            check: "record PLACE/run/covalent-control.pid",
            level: "warning",
            found: &["its process is gone"],
            cure: "the next `covalent up` replaces it",
        },
    ],
    mend: |ward, cures| ward.type_in(&cures[0]),
};
