//! A bare AF_XDP receiver that drops: it counts frames and looks at none.

use std::sync::atomic::Ordering;

use anyhow::Result;

use super::turn::{BURST, Received, Slice, Stopwatch, Turn};
use crate::{bare::Steered, cores::pin};

/// One slice of it.
pub fn slice(turn: &Turn<'_>) -> Result<Slice> {
    turn.receive_while_sending(|ready, over| {
        turn.stage.b.enter()?;
        pin(turn.cores.far)?;
        let mut steered = Steered::open("b0", turn.load.wanted, turn.ring_slots, BURST)?;
        drop(ready);
        let stopwatch = Stopwatch::start();
        let mut frames = 0;
        while !over.load(Ordering::Relaxed) {
            frames += steered.socket.receive(|_| {}) as u64;
        }
        Ok(Received {
            frames,
            cores: [stopwatch.cores(), 0.0],
        })
    })
}
