//! A lane that spins for ever on the only core.

use crate::broken::{Broken, Expected, MadeOf};

pub const HOST: Broken = Broken {
    made_of: MadeOf::File,
    breaks: |ward| {
        let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let core = (0..1024).find(|&core| set.is_set(core).unwrap()).unwrap();
        ward.before = vec!["taskset".into(), "-c".into(), core.to_string()];
        ward.edit("[dataplane]\n", "[dataplane]\nidle = \"poll\"\n");
    },
    findings: &[
        Expected {
            check: "lane 0",
            level: "warning",
            found: &["spins and floats"],
            cure: "idle = \"adaptive\"",
        },
        Expected {
            check: "lanes",
            level: "warning",
            found: &["1 lanes that spin for ever", "on 1 cores"],
            cure: "idle = \"adaptive\"",
        },
    ],
    mend: |ward, _| ward.edit("idle = \"poll\"", "idle = \"adaptive\""),
};
