//! Text in words: bytes in the order of the file, filled up with zeros.

use covalent_ipc::sync::{AtomicU64, Ordering};

/// Writes `text` into `words`, cut where a character ends if it is longer.
pub(super) fn store(words: &[AtomicU64], text: &str) {
    let mut end = text.len().min(words.len() * 8);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut chunks = text.as_bytes()[..end].chunks(8);
    for word in words {
        let mut bytes = [0; 8];
        if let Some(chunk) = chunks.next() {
            bytes[..chunk.len()].copy_from_slice(chunk);
        }
        word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
}

/// The text in `bytes`, up to the first zero; nothing if it is not UTF-8.
pub(super) fn load(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|&byte| byte == 0);
    std::str::from_utf8(&bytes[..end.unwrap_or(bytes.len())]).ok()
}
