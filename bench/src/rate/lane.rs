//! A lane of a real `covalentd`, which copies each frame into a pipe, and an application that
//! receives from it.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use covalent::{Device, Match, status::PortMode};

use super::turn::{Received, Slice, Stopwatch, Turn};
use crate::{
    cores::{pin, run_first},
    idle::cpu_time,
    node::{Node, Plan},
};

/// The application's pipe: 64 Ki frames of 64 bytes.
pub const PIPE_BYTES: u64 = 4 << 20;

/// How often the application empties its pipe.
pub const APPLICATION_INTERVAL: Duration = Duration::from_millis(1);

/// How the daemon of a slice ran.
#[derive(Debug, Clone)]
pub struct Running {
    /// The mode of its port as it read it back.
    pub mode: PortMode,
    /// Its command line.
    pub command: Vec<String>,
}

/// One slice of it.
pub fn slice(turn: &Turn<'_>) -> Result<(Slice, Running)> {
    let plan = Plan {
        name: "b",
        idle: "poll",
        core: Some(turn.cores.far),
        interfaces: &["b0"],
        cables: &[],
        link: false,
        ring_slots: turn.ring_slots,
        link_settings: &[],
        faulty: false,
    };
    let node = Node::start(turn.daemon, &turn.stage.b, &plan)?;
    let measured = turn.receive_while_sending(|ready, over| {
        let (core, shared) = turn.cores.application_beside(turn.cores.far);
        pin(core)?;
        if shared {
            run_first()?;
        }
        let device = Device::attach(node.socket(), "bench-rx").context("attaching to covalentd")?;
        let mut pipe = device
            .rx_pipe_on(PIPE_BYTES, "b0")
            .context("opening a pipe")?;
        pipe.bind(&Match::Any).context("binding a pipe")?;
        drop(ready);
        let (stopwatch, start) = (Stopwatch::start(), Instant::now());
        let lane_before = cpu_time(node.pid())?;
        let mut frames = 0;
        while !over.load(Ordering::Relaxed) {
            while let Some(batch) = pipe.try_recv().context("receiving")? {
                frames += batch.iter().filter(|frame| turn.load.touch(frame)).count() as u64;
                batch.free_all();
            }
            thread::sleep(APPLICATION_INTERVAL);
        }
        let lane = cpu_time(node.pid())?.saturating_sub(lane_before);
        Ok(Received {
            frames,
            cores: [
                lane.as_secs_f64() / start.elapsed().as_secs_f64(),
                stopwatch.cores(),
            ],
        })
    })?;
    let port = node.status()?.ports.into_iter().next();
    let running = Running {
        mode: port.context("the daemon has no port")?.mode,
        command: node.command(),
    };
    Ok((measured, running))
}
