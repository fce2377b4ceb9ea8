//! Channels with arbitrary contents, for the proof that paths find back from anywhere.
//!
//! What lies in registers is drawn anew. What one structure says of another stays true, as it does in a program whose memory is its own: berths,
//! ends and transits exist.

use fastrand::Rng;

use super::{
    CHANNELS_MAX, Channels,
    note::{CloseReason, Open},
    table::{Due, Far, Spot, Stage},
};

impl Channels {
    /// Draws most of what is known of channels from `seed`. What waits to be passed on stays, for a cable carried it.
    ///
    /// May be called at any moment.
    pub(crate) fn scramble(&mut self, seed: u64) {
        let rng = &mut Rng::with_seed(seed);
        let berths = self.sides.len() as u8;
        if berths == 0 {
            return;
        }
        let (ends, transits) = (self.ends.len() as u16, self.transits.len() as u16);
        // The low numbers are those that are used.
        let number = |rng: &mut Rng| match rng.u8(..4) {
            0 => rng.u8(..CHANNELS_MAX as u8),
            _ => rng.u8(..4),
        };
        let spot = |rng: &mut Rng| Spot::new(rng.u8(..berths), number(rng), rng.bool());
        for berth in 0..berths {
            // One alone shows what many hide: most damage fails the link, and with it what else there is.
            for _ in 0..rng.u8(..4) {
                let at = Spot::new(berth, number(rng), rng.bool());
                let side = &mut self.sides[usize::from(berth)];
                let channel = side.channel(at);
                channel.stage = [
                    Stage::Free,
                    Stage::Opening,
                    Stage::Asked,
                    Stage::Open,
                    Stage::Closing { heard: rng.bool() },
                ][rng.usize(..5)];
                channel.far = match rng.u8(..3) {
                    0 if ends > 0 => Far::End(rng.u16(..ends)),
                    1 if transits > 0 => Far::Transit(rng.u16(..transits), rng.u8(..2)),
                    _ => Far::Nobody,
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
            let side = &mut self.sides[usize::from(berth)];
            side.due ^= rng.u128(..) & rng.u128(..);
            side.waiting ^= rng.u128(..) & rng.u128(..);
            side.ends ^= rng.u128(..) & rng.u128(..);
            side.undecided ^= rng.u128(..) & rng.u128(..);
            side.turn = rng.u8(..2 * CHANNELS_MAX as u8);
        }
        for transit in &mut self.transits {
            if rng.bool() {
                transit.legs = rng.bool().then(|| [spot(rng), spot(rng)]);
                transit.silent_paces = rng.u32(..8);
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
