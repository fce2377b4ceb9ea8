//! One word made of another, each bit of which depends on all of it.

/// Increment of a sequence of mixed words: the golden ratio, as in `SplitMix64`.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads each bit over all bits (`SplitMix64` for a state of `word`). Invertible, so it hides
/// nothing.
pub const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(STEP);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes compare incarnations and audits, so all releases must mix alike.
    #[test]
    fn words_are_mixed_as_the_reference_does() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(STEP), 0x6e78_9e6a_a1b9_65f4);
    }
}
