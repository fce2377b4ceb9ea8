//! Another program holds the interface's XDP hook.

use std::fs;

use covalent_ebpf::{AttachMode, Steering};
use nix::net::if_::if_nametoindex;

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| {
        let mut program = Steering::load().unwrap();
        let index = if_nametoindex("near0").unwrap();
        program.attach(index, "near0", AttachMode::Auto).unwrap();
        ward.kept.push(Box::new(program));
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        assert!(!own.contains("covalentd"));
    },
    findings: &[Expected {
        check: "port p0: XDP program",
        level: "failed",
        found: &["near0 has the XDP program `steer`", "held by", "process"],
        cure: "bpftool link detach id",
    }],
    mend: |ward, _| ward.kept.clear(),
};
