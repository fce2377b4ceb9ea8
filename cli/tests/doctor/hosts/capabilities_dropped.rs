//! The user who starts the node lacks capabilities.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| {
        ward.before = ["setpriv", "--bounding-set", "-bpf,-sys_admin,-net_raw"]
            .map(Into::into)
            .to_vec();
    },
    findings: &[Expected {
        check: "privilege",
        level: "failed",
        found: &["CAP_BPF (to load", "CAP_NET_RAW (to open"],
        cure: "run as root (sudo covalent",
    }],
    mend: |ward, _| ward.before.clear(),
};
