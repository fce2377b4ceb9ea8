//! The interface of a port was removed and created again while control was not running to reopen
//! the port.

use crate::{
    broken::{Broken, Expected, MadeOf},
    ward::command,
};

pub const HOST: Broken = Broken {
    made_of: MadeOf::InterfaceAndNode,
    breaks: |ward| {
        ward.kill("covalent-control");
        command("ip link del near0");
        ward.lost_an_interface = true;
        ward.make_veth();
    },
    findings: &[
        Expected {
            check: "covalent-control",
            level: "warning",
            found: &["ports are not opened again"],
            cure: "covalent up --config PLACE/covalent.toml",
        },
        Expected {
            check: "links",
            level: "failed",
            found: &["none is up", "p0 is down"],
            cure: "mend the cable",
        },
        Expected {
            check: "port p0: opened",
            level: "failed",
            found: &["not: "],
            cure: "covalent-control reopens it",
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
