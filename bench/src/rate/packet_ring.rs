//! A kernel `AF_PACKET` ring: the kernel copies each frame into it and then drops the frame in its
//! network stack.

use std::sync::atomic::Ordering;

use anyhow::{Context, Result};

use super::turn::{Received, Slice, Stopwatch, Turn};
use crate::{
    bare::packet_ring::{BLOCK_BYTES, PacketRing},
    cores::pin,
};

/// Memory for each descriptor that other receivers have: a chunk of packet memory.
const CHUNK_BYTES: u32 = 2048;

/// Returns the bytes of the ring: as much as other receivers have, but at least two blocks, because
/// the kernel and the receiver alternate.
pub fn ring_bytes(ring_slots: u32) -> u32 {
    (ring_slots * CHUNK_BYTES).max(2 * BLOCK_BYTES)
}

/// One slice of it.
pub fn slice(turn: &Turn<'_>) -> Result<Slice> {
    turn.receive_while_sending(|ready, over| {
        turn.stage.b.enter()?;
        pin(turn.cores.far)?;
        let mut ring = PacketRing::open("b0", ring_bytes(turn.ring_slots))
            .context("opening an AF_PACKET ring on b0")?;
        drop(ready);
        let stopwatch = Stopwatch::start();
        let mut frames = 0;
        while !over.load(Ordering::Relaxed) {
            frames += ring.receive(|_| {}) as u64;
        }
        Ok(Received {
            frames,
            cores: [stopwatch.cores(), 0.0],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_ring_has_the_same_memory_in_whole_blocks() {
        assert_eq!(ring_bytes(2048), 4 << 20);
        assert_eq!(ring_bytes(64), 2 * BLOCK_BYTES);
        assert_eq!(ring_bytes(32_768) % BLOCK_BYTES, 0);
    }
}
