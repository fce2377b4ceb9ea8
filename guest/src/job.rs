//! What is run: each job is a script on a kernel, with a NIC or without.

use std::time::Duration;

use crate::{nic::Nic, stock::Line};

/// One job.
#[derive(Debug, Clone)]
pub struct Job {
    /// The script, `guest/jobs/NAME.sh`.
    pub script: &'static str,
    /// The kernel.
    pub line: Line,
    /// The NIC, if it is about one.
    pub nic: Option<Nic>,
    /// `dataplane.xdp` that is asked for: `native` or `generic`.
    pub xdp: &'static str,
    /// `copy` that is asked for: `copy` or `zero-copy`. The job fails if the socket says otherwise.
    pub copy: &'static str,
    /// Whether DMA goes through a virtual IOMMU.
    pub iommu: bool,
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
            deadline,
        }
    }

    /// Its name: that of its result.
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

    /// The program of tests that it runs, by package and name.
    pub fn tests(&self) -> Option<(&'static str, &'static str)> {
        match self.script {
            "conformance" => Some(("covalent-dataplane", "ports")),
            _ => None,
        }
    }
}

/// Every job, in the order in which they are run.
pub fn all() -> Vec<Job> {
    let mut jobs: Vec<Job> = Line::ALL
        .map(|line| Job::plain("boot", line, Duration::from_secs(120)))
        .into();
    for &(line, nic, xdp, copy) in MODES {
        jobs.push(Job {
            nic: Some(nic),
            xdp,
            copy,
            ..Job::plain("conformance", line, Duration::from_secs(900))
        });
    }
    jobs
}

/// AF_XDP: on which kernel and NIC, and in which mode. Zero-copy on virtio-net came with Linux 6.12, on igb with 6.14; e1000e knows no XDP of its own.
const MODES: &[(Line, Nic, &str, &str)] = &[
    (Line::TrixieBackports, Nic::Virtio, "native", "zero-copy"),
    (Line::TrixieBackports, Nic::Igb, "native", "zero-copy"),
    (Line::TrixieBackports, Nic::E1000e, "generic", "copy"),
    (Line::BookwormBackports, Nic::Virtio, "native", "copy"),
    (Line::BookwormBackports, Nic::Vmxnet3, "native", "copy"),
    (Line::Bookworm, Nic::Virtio, "native", "copy"),
    (Line::Bookworm, Nic::Igb, "native", "copy"),
    (Line::Bookworm, Nic::E1000e, "generic", "copy"),
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
