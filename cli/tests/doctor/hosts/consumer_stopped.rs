//! An application was stopped while frames come for it: its pipe fills and then loses them.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use covalent::{Device, Timeout};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    broken::{Broken, Expected, MadeOf},
    support::{Guarded, node::Node},
};

/// More than the application's pipe of 64 KiB holds.
const FRAMES: usize = 4_000;

pub const HOST: Broken = Broken {
    made_of: MadeOf::Node,
    breaks: |ward| {
        let sender = Node::up(ward.place(), "sender", &ward.at("cable.sock"), "");
        let programs = Path::new(env!("CARGO_BIN_EXE_covalent")).parent().unwrap();
        let mut echo = Command::new(programs.join("covalent-echo"))
            .args(["--port", "p0", "--pipe-kib", "64", "--socket"])
            .arg(ward.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = BufReader::new(echo.stdout.take().unwrap());
        assert!(printed.lines().any(|line| line.unwrap().contains("ready")));
        let pid = Pid::from_raw(echo.id().try_into().unwrap());
        // It is ended, stopped or not, before the nodes are.
        ward.kept.push(Box::new(Guarded(echo)));
        kill(pid, Signal::SIGSTOP).unwrap();
        let device = Device::attach(sender.socket(), "sender").unwrap();
        // A pipe of the same size: its remaining contents are not sent after it is closed.
        let mut out = device.tx_pipe(64 << 10, "p0").unwrap();
        for _ in 0..FRAMES {
            out.send(&[0xff; 60], Timeout::FOREVER).unwrap();
        }
        drop(out);
        drop(device);
        ward.kept.push(Box::new(sender));
    },
    findings: &[
        Expected {
            check: "pipe 0 of session …",
            level: "failed",
            found: &[
                "% full, and its application takes nothing",
                "covalent-echo, process",
                "which is stopped",
            ],
            cure: "kill -CONT ",
        },
        Expected {
            check: "port p0: full pipes",
            level: "warning",
            found: &["dropped so far because a pipe was full"],
            cure: "covalent pipes",
        },
    ],
    mend: |ward, cures| {
        ward.filled_a_pipe = true;
        ward.type_in(&cures[0]);
    },
};
