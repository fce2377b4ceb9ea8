//! Structs that may grow in a later release. Their callers state in the first field,
//! `struct_bytes`, how much of them they know.
//!
//! A shorter struct is that of an older header: the missing fields are zero. A longer one is that
//! of a newer header: the fields that this library does not know must be zero.

use std::{mem::MaybeUninit, ptr, ptr::NonNull, slice};

use crate::{
    argument::checked,
    status::{Failure, Result, invalid},
};

/// No struct becomes longer. It bounds what a wrong size can make the library read.
const STRUCT_BYTES_MAX: usize = 4096;

/// # Safety
/// The struct is `repr(C)` and begins with `struct_bytes: u32`. Zeroed memory is a value of it. A
/// field that is added later lies behind all others, and not in the padding at the end.
pub(crate) unsafe trait Growing: Copy {
    const NAME: &'static str;
    /// Its size in the first release.
    const FIRST_BYTES: usize;
}

/// Implements [`Growing`] for a struct whose fields are numbers, arrays of numbers, enums with a
/// value 0, and pointers.
macro_rules! growing {
    ($name:ident, $first_bytes:literal) => {
        const _: () = assert!(
            std::mem::offset_of!($name, struct_bytes) == 0 && size_of::<$name>() >= $first_bytes
        );
        // SAFETY: `repr(C)` is what cbindgen exports, the first field is asserted above, and zero
        // is a value of each kind of field.
        unsafe impl crate::growing::Growing for $name {
            const NAME: &'static str = stringify!($name);
            const FIRST_BYTES: usize = $first_bytes;
        }
    };
}
pub(crate) use growing;

/// The size that the caller states.
///
/// # Safety
/// The first four bytes behind the pointer are initialized.
unsafe fn stated<T: Growing>(pointer: NonNull<T>, name: &str) -> Result<usize> {
    // SAFETY: initialized by the caller's word. A pointer that is aligned for `T` is aligned for
    // its first field.
    let stated = unsafe { pointer.cast::<u32>().read() } as usize;
    if (T::FIRST_BYTES..=STRUCT_BYTES_MAX).contains(&stated) {
        Ok(stated)
    } else {
        Err(invalid(format!(
            "{name}.struct_bytes is {stated}: set it to sizeof({})",
            T::NAME
        )))
    }
}

/// One value, copied.
///
/// # Safety
/// A pointer that is not null points to `struct_bytes` initialized bytes, the first four of which
/// are this number.
pub(crate) unsafe fn growing_value<T: Growing>(pointer: *const T, name: &str) -> Result<T> {
    let pointer = checked(pointer.cast_mut(), name)?;
    // SAFETY: the caller's word.
    let stated = unsafe { stated(pointer, name)? };
    if stated == size_of::<T>() {
        // SAFETY: not null, aligned, and as long as a `T`. C has the same layout (`repr(C)`).
        return Ok(unsafe { pointer.read() });
    }
    let known = stated.min(size_of::<T>());
    // SAFETY: the caller vouches for `stated` bytes.
    let unknown =
        unsafe { slice::from_raw_parts(pointer.cast::<u8>().as_ptr().add(known), stated - known) };
    if unknown.iter().any(|&byte| byte != 0) {
        return Err(newer::<T>(name));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `known` is at most both lengths, and the two do not overlap.
    unsafe {
        ptr::copy_nonoverlapping(
            pointer.cast::<u8>().as_ptr(),
            value.as_mut_ptr().cast(),
            known,
        );
    }
    // SAFETY: zeroed memory is a `T`, and so is what C put over it.
    Ok(unsafe { value.assume_init() })
}

fn newer<T: Growing>(name: &str) -> Failure {
    invalid(format!(
        "{name} sets a field of {} that this libcovalent does not know: install the libcovalent of \
         the header that the program was compiled with",
        T::NAME
    ))
}

/// Where a struct goes.
pub(crate) struct GrowingOut<T> {
    start: NonNull<T>,
    stated: usize,
}

impl<T: Growing> GrowingOut<T> {
    /// # Safety
    /// A non-null pointer points to `struct_bytes` bytes, the first four of which are this number.
    /// This call may write them, and no other code uses them meanwhile.
    pub(crate) unsafe fn new(pointer: *mut T, name: &str) -> Result<Self> {
        let start = checked(pointer, name)?;
        // SAFETY: the caller's word.
        let stated = unsafe { stated(start, name)? };
        Ok(Self { start, stated })
    }

    /// As [`GrowingOut::new`]; null is nothing to write.
    ///
    /// # Safety
    /// As [`GrowingOut::new`].
    pub(crate) unsafe fn optional(pointer: *mut T, name: &str) -> Result<Option<Self>> {
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's word.
        unsafe { Self::new(pointer, name) }.map(Some)
    }

    /// Writes the fields that the caller knows, and zeros for those that only the caller knows.
    pub(crate) fn set(&mut self, value: T) {
        let known = self.stated.min(size_of::<T>());
        let first = size_of::<u32>();
        let start = self.start.cast::<u8>().as_ptr();
        // SAFETY: `new`'s caller vouches for `stated` bytes, and `known` is at most that and the
        // size of `value`. `first` is at most `known`, since a `T` begins with a `u32`. The two do
        // not overlap: `value` is on this stack.
        unsafe {
            ptr::copy_nonoverlapping(
                (&raw const value).cast::<u8>().add(first),
                start.add(first),
                known - first,
            );
            ptr::write_bytes(start.add(known), 0, self.stated - known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the first release had it.
    #[repr(C)]
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct First {
        struct_bytes: u32,
        color: u32,
    }

    /// As the second release has it.
    #[repr(C)]
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Second {
        struct_bytes: u32,
        color: u32,
        weight: u64,
    }

    growing!(First, 8);
    growing!(Second, 8);

    const OLD: First = First {
        struct_bytes: 8,
        color: 3,
    };
    const NEW: Second = Second {
        struct_bytes: 16,
        color: 3,
        weight: 5,
    };

    /// What a library reads that knows `L`, from a program that knows `P`.
    fn read<L: Growing, P>(given: &P) -> std::result::Result<L, String> {
        // SAFETY: the tests state sizes up to that of `P`, which is aligned for both.
        unsafe { growing_value::<L>((&raw const *given).cast(), "given") }
            .map_err(|failure| failure.text().to_owned())
    }

    /// What a library writes that knows `L`, to a program that knows `P`.
    fn write<L: Growing, P>(place: &mut P, value: L) {
        // SAFETY: as in `read`.
        let out = unsafe { GrowingOut::<L>::new((&raw mut *place).cast(), "place") };
        out.unwrap_or_else(|failure| panic!("{}", failure.text()))
            .set(value);
    }

    #[test]
    fn a_program_with_an_older_header_passes_zero_for_what_it_does_not_know() {
        let aligned = Second { weight: 9, ..NEW };
        let old = Second {
            struct_bytes: 8,
            ..aligned
        };
        let expected = Second {
            struct_bytes: 8,
            weight: 0,
            ..NEW
        };
        assert_eq!(read::<Second, _>(&old), Ok(expected));
        assert_eq!(read::<Second, _>(&NEW), Ok(NEW));
    }

    #[test]
    fn a_field_that_only_a_newer_header_has_must_be_zero() {
        let unset = Second { weight: 0, ..NEW };
        let expected = First {
            struct_bytes: 16,
            ..OLD
        };
        assert_eq!(read::<First, _>(&unset), Ok(expected));
        let refused = read::<First, _>(&NEW).expect_err("refused");
        assert!(refused.contains("does not know: install"), "{refused}");
        for byte in 0..8 {
            let one = Second {
                weight: 1 << (8 * byte),
                ..NEW
            };
            read::<First, _>(&one).expect_err("refused");
        }
    }

    #[test]
    fn a_size_that_no_release_has_is_refused() {
        for struct_bytes in [0, 1, 7, 4097, u32::MAX] {
            let refused = read::<Second, _>(&Second {
                struct_bytes,
                ..NEW
            })
            .expect_err("refused");
            assert_eq!(
                refused,
                format!("given.struct_bytes is {struct_bytes}: set it to sizeof(Second)")
            );
        }
    }

    #[test]
    fn only_what_the_program_knows_is_written() {
        let mut place = Second {
            struct_bytes: 8,
            color: 0,
            weight: 9,
        };
        write(&mut place, Second { weight: 5, ..NEW });
        let expected = Second {
            struct_bytes: 8,
            color: 3,
            weight: 9,
        };
        assert_eq!(place, expected, "an older header");
        place.struct_bytes = 16;
        write(&mut place, OLD);
        assert_eq!(place, Second { weight: 0, ..NEW }, "a newer header");
        write(&mut place, NEW);
        assert_eq!(place, NEW);
    }
}
