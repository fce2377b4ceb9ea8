//! Arguments of C programs: checks pointers for null and alignment, and text for UTF-8. The memory
//! behind a pointer cannot be checked.

use std::{
    ffi::{CStr, c_char, c_int},
    ptr::NonNull,
    slice,
};

use crate::status::{Result, invalid};

/// Where a result goes. The memory need not be initialized.
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// # Safety
    /// A non-null pointer points to memory for a `T`. This call may write it, and no other code
    /// uses it meanwhile.
    pub(crate) unsafe fn new(pointer: *mut T, name: &str) -> Result<Self> {
        Ok(Self(checked(pointer, name)?))
    }

    /// As [`Out::new`]; null is nothing to write.
    ///
    /// # Safety
    /// As [`Out::new`].
    pub(crate) unsafe fn optional(pointer: *mut T, name: &str) -> Result<Option<Self>> {
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's word.
        unsafe { Self::new(pointer, name) }.map(Some)
    }

    pub(crate) fn set(&mut self, value: T) {
        // SAFETY: `new`'s caller vouches for the memory. `new` rejected null and misaligned
        // pointers. The old content may not be a `T`, so it is not dropped. The types written this
        // way own nothing.
        unsafe { self.0.as_ptr().write(value) }
    }
}

/// Where several results go: `capacity` places.
pub(crate) struct Outs<T> {
    start: NonNull<T>,
    capacity: usize,
}

impl<T> Outs<T> {
    /// # Safety
    /// As [`Out::new`], for `capacity` consecutive values. If `capacity` is 0, the pointer may have
    /// any value.
    pub(crate) unsafe fn new(pointer: *mut T, capacity: usize, name: &str) -> Result<Self> {
        if capacity == 0 {
            return Ok(Self {
                start: NonNull::dangling(),
                capacity,
            });
        }
        check_length::<T>(capacity, name)?;
        Ok(Self {
            start: checked(pointer, name)?,
            capacity,
        })
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Writes one place; beyond the capacity nothing happens.
    pub(crate) fn set(&mut self, place: usize, value: T) {
        if place < self.capacity {
            // SAFETY: `place < capacity`, and `new`'s caller vouches for `capacity` values.
            // Otherwise as in `Out::set`.
            unsafe { self.start.add(place).write(value) }
        }
    }
}

/// One value, copied.
///
/// # Safety
/// A pointer that is not null points to a valid `T`.
pub(crate) unsafe fn value<T: Copy>(pointer: *const T, name: &str) -> Result<T> {
    let pointer = checked(pointer.cast_mut(), name)?;
    // SAFETY: not null, aligned, and valid by the caller's word.
    Ok(unsafe { pointer.read() })
}

/// Several values. If `count` is 0, the pointer may have any value.
///
/// # Safety
/// Otherwise it points to `count` valid consecutive values, which do not change for `'a`.
pub(crate) unsafe fn values<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check_length::<T>(count, name)?;
    let pointer = checked(pointer.cast_mut(), name)?;
    // SAFETY: the pointer is not null and is aligned, and the length fits into `isize` (checked
    // above). The caller guarantees that the values are valid.
    Ok(unsafe { slice::from_raw_parts(pointer.as_ptr(), count) })
}

/// Writable bytes. If `count` is 0, the pointer may have any value.
///
/// # Safety
/// Otherwise it points to `count` initialized bytes that no other code uses for `'a`.
pub(crate) unsafe fn bytes_mut<'a>(
    pointer: *mut u8,
    count: usize,
    name: &str,
) -> Result<&'a mut [u8]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_length::<u8>(count, name)?;
    let pointer = checked(pointer, name)?;
    // SAFETY: as in `values`. The caller guarantees exclusive access for `'a`.
    Ok(unsafe { slice::from_raw_parts_mut(pointer.as_ptr(), count) })
}

/// Text.
///
/// # Safety
/// A non-null pointer points to a NUL-terminated string that does not change for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    let pointer = checked(pointer.cast_mut(), name)?;
    // SAFETY: not null, and ends in a zero by the caller's word.
    let text = unsafe { CStr::from_ptr(pointer.as_ptr()) };
    text.to_str()
        .map_err(|error| invalid(format!("{name} is not UTF-8: {error}")))
}

/// Text, or null for none.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    name: &str,
) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's word.
    unsafe { text(pointer, name) }.map(Some)
}

/// A yes or no.
pub(crate) fn flag(number: c_int, name: &str) -> Result<bool> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(invalid(format!("{name} is {other}: expected 0 or 1"))),
    }
}

pub(crate) fn checked<T>(pointer: *mut T, name: &str) -> Result<NonNull<T>> {
    match NonNull::new(pointer) {
        None => Err(invalid(format!("{name} is null"))),
        Some(pointer) if !pointer.is_aligned() => Err(invalid(format!("{name} is misaligned"))),
        Some(pointer) => Ok(pointer),
    }
}

fn check_length<T>(count: usize, name: &str) -> Result<()> {
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(invalid(format!(
            "{name}: a length of {count} is longer than memory"
        ))),
    }
}
