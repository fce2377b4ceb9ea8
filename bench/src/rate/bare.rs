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

/// How long a lane of `covalentd` waits to coalesce the frames of a stream.
pub const COALESCE: Duration = Duration::from_micros(5);

/// Runs one slice. After a poll that returns frames but less than a burst, it waits for `coalesce`
/// before the next poll.
pub fn slice(turn: &Turn<'_>, coalesce: Option<Duration>) -> Result<Slice> {
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
            if let Some(coalesce) = coalesce
                && (1..BURST as usize).contains(&found)
            {
                let until = Instant::now() + coalesce;
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
