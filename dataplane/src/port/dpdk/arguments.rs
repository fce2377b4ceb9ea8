//! The command line with which DPDK is set up.

use super::Plan;

/// The command line that DPDK reads, its program's name first.
pub(super) fn arguments(plan: &Plan, huge: bool, cores: &[usize]) -> Vec<String> {
    let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let mut arguments = vec![
        "covalentd".to_owned(),
        // One thread for DPDK, on any core: it starts no workers.
        format!("--lcores=0@({})", cores.join(",")),
        "--no-telemetry".to_owned(),
        "--iova-mode=va".to_owned(),
        // Where a file is made nevertheless, it is this process's alone.
        format!("--file-prefix=covalent-{}", std::process::id()),
    ];
    if huge {
        arguments.push("--in-memory".to_owned());
        // DPDK waits for a lock on each hugetlbfs directory mounted below this one, and any user
        // can hold it. In-memory pages need no directory, and none is mounted below `/proc`.
        arguments.push("--huge-dir=/proc".to_owned());
    } else {
        // Together with `--in-memory` DPDK refuses it; this is the part of that which matters here.
        arguments.extend(["--no-shconf", "--no-huge", "-m"].map(str::to_owned));
        arguments.push(plan.memory_mib().to_string());
    }
    if plan.pci().is_empty() {
        arguments.push("--no-pci".to_owned());
    }
    for device in plan.pci() {
        arguments.extend(["-a".to_owned(), device.clone()]);
    }
    arguments.extend_from_slice(plan.eal_arguments());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_host_is_touched_that_no_port_names() {
        let mut plan = Plan::default();
        let virtual_only = arguments(&plan, false, &[0, 1]);
        assert!(virtual_only.iter().any(|argument| argument == "--no-pci"));
        assert!(
            virtual_only
                .windows(2)
                .any(|pair| pair[0] == "-m" && pair[1] == plan.memory_mib().to_string())
        );
        assert!(virtual_only.contains(&"--lcores=0@(0,1)".to_owned()));
        plan.add("0000:03:00.0,x=y", 1, 64);
        let with_pci = arguments(&plan, true, &[0]);
        assert!(!with_pci.iter().any(|argument| argument == "--no-pci"));
        assert!(
            with_pci
                .windows(2)
                .any(|pair| pair == ["-a", "0000:03:00.0,x=y"])
        );
        assert!(with_pci.iter().any(|argument| argument == "--in-memory"));
        for arguments in [virtual_only, with_pci] {
            assert!(
                arguments
                    .iter()
                    .any(|argument| argument == "--no-telemetry")
            );
        }
    }
}
