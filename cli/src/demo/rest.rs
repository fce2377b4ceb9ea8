//! What the daemons take while nothing happens.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use procfs::process::Process;
use serde::Serialize;

use super::nodes::Nodes;
use crate::interrupt::Interrupt;

/// Resident memory that a daemon may take, in bytes.
const RESIDENT_BYTES_MAX: u64 = 100 << 20;

/// Share of one core that a daemon may take.
const CPU_SHARE_MAX: f64 = 0.02;

/// One process at rest.
#[derive(Debug, Clone, Serialize)]
pub struct Rest {
    /// Its node.
    pub node: &'static str,
    /// Its program.
    pub program: String,
    /// Share of one core, 0 to 1 (more with several busy threads).
    pub cpu_share: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
}

impl Rest {
    /// Whether it is below both limits.
    pub fn is_modest(&self) -> bool {
        self.cpu_share < CPU_SHARE_MAX && self.resident_bytes < RESIDENT_BYTES_MAX
    }
}

/// Watches both nodes' processes for `duration`.
///
/// # Errors
/// When one of them is gone.
pub fn watch(nodes: &Nodes, duration: Duration, interrupt: &Interrupt) -> Result<Vec<Rest>> {
    let processes: Vec<(&'static str, String, u32)> = nodes
        .each()
        .iter()
        .flat_map(|node| {
            node.processes()
                .into_iter()
                .map(|(program, pid)| (node.name(), program.to_owned(), pid))
        })
        .collect();
    let measure =
        || -> Result<Vec<u64>> { processes.iter().map(|(_, _, pid)| cpu_ns(*pid)).collect() };
    let before = measure()?;
    let began = Instant::now();
    interrupt.sleep(duration)?;
    let after = measure()?;
    let elapsed_ns = began.elapsed().as_nanos() as f64;
    processes
        .iter()
        .zip(before.iter().zip(after))
        .map(|((node, program, pid), (before, after))| {
            Ok(Rest {
                node,
                program: program.clone(),
                cpu_share: after.saturating_sub(*before) as f64 / elapsed_ns,
                resident_bytes: resident_bytes(*pid)?,
            })
        })
        .collect()
}

/// CPU time of all threads of a process, in nanoseconds: finer than the clock ticks of `/proc/PID/stat`.
fn cpu_ns(pid: u32) -> Result<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("process {pid} is gone"))?;
    Ok(tasks
        .filter_map(Result::ok)
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum())
}

fn resident_bytes(pid: u32) -> Result<u64> {
    let status = Process::new(i32::try_from(pid)?).and_then(|process| process.status());
    let status = status.with_context(|| format!("process {pid} is gone"))?;
    Ok(status.vmrss.unwrap_or(0) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_uses_time() {
        let own = std::process::id();
        assert!(resident_bytes(own).expect("it is here") > 100 << 10);
        let before = cpu_ns(own).expect("it is here");
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        assert!(cpu_ns(own).expect("it is here") > before);
    }

    #[test]
    fn both_limits_count() {
        let rest = Rest {
            node: "a",
            program: "covalentd".into(),
            cpu_share: 0.01,
            resident_bytes: 50 << 20,
        };
        assert!(rest.is_modest());
        assert!(
            !Rest {
                cpu_share: 0.03,
                ..rest.clone()
            }
            .is_modest()
        );
        assert!(
            !Rest {
                resident_bytes: 101 << 20,
                ..rest
            }
            .is_modest()
        );
    }
}
