//! Messages as datagrams: one JSON value each, bounded.

use serde::{Serialize, de::DeserializeOwned};

use crate::MAX_DATAGRAM_BYTES;

/// Why a message could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum DatagramError {
    /// The message does not fit.
    #[error("the message is {found} bytes long; a datagram carries at most {MAX_DATAGRAM_BYTES}")]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// The bytes are not the message that was expected here.
    #[error("not a message that this side knows: {0} (are both sides of the same version?)")]
    Malformed(#[from] serde_json::Error),
}

/// Writes `message` as one datagram.
///
/// # Errors
/// [`DatagramError::TooLong`] if it exceeds [`MAX_DATAGRAM_BYTES`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, DatagramError> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MAX_DATAGRAM_BYTES {
        return Err(DatagramError::TooLong { found: bytes.len() });
    }
    Ok(bytes)
}

/// Reads one datagram. Any bytes are safe to give.
///
/// # Errors
/// [`DatagramError::TooLong`] or [`DatagramError::Malformed`], which says what was found and where.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DatagramError> {
    if bytes.len() > MAX_DATAGRAM_BYTES {
        return Err(DatagramError::TooLong { found: bytes.len() });
    }
    Ok(serde_json::from_slice(bytes)?)
}
