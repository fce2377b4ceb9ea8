//! The bytes of completed reads, until the application looks at them.

use crate::{
    error::{Error, Result},
    outstanding::index,
    verb::{READ_BYTES_MAX, VerbId},
};

/// One place for each verb that may be in flight. They are allocated when the first read completes
/// and never move, so a read costs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Reads(Box<[Read]>);

#[derive(Debug, Clone)]
struct Read {
    id: VerbId,
    len_bytes: usize,
    bytes: [u8; READ_BYTES_MAX],
}

impl Reads {
    /// Keeps the bytes that the verb `id` of a queue of depth `depth` read.
    pub(crate) fn keep(&mut self, id: VerbId, depth: usize, data: &[u8]) -> Result<()> {
        if self.0.is_empty() {
            let empty = Read {
                id: VerbId::default(),
                len_bytes: 0,
                bytes: [0; READ_BYTES_MAX],
            };
            self.0 = vec![empty; depth].into();
        }
        let place = self.0.get_mut(index(id));
        let (Some(place), true) = (place, data.len() <= READ_BYTES_MAX) else {
            let len = data.len();
            return Err(Error::Unintelligible(format!("a read of {len} bytes")));
        };
        place.id = id;
        place.len_bytes = data.len();
        place.bytes[..data.len()].copy_from_slice(data);
        Ok(())
    }

    /// The bytes that the verb read; `None` if it read none, or a later one took their place.
    pub(crate) fn get(&self, id: VerbId) -> Option<&[u8]> {
        let read = self.0.get(index(id)).filter(|read| read.id == id)?;
        read.bytes.get(..read.len_bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const fn id(generation: u64, place: u64) -> VerbId {
        VerbId::from_number(generation << 32 | place)
    }

    #[test]
    fn bytes_are_found_by_their_verb_until_the_next_one_in_its_place() {
        let mut reads = Reads::default();
        assert_eq!(reads.get(id(1, 0)), None);
        reads.keep(id(1, 0), 2, b"one").unwrap();
        reads.keep(id(1, 1), 2, b"").unwrap();
        let place = reads.get(id(1, 0)).unwrap().as_ptr();
        assert_eq!(reads.get(id(1, 0)), Some(&b"one"[..]));
        assert_eq!(reads.get(id(1, 1)), Some(&b""[..]));
        assert_eq!(reads.get(id(2, 0)), None);
        reads.keep(id(2, 0), 2, &[7; READ_BYTES_MAX]).unwrap();
        assert_eq!(reads.get(id(1, 0)), None, "another verb has its place");
        let bytes = reads.get(id(2, 0)).unwrap();
        assert_eq!((bytes.len(), bytes.as_ptr()), (READ_BYTES_MAX, place));
    }

    #[test]
    fn what_no_read_returns_is_an_error() {
        let mut reads = Reads::default();
        assert!(reads.keep(id(1, 2), 2, b"").is_err(), "no such place");
        assert!(reads.keep(id(1, 0), 2, &[0; READ_BYTES_MAX + 1]).is_err());
    }
}
