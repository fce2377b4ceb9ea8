//! Both processes were killed by SIGKILL, and their files are still there.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Node,
    breaks: |ward| {
        ward.kill("covalent-control");
        ward.kill("covalentd");
    },
    findings: &[
        Expected {
            check: "covalentd",
            level: "warning",
            found: &["does not run, although the node was started before"],
            cure: "covalent up --config PLACE/covalent.toml",
        },
        Expected {
            check: "socket PLACE/run/covalentd.sock",
            level: "warning",
            found: &["its process was killed. Its shared memory was freed with it"],
            cure: "`rm PLACE/run/covalentd.sock` removes it",
        },
        Expected {
            check: "socket PLACE/run/control.sock",
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
            cure: "`covalent down` removes it",
        },
        Expected {
            check: "record PLACE/run/covalent-control.pid",
            level: "warning",
            found: &["its process is gone"],
            cure: "`covalent down` removes it",
        },
    ],
    mend: |ward, _| ward.up(),
};
