//! Frames to send: each carries its number, and bytes that depend on it.

/// EtherType of every test frame: the default of links, which every port hands to the dataplane.
pub const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Deterministic numbers (SplitMix64), so that a failure can be replayed.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }
}

/// Frame number `number` with `len` bytes, at least 14.
pub fn frame(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[..6].fill(0xff);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&ETHERTYPE);
    let mut numbers = Numbers(number);
    for chunk in bytes[14..].chunks_mut(8) {
        chunk.copy_from_slice(&numbers.next().to_le_bytes()[..chunk.len()]);
    }
    bytes
}
