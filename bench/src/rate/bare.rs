//! A bare AF_XDP receiver that drops: it counts frames and looks at none.

use std::{
    hint,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::turn::{BURST, Received, Slice, Stopwatch, Turn};
use crate::{
    bare::{Steered, Wanted},
    cores::pin,
};

/// How long a lane of `covalentd` lets frames of a stream gather.
pub const GATHER: Duration = Duration::from_micros(5);

/// One slice of it; after a look that found frames but no whole burst it waits for `gather` before the next.
pub fn slice(turn: &Turn<'_>, gather: Option<Duration>) -> Result<Slice> {
    turn.receive_while_sending(|ready, over| {
        turn.stage.b.enter()?;
        pin(turn.cores.far)?;
        let mut steered = Steered::open("b0", Wanted::Everything, turn.ring_slots, BURST)?;
        drop(ready);
        let stopwatch = Stopwatch::start();
        let mut frames = 0;
        while !over.load(Ordering::Relaxed) {
            let found = steered.socket.receive(|_| {});
            frames += found as u64;
            if let Some(gather) = gather
                && (1..BURST as usize).contains(&found)
            {
                let until = Instant::now() + gather;
                while Instant::now() < until {
                    hint::spin_loop();
                }
            }
        }
        Ok(Received {
            frames,
            cores: [stopwatch.cores(), 0.0],
        })
    })
}
