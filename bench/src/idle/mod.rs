//! The CPU time and memory of two idle linked daemons.
//!
//! Both run the default configuration under `adaptive`: two interfaces with two queues each. Both
//! links are up and send idle keepalives. All threads of a daemon count.

mod results;

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use nix::{time::clock_getcpuclockid, unistd::Pid};

pub use self::results::Run;
use self::results::{IdleUsage, Results, Setup};
use crate::{
    arguments::Wire,
    host::{Host, field},
    kept::now_unix_ms,
    node::{Node, Plan, find_daemon},
    stage::Stage,
    stop,
    watch::Watch,
};

/// How long the daemons may settle after their links are up.
const SETTLING: Duration = Duration::from_millis(500);

/// Measures both daemons at once and prints the results. Returns whether the goal is met.
pub fn measure(arguments: &Wire) -> Result<bool> {
    let began_unix_ms = now_unix_ms();
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let (host, watch) = (Host::observed(), Watch::begin()?);
    let stage = Stage::build(2, 2)?;
    let start = |name, namespace, interfaces: &[&str]| {
        let plan = Plan {
            name,
            idle: "adaptive",
            core: None,
            interfaces,
            cables: &[],
            link: true,
            ring_slots: arguments.ring_slots,
            link_settings: &[],
            faulty: false,
        };
        Node::start(&daemon, namespace, &plan)
    };
    let a = start("a", &stage.a, &["a0", "a1"])?;
    let b = start("b", &stage.b, &["b0", "b1"])?;
    a.wait_for_links()?;
    b.wait_for_links()?;
    stop::sleep(SETTLING)?;

    let nodes = [&a, &b];
    let before = nodes.map(|node| cpu_time(node.pid()));
    let begin = Instant::now();
    stop::sleep(Duration::from_secs_f64(arguments.seconds))?;
    let elapsed = begin.elapsed();
    let mut usages = Vec::new();
    for (node, before) in nodes.into_iter().zip(before) {
        let spent = cpu_time(node.pid())?.saturating_sub(before?);
        usages.push(IdleUsage {
            cpu_percent: spent.as_secs_f64() / elapsed.as_secs_f64() * 100.0,
            resident_mib: resident_mib(node.pid())?,
        });
    }
    let mode = a
        .status()?
        .ports
        .into_iter()
        .next()
        .context("the daemon has no port")?
        .mode;
    let run = Run {
        setup: Setup {
            seconds: elapsed.as_secs_f64(),
            ring_slots: arguments.ring_slots,
            idle: "adaptive".to_owned(),
            mode,
            commands: vec![a.command(), b.command()],
        },
        daemons: usages,
    };
    Results::new(began_unix_ms, host.seen_by(watch)?, run).finish(&arguments.output)
}

/// Returns the CPU time of a process, in nanoseconds, including threads that have exited. A sum
/// over the current threads would go backwards when one exits.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let process = Pid::from_raw(i32::try_from(pid)?);
    let clock = clock_getcpuclockid(process)
        .with_context(|| format!("cannot read the CPU clock of process {pid}: it exited"))?;
    let time = clock
        .now()
        .with_context(|| format!("reading the CPU clock of process {pid}"))?;
    Ok(time.into())
}

fn resident_mib(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let kib =
        field(&text, "VmRSS").and_then(|value| value.trim_end_matches(" kB").parse::<f64>().ok());
    Ok(kib.with_context(|| format!("{path} has no VmRSS"))? / 1024.0)
}

#[cfg(test)]
mod tests {
    use nix::time::ClockId;

    use super::*;

    #[test]
    fn this_process_takes_time_and_memory() {
        let pid = std::process::id();
        let before = cpu_time(pid).expect("readable");
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        assert!(cpu_time(pid).expect("readable") > before);
        assert!(resident_mib(pid).expect("readable") > 0.5);
    }

    #[test]
    fn the_time_of_an_ended_thread_still_counts() {
        let pid = std::process::id();
        let before = cpu_time(pid).expect("readable");
        let busy = std::thread::spawn(|| {
            let thread = || {
                ClockId::CLOCK_THREAD_CPUTIME_ID
                    .now()
                    .map(Duration::from)
                    .expect("a clock")
            };
            while thread() < Duration::from_millis(50) {
                std::hint::spin_loop();
            }
        });
        busy.join().expect("it does not panic");
        assert!(cpu_time(pid).expect("readable") - before >= Duration::from_millis(50));
    }
}
