//! Two lanes are to run on one core.

use crate::broken::{Broken, Expected, MadeOf};

/// A core that this process may run on.
fn core() -> usize {
    let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
    let mut cores = 0..nix::sched::CpuSet::count();
    cores.find(|&core| set.is_set(core).unwrap()).unwrap()
}

pub const HOST: Broken = Broken {
    made_of: MadeOf::File,
    breaks: |ward| {
        let lane = format!("[[lane]]\ncore = {}\n", core());
        ward.edit("[control]\n", &format!("{lane}{lane}[control]\n"));
    },
    findings: &[Expected {
        check: "lane 1",
        level: "warning",
        found: &["shares core", "with lane 0"],
        cure: "give each lane its own core",
    }],
    mend: |ward, _| ward.edit(&format!("core = {}\n", core()), ""),
};
