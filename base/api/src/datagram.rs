//! Messages as datagrams: one JSON value each, bounded.

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

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

/// Reads one datagram. The input may be any bytes.
///
/// # Errors
/// [`DatagramError::TooLong`], or [`DatagramError::Malformed`] with the unexpected input and its
/// position.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DatagramError> {
    if bytes.len() > MAX_DATAGRAM_BYTES {
        return Err(DatagramError::TooLong { found: bytes.len() });
    }
    Ok(serde_json::from_slice(bytes)?)
}

/// Whether `bytes` are a request of any version: an object with a request name. A daemon refuses an
/// unknown request, and closes the connection on anything else.
#[must_use]
pub fn is_named_request(bytes: &[u8]) -> bool {
    decode::<Map<String, Value>>(bytes)
        .is_ok_and(|message| message.get("request").is_some_and(Value::is_string))
}

/// For a variant without fields in a message that denies unknown fields. Serde checks for unknown
/// fields only in variants that have fields.
pub(crate) fn no_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    Nothing::deserialize(deserializer).map(|Nothing {}| ())
}
