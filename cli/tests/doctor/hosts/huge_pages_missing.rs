//! The file requires huge pages, and none are reserved.

use crate::{
    broken::{Broken, Expected, MadeOf},
    ward::command,
};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| {
        // This mount namespace shows no huge pages, whatever the machine has.
        command("mount -t tmpfs none /sys/kernel/mm/hugepages");
        ward.edit("huge_pages = \"never\"", "huge_pages = \"require\"");
    },
    findings: &[Expected {
        check: "huge pages",
        level: "failed",
        found: &["0 huge pages of 2 MiB are free, 5 needed", "covalentd will not start"],
        cure: "sysctl -w vm.nr_hugepages=256",
    }],
    mend: |ward, _| ward.edit("huge_pages = \"require\"", "huge_pages = \"never\""),
};
