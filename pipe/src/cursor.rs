//! Judging a cursor that another process wrote.

use crate::violation::{Cursor, Violation};

/// Accepts `found`, one read of the peer's cursor, if it lies in `least..=most` and is a multiple
/// of `alignment`, a power of two.
///
/// `least` is the last accepted value, so cursors only move forward. `most` is the largest value
/// that an honest peer can have reached. Cursors are byte counts that never wrap: at 100 GB/s a
/// `u64` lasts for five years.
pub(crate) fn accept_bytes(
    cursor: Cursor,
    found: u64,
    least: u64,
    most: u64,
    alignment: u64,
) -> Result<u64, Violation> {
    if found & (alignment - 1) != 0 {
        return Err(Violation::Misaligned { cursor, found });
    }
    accept_count(cursor, found, least, most)
}

/// Accepts `found` if it lies in `least..=most`; for counters of slots.
pub(crate) fn accept_count(
    cursor: Cursor,
    found: u64,
    least: u64,
    most: u64,
) -> Result<u64, Violation> {
    if found < least || found > most {
        return Err(Violation::OutOfRange {
            cursor,
            found,
            least,
            most,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_honest_range_is_accepted() {
        assert_eq!(accept_bytes(Cursor::Head, 128, 128, 192, 64), Ok(128));
        assert_eq!(accept_bytes(Cursor::Head, 192, 128, 192, 64), Ok(192));
        assert_eq!(
            accept_bytes(Cursor::Head, 64, 128, 192, 64),
            Err(Violation::OutOfRange {
                cursor: Cursor::Head,
                found: 64,
                least: 128,
                most: 192
            })
        );
        assert_eq!(
            accept_bytes(Cursor::Head, 256, 128, 192, 64),
            Err(Violation::OutOfRange {
                cursor: Cursor::Head,
                found: 256,
                least: 128,
                most: 192
            })
        );
        assert_eq!(
            accept_bytes(Cursor::Head, 129, 128, 192, 64),
            Err(Violation::Misaligned {
                cursor: Cursor::Head,
                found: 129
            })
        );
        // Bytes without gaps may end anywhere.
        assert_eq!(accept_bytes(Cursor::Head, 129, 128, 192, 1), Ok(129));
    }

    #[test]
    fn values_at_the_end_of_the_counter_do_not_wrap() {
        assert!(accept_bytes(Cursor::Tail, !63, 0, 4096, 64).is_err());
        assert!(accept_count(Cursor::MailboxWritten, u64::MAX, 3, 7).is_err());
    }
}
