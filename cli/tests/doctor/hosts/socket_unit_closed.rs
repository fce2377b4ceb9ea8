//! systemd makes the node's socket for another group than the file names.

use std::fs;

use crate::{
    broken::{Broken, Expected, MadeOf},
    ward::{Ward, command},
};

/// The unit, where this mount namespace alone has it.
const UNIT: &str = "/run/systemd/system/covalentd.socket";

fn write(ward: &Ward, more: &str) {
    let socket = ward.socket();
    let socket = socket.display();
    let text = format!("[Socket]\nListenSequentialPacket={socket}\nSocketMode=0660\n{more}");
    fs::write(UNIT, text).unwrap();
}

pub const HOST: Broken = Broken {
    made_of: MadeOf::Interface,
    breaks: |ward| {
        ward.edit("[node]\n", "[node]\ngroup = \"daemon\"\n");
        command("mount -t tmpfs none /run");
        fs::create_dir_all("/run/systemd/system").unwrap();
        write(ward, "");
    },
    findings: &[Expected {
        check: "unit /run/systemd/system/covalentd.socket",
        level: "warning",
        found: &["members of node.group = \"daemon\" do not get into", "mode is 0660, its group \
            root"],
        cure: "SocketGroup=daemon and SocketMode=0660",
    }],
    mend: |ward, _| write(ward, "SocketGroup=daemon\n"),
};
