//! Framings as C programs use them: no daemon is needed.

use std::{ffi::c_int, ptr};

use covalent_c::{covalent_message_state::*, *};

use crate::calls::{fails, ok};

const NOTHING: covalent_message = covalent_message {
    state: COVALENT_MESSAGE_PART,
    offset_bytes: 0,
    length_bytes: 0,
    total_bytes: 0,
    needs_bytes: 0,
    claimed_bytes: 0,
};

fn part(needs_bytes: usize) -> covalent_message {
    covalent_message {
        needs_bytes,
        ..NOTHING
    }
}

fn whole(offset_bytes: usize, length_bytes: usize, total_bytes: usize) -> covalent_message {
    covalent_message {
        state: COVALENT_MESSAGE_WHOLE,
        offset_bytes,
        length_bytes,
        total_bytes,
        ..NOTHING
    }
}

fn broken(claimed_bytes: u64) -> covalent_message {
    covalent_message {
        state: COVALENT_MESSAGE_BROKEN,
        claimed_bytes,
        ..NOTHING
    }
}

fn read_message(call: impl FnOnce(*mut covalent_message) -> c_int) -> covalent_message {
    let mut message = broken(77);
    ok(call(&raw mut message));
    message
}

fn fixed(data: &[u8], message_bytes: usize) -> covalent_message {
    // SAFETY: pointer and length belong to a slice. The message is valid for writes.
    read_message(|message| unsafe {
        covalent_next_fixed_size(data.as_ptr(), data.len(), message_bytes, message)
    })
}

fn prefixed(data: &[u8], width: u32, order: u32, limit: usize) -> covalent_message {
    // SAFETY: as above.
    read_message(|message| unsafe {
        covalent_next_length_prefixed(data.as_ptr(), data.len(), width, order, limit, message)
    })
}

fn delimited(data: &[u8], limit: usize) -> covalent_message {
    // SAFETY: as above.
    read_message(|message| unsafe {
        covalent_next_delimited(data.as_ptr(), data.len(), b'\n', limit, message)
    })
}

#[test]
fn whole_partial_and_broken_messages_are_distinguished() {
    assert_eq!(fixed(b"1234567", 8), part(8));
    assert_eq!(fixed(b"123456789", 8), whole(0, 8, 8));
    assert_eq!(fixed(b"", 8), part(8));

    assert_eq!(delimited(b"half", 10), part(5));
    assert_eq!(delimited(b"line\nmore", 10), whole(0, 4, 5));
    assert_eq!(delimited(b"\n", 0), whole(0, 0, 1));
    assert_eq!(delimited(b"0123456789\n", 10), whole(0, 10, 11));
    assert_eq!(delimited(b"0123456789a\n", 10), broken(11));
    assert_eq!(delimited(b"", 10), part(1));
    assert_eq!(delimited(b"any", usize::MAX), part(4));

    let big = COVALENT_BIG_ENDIAN;
    assert_eq!(prefixed(b"\x00", 2, big, 10), part(2));
    assert_eq!(prefixed(b"\x00\x03ab", 2, big, 10), part(5));
    assert_eq!(prefixed(b"\x00\x03abc\x00", 2, big, 10), whole(2, 3, 5));
    assert_eq!(prefixed(b"\x00\x00", 2, big, 10), whole(2, 0, 2));
    assert_eq!(prefixed(b"\x00\x0b", 2, big, 10), broken(11));
    assert_eq!(
        prefixed(&[0xff; 8], 8, big, usize::MAX),
        broken(u64::MAX),
        "no length overflows"
    );
}

#[test]
fn a_prefix_is_read_back_in_both_byte_orders_and_all_widths() {
    for width in [2, 4, 8] {
        for order in [COVALENT_BIG_ENDIAN, COVALENT_LITTLE_ENDIAN] {
            let mut bytes = [0xee; COVALENT_PREFIX_BYTES_MAX + 1];
            // SAFETY: `bytes` has room for the longest prefix.
            ok(unsafe { covalent_length_prefix(0x0102, width, order, 1000, bytes.as_mut_ptr()) });
            let (prefix, beyond) = bytes.split_at(width as usize);
            let mut expected = vec![0; width as usize];
            if order == COVALENT_BIG_ENDIAN {
                expected[width as usize - 2..].copy_from_slice(&[1, 2]);
            } else {
                expected[..2].copy_from_slice(&[2, 1]);
            }
            assert_eq!(prefix, expected);
            assert!(
                beyond.iter().all(|&byte| byte == 0xee),
                "nothing is written beyond"
            );
            let message = [prefix, &[7; 0x0102]].concat();
            assert_eq!(
                prefixed(&message, width, order, 1000),
                whole(width as usize, 0x0102, message.len())
            );
        }
    }
}

#[test]
fn invalid_framings_and_null_pointers_are_refused() {
    use covalent_status::{COVALENT_INVALID, COVALENT_TOO_LONG};
    let big = COVALENT_BIG_ENDIAN;
    let mut message = NOTHING;
    let out = &raw mut message;
    let mut prefix = [0xee; 8];
    // SAFETY: null pointers are rejected. All other pointers meet the functions' requirements.
    unsafe {
        let status = covalent_next_fixed_size(ptr::null(), 1, 8, out);
        fails(status, COVALENT_INVALID, "data is null");
        let status = covalent_next_fixed_size(prefix.as_ptr(), usize::MAX, 8, out);
        fails(status, COVALENT_INVALID, "longer than memory");
        let status = covalent_next_fixed_size(prefix.as_ptr(), 8, 0, out);
        fails(status, COVALENT_INVALID, "message_bytes is 0");
        let status = covalent_next_delimited(prefix.as_ptr(), 8, 0, 8, ptr::null_mut());
        fails(status, COVALENT_INVALID, "message is null");
        for (width, order, text) in [
            (0, big, "width_bytes 0"),
            (3, big, "width_bytes 3"),
            (u32::MAX, big, "width_bytes"),
            (2, 0, "byte_order 0"),
            (8, 3, "byte_order 3"),
        ] {
            let status = covalent_next_length_prefixed(prefix.as_ptr(), 8, width, order, 10, out);
            fails(status, COVALENT_INVALID, text);
            let status = covalent_length_prefix(1, width, order, 10, prefix.as_mut_ptr());
            fails(status, COVALENT_INVALID, text);
        }
        let status = covalent_length_prefix(1, 2, big, 10, ptr::null_mut());
        fails(status, COVALENT_INVALID, "prefix is null");
        let status = covalent_length_prefix(11, 2, big, 10, prefix.as_mut_ptr());
        fails(status, COVALENT_TOO_LONG, "11 bytes");
        let status = covalent_length_prefix(65536, 2, big, usize::MAX, prefix.as_mut_ptr());
        fails(status, COVALENT_TOO_LONG, "65535");
        // Of no bytes the pointer may be anything.
        ok(covalent_next_fixed_size(ptr::null(), 0, 8, out));
    }
    assert_eq!(message, part(8));
    assert_eq!(prefix, [0xee; 8], "nothing was written");
}
