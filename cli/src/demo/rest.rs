//! The resources that the daemons use while idle.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::{
    time::{ClockId, clock_getcpuclockid},
    unistd::Pid,
};
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
pub struct IdleUsage {
    /// Its node.
    pub node: &'static str,
    /// Its program.
    pub program: String,
    /// Share of one core, 0 to 1 (more with several busy threads).
    pub cpu_share: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
}

impl IdleUsage {
    /// Whether it is below both limits.
    pub fn is_modest(&self) -> bool {
        self.cpu_share < CPU_SHARE_MAX && self.resident_bytes < RESIDENT_BYTES_MAX
    }
}

/// Watches both nodes' processes for `duration`.
///
/// # Errors
/// When one of them is gone.
pub fn watch(nodes: &Nodes, duration: Duration, interrupt: &Interrupt) -> Result<Vec<IdleUsage>> {
    let processes: Vec<(&'static str, String, u32)> = nodes
        .each()
        .iter()
        .flat_map(|node| {
            node.processes()
                .into_iter()
                .map(|(program, pid)| (node.name(), program.to_owned(), pid))
        })
        .collect();
    let measure = || -> Result<Vec<Duration>> {
        processes.iter().map(|(_, _, pid)| cpu_time(*pid)).collect()
    };
    let before = measure()?;
    let began = Instant::now();
    interrupt.sleep(duration)?;
    let after = measure()?;
    let elapsed = began.elapsed();
    processes
        .iter()
        .zip(before.iter().zip(after))
        .map(|((node, program, pid), (before, after))| {
            Ok(IdleUsage {
                node,
                program: program.clone(),
                cpu_share: after.saturating_sub(*before).div_duration_f64(elapsed),
                resident_bytes: resident_bytes(*pid)?,
            })
        })
        .collect()
}

/// Returns the CPU time of a process, including its exited threads. A sum over the existing threads
/// would decrease when one exits.
fn cpu_time(pid: u32) -> Result<Duration> {
    let time = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid)?)).and_then(ClockId::now);
    Ok(time
        .with_context(|| format!("process {pid} has no CPU clock: it has exited"))?
        .into())
}

fn resident_bytes(pid: u32) -> Result<u64> {
    let status = Process::new(i32::try_from(pid)?).and_then(|process| process.status());
    let status = status.with_context(|| format!("process {pid} has exited"))?;
    let kib = status
        .vmrss
        .with_context(|| format!("process {pid} has no memory: it has ended"))?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_uses_time() {
        let own = std::process::id();
        assert!(resident_bytes(own).expect("it is here") > 100 << 10);
        let before = cpu_time(own).expect("it is here");
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        assert!(cpu_time(own).expect("it is here") > before);
    }

    #[test]
    fn the_time_of_an_ended_thread_still_counts() {
        let own = std::process::id();
        let before = cpu_time(own).expect("it is here");
        let busy = std::thread::spawn(|| {
            let spent = || {
                ClockId::CLOCK_THREAD_CPUTIME_ID
                    .now()
                    .map(Duration::from)
                    .expect("a clock")
            };
            while spent() < Duration::from_millis(50) {
                std::hint::spin_loop();
            }
        });
        busy.join().expect("it does not panic");
        assert!(cpu_time(own).expect("it is here") - before >= Duration::from_millis(50));
    }

    #[test]
    fn a_process_that_is_gone_is_an_error_and_not_idle() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let pid = child.id();
        child.wait().expect("waited for");
        assert!(cpu_time(pid).is_err() && resident_bytes(pid).is_err());
    }

    #[test]
    fn both_limits_count() {
        let rest = IdleUsage {
            node: "a",
            program: "covalentd".into(),
            cpu_share: 0.01,
            resident_bytes: 50 << 20,
        };
        assert!(rest.is_modest());
        assert!(
            !IdleUsage {
                cpu_share: 0.03,
                ..rest.clone()
            }
            .is_modest()
        );
        assert!(
            !IdleUsage {
                resident_bytes: 101 << 20,
                ..rest
            }
            .is_modest()
        );
    }
}
