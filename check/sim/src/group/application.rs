//! The application of a member: it requests messages and keeps a digest of what it receives.

use covalent_protocol::group::Incarnation;

use super::book::Digest;

/// Least bytes of a message: its number.
pub const MESSAGE_BYTES_MIN: usize = 8;

/// The bytes of a message.
pub fn write(message: u64, bytes: usize, into: &mut Vec<u8>) {
    into.clear();
    into.extend(message.to_le_bytes());
    into.extend(filler(message).take(bytes.saturating_sub(MESSAGE_BYTES_MIN)));
}

/// Returns the number of a message, and whether its bytes equal those of [`write()`] for a message
/// of that length.
#[must_use]
pub fn read(data: &[u8]) -> (u64, bool) {
    let Some((number, rest)) = data.split_first_chunk() else {
        return (u64::MAX, false);
    };
    let number = u64::from_le_bytes(*number);
    (number, filler(number).zip(rest).all(|(a, b)| a == *b))
}

fn filler(number: u64) -> impl Iterator<Item = u8> {
    (1..).map(move |place: u64| (number ^ place).wrapping_mul(0x9d) as u8)
}

/// An application.
#[derive(Debug, Clone, Default)]
pub struct Application {
    /// Digest of everything received so far.
    pub digest: Digest,
    /// It takes no events.
    pub sated: bool,
    /// States in transfer: the receiver, and the bytes left.
    pub giving: Vec<(Incarnation, Vec<u8>)>,
    /// State bytes received so far.
    pub getting: Vec<u8>,
}

impl Application {
    /// The state as it is now, with so many bytes more.
    #[must_use]
    pub fn state(&self, more: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + more);
        bytes.extend(self.digest.count.to_le_bytes());
        bytes.extend(self.digest.mix.to_le_bytes());
        bytes.extend(filler(self.digest.mix).take(more));
        bytes
    }

    /// Takes over the state that it got. `None` if it is none.
    pub fn take_over(&mut self) -> Option<Digest> {
        let bytes = std::mem::take(&mut self.getting);
        let (count, rest) = bytes.split_first_chunk()?;
        let (mix, rest) = rest.split_first_chunk()?;
        let digest = Digest {
            count: u64::from_le_bytes(*count),
            mix: u64::from_le_bytes(*mix),
        };
        let whole = filler(digest.mix).zip(rest).all(|(a, b)| a == *b);
        self.digest = digest;
        whole.then_some(digest)
    }
}
