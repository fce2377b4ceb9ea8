//! Channels with arbitrary contents, for the proof that paths recover from any state.
//!
//! The contents of registers are drawn at random. References between structures stay valid, as they
//! do in a program that owns its memory: neighbor indexes, ends and transits exist.

use fastrand::Rng;

use super::{
    CHANNELS_MAX, Channels,
    note::{CloseReason, Open},
    table::{Due, Far, Spot, Stage},
};

impl Channels {
    /// Draws most of the state of channels from `seed`. Frames that wait for forwarding stay,
    /// because a cable carried them.
    ///
    /// May be called at any moment.
    pub(crate) fn scramble(&mut self, seed: u64) {
        let rng = &mut Rng::with_seed(seed);
        let neighbors = self.sides.len() as u8;
        if neighbors == 0 {
            return;
        }
        let (ends, transits) = (self.ends.len() as u16, self.transits.len() as u16);
        // The low numbers are those that are used.
        let number = |rng: &mut Rng| match rng.u8(..4) {
            0 => rng.u8(..CHANNELS_MAX as u8),
            _ => rng.u8(..4),
        };
        let spot = |rng: &mut Rng| Spot::new(rng.u8(..neighbors), number(rng), rng.bool());
        for neighbor in 0..neighbors {
            // Few channels reveal more than many: most damage fails the link, which hides all other
            // damage.
            for _ in 0..rng.u8(..4) {
                let at = Spot::new(neighbor, number(rng), rng.bool());
                let side = &mut self.sides[usize::from(neighbor)];
                let channel = side.channel(at);
                channel.stage = [
                    Stage::Free,
                    Stage::Opening,
                    Stage::Requested,
                    Stage::Open,
                    Stage::Closing {
                        peer_closed: rng.bool(),
                    },
                ][rng.usize(..5)];
                channel.far = match rng.u8(..3) {
                    0 if ends > 0 => Far::End(rng.u16(..ends)),
                    1 if transits > 0 => Far::Transit(rng.u16(..transits), rng.u8(..2)),
                    _ => Far::Nowhere,
                };
                channel.due = [
                    Due::Nothing,
                    Due::Open,
                    Due::Opened,
                    Due::Close(CloseReason::Idle),
                    Due::Wanted,
                ][rng.usize(..5)];
                channel.open = Open {
                    hops_left: rng.u8(..),
                    channel: number(rng),
                    target: rng.u64(..),
                    origin: rng.u64(..),
                };
            }
            let side = &mut self.sides[usize::from(neighbor)];
            side.due ^= rng.u128(..) & rng.u128(..);
            side.waiting ^= rng.u128(..) & rng.u128(..);
            side.ends ^= rng.u128(..) & rng.u128(..);
            side.undecided ^= rng.u128(..) & rng.u128(..);
            side.turn = rng.u8(..2 * CHANNELS_MAX as u8);
        }
        for transit in &mut self.transits {
            if rng.bool() {
                transit.legs = rng.bool().then(|| [spot(rng), spot(rng)]);
                transit.silent_ticks = rng.u32(..8);
                transit.wanted = rng.bool();
            }
        }
        for end in &mut self.ends {
            if rng.bool() {
                *end = rng.bool().then(|| spot(rng));
            }
        }
    }
}
