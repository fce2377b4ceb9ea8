//! The submission that waits for a path to come or go.
//!
//! ```text
//!  watch  ├ user data u64 ┼ target GUID u64 ┼ 4 u8 ┼ known u8 ┼ 0 ×6 ┤
//!  known  0: the target is lost, 1: it is reached
//! ```

use super::{
    BufferTooShort,
    envelope::{EnvelopeError, SUBMIT_HEADER_BYTES},
    space, u64_at,
};

/// The mode byte of a submission that watches.
pub(super) const WATCH: u8 = 4;

/// Requests a completion once the path state of a node differs from the state that the application
/// knows. It completes at once if they differ already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// Returned in the completion; means nothing to the daemon.
    pub user_data: u64,
    /// The node; 0 for the application's own, which is always reached.
    pub target: u64,
    /// The state that the application knows: whether the node is reached or lost.
    pub known_up: bool,
}

impl Watch {
    /// Its length, in bytes.
    pub const BYTES: usize = SUBMIT_HEADER_BYTES;

    /// Writes it to the start of `out` and returns its length.
    ///
    /// # Errors
    /// `out` is shorter than [`Watch::BYTES`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooShort> {
        let header = space(out, Self::BYTES)?;
        header.fill(0);
        header[0..8].copy_from_slice(&self.user_data.to_le_bytes());
        header[8..16].copy_from_slice(&self.target.to_le_bytes());
        header[16] = WATCH;
        header[17] = u8::from(self.known_up);
        Ok(Self::BYTES)
    }

    /// Decodes a submission that fills `bytes`.
    ///
    /// # Errors
    /// [`EnvelopeError`] if the bytes are not a submission.
    pub fn decode(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let header: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| EnvelopeError::Length)?;
        if header[16] != WATCH {
            return Err(EnvelopeError::Unknown(header[16]));
        }
        if header[17] > 1 || header[18..] != [0; 6] {
            return Err(EnvelopeError::Reserved);
        }
        Ok(Self {
            user_data: u64_at(header, 0),
            target: u64_at(header, 8),
            known_up: header[17] == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::verb::{doubt::Submission, envelope::Submit};

    proptest! {
        #[test]
        fn a_watch_reads_as_it_was_written(user_data: u64, target: u64, known_up: bool) {
            let watch = Watch { user_data, target, known_up };
            let mut out = [0xee; Watch::BYTES + 1];
            prop_assert!(watch.encode(&mut out[..Watch::BYTES - 1]).is_err());
            prop_assert_eq!(watch.encode(&mut out), Ok(Watch::BYTES));
            prop_assert_eq!(Submission::decode(&out[..Watch::BYTES]), Ok(Submission::Watch(watch)));
            prop_assert_eq!(Submission::decode(&out), Err(EnvelopeError::Length));
            for at in 17..24 {
                let mut reserved = out;
                reserved[at] = 2;
                let decoded = Submission::decode(&reserved[..Watch::BYTES]);
                prop_assert_eq!(decoded, Err(EnvelopeError::Reserved), "{}", at);
            }
            prop_assert!(Submit::decode(&out).is_err(), "no verb");
        }
    }
}
