//! Names of enumerators, for logs.

use std::ffi::{CStr, c_char};

/// The numbers and names of the listed enumerators: a table for [`name_in`].
macro_rules! enumerators {
    ($($name:ident),* $(,)?) => {
        &[$((
            $name as i64,
            $crate::enumerator::terminated(concat!(stringify!($name), "\0")),
        )),*]
    };
}

pub(crate) use enumerators;

/// The name of `number` in a table of [`enumerators`]. `unknown` for a number that is not in it.
pub(crate) fn name_in(table: &[(i64, &'static CStr)], number: impl Into<i64>) -> *const c_char {
    let number = number.into();
    let named = table.iter().find(|(known, _)| *known == number);
    named.map_or(c"unknown", |(_, name)| name).as_ptr()
}

/// A text that ends in a zero, as C has it.
pub(crate) const fn terminated(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a name has one zero, at its end"),
    }
}
