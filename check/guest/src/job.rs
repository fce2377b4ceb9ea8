//! The jobs: each is a script on a kernel, with or without a NIC.

use std::time::Duration;

use crate::{nic::Nic, stock::Line};

/// One job.
#[derive(Debug, Clone)]
pub struct Job {
    /// The script, `check/guest/jobs/NAME.sh`.
    pub script: &'static str,
    /// The kernel.
    pub line: Line,
    /// The NIC, if it is about one.
    pub nic: Option<Nic>,
    /// The requested `dataplane.xdp`: `native` or `generic`.
    pub xdp: &'static str,
    /// The requested `copy`: `copy` or `zero-copy`. The job fails if the socket reports another
    /// mode.
    pub copy: &'static str,
    /// Whether DMA goes through a virtual IOMMU.
    pub iommu: bool,
    /// Whether it measures times.
    pub measures: bool,
    /// After how long it has failed.
    pub deadline: Duration,
}

impl Job {
    /// A job without a NIC.
    fn plain(script: &'static str, line: Line, deadline: Duration) -> Self {
        Self {
            script,
            line,
            nic: None,
            xdp: "native",
            copy: "copy",
            iommu: false,
            measures: false,
            deadline,
        }
    }

    /// Returns its name, which is also the name of its result.
    pub fn name(&self) -> String {
        let mut name = format!("{}-{}", self.script, self.line.name());
        if let Some(nic) = self.nic {
            name += "-";
            name += nic.driver();
        }
        if self.nic.is_some() && !self.iommu {
            name += "-";
            name += self.copy;
        }
        name
    }

    /// The program of tests that it runs.
    pub fn tests(&self) -> Option<Tests> {
        let (name, feature) = match self.script {
            "conformance" => ("ports", None),
            "dpdk" => ("dpdk", Some("dpdk")),
            _ => return None,
        };
        Some(Tests { name, feature })
    }
}

/// A program of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tests {
    /// Its name in cargo.
    pub name: &'static str,
    /// The feature that it takes.
    pub feature: Option<&'static str>,
}

/// Every job, in the order in which they are run.
pub fn all() -> Vec<Job> {
    let mut jobs: Vec<Job> = Line::ALL
        .map(|line| Job::plain("boot", line, Duration::from_secs(120)))
        .into();
    let on_nic = |script, mode: &Mode| Job {
        nic: Some(mode.nic),
        xdp: mode.xdp,
        copy: mode.copy,
        ..Job::plain(script, mode.line, DEADLINE)
    };
    for script in ["conformance", "demo", "flap", "unplug"] {
        let wanted = MODES
            .iter()
            .filter(|mode| script == "conformance" || mode.is_shown);
        jobs.extend(wanted.map(|mode| on_nic(script, mode)));
    }
    for line in [Line::TrixieBackports, Line::Bookworm] {
        jobs.push(Job::plain("netem", line, DEADLINE));
    }
    for nic in [Nic::Igb, Nic::Virtio] {
        jobs.push(Job {
            nic: Some(nic),
            iommu: true,
            ..Job::plain("dpdk", Line::TrixieBackports, DEADLINE)
        });
    }
    // Later kernels' soft-RoCE is slower, so this one is the fair comparison.
    for script in ["roce", "retry"] {
        jobs.push(Job {
            measures: true,
            ..Job::plain(script, Line::Bookworm, DEADLINE)
        });
    }
    jobs
}

/// Default time after which a job has failed.
const DEADLINE: Duration = Duration::from_secs(460);

/// A mode of AF_XDP on a kernel and a NIC.
struct Mode {
    line: Line,
    nic: Nic,
    xdp: &'static str,
    copy: &'static str,
    /// Whether the demonstration, flapping cables and unplugging are run in it too.
    is_shown: bool,
}

const fn mode(line: Line, nic: Nic, xdp: &'static str, copy: &'static str, is_shown: bool) -> Mode {
    Mode {
        line,
        nic,
        xdp,
        copy,
        is_shown,
    }
}

/// AF_XDP modes by kernel and NIC. Zero-copy exists on virtio-net since Linux 6.11 and on igb since
/// 6.14. e1000e had no native XDP before Linux 7.
const MODES: [Mode; 8] = [
    mode(
        Line::TrixieBackports,
        Nic::Virtio,
        "native",
        "zero-copy",
        true,
    ),
    mode(Line::TrixieBackports, Nic::Igb, "native", "zero-copy", true),
    mode(Line::TrixieBackports, Nic::E1000e, "generic", "copy", true),
    mode(
        Line::BookwormBackports,
        Nic::Virtio,
        "native",
        "copy",
        false,
    ),
    mode(
        Line::BookwormBackports,
        Nic::Vmxnet3,
        "generic",
        "copy",
        true,
    ),
    mode(Line::Bookworm, Nic::Virtio, "native", "copy", false),
    mode(Line::Bookworm, Nic::Igb, "native", "copy", false),
    mode(Line::Bookworm, Nic::E1000e, "generic", "copy", false),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_job_has_a_script_and_a_name_of_its_own() {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs");
        let mut names: Vec<String> = all().iter().map(Job::name).collect();
        for job in all() {
            assert!(
                scripts.join(job.script).with_extension("sh").is_file(),
                "{}",
                job.script
            );
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
