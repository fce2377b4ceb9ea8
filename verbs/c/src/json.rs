//! JSON that calls return. The library keeps the last text of each thread.

use std::{
    cell::RefCell,
    ffi::{CString, c_char},
};

use serde::Serialize;

use crate::{
    argument::Out,
    status::{Result, invalid},
};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps `value` as JSON and writes a pointer to it.
pub(crate) fn return_json(value: &impl Serialize, out: &mut Out<*const c_char>) -> Result<()> {
    let text = serde_json::to_string(value)
        .map_err(|error| invalid(format!("cannot be written as JSON: {error}")))?;
    // JSON escapes control characters, so it contains no zero.
    let text = CString::new(text).map_err(|error| invalid(error.to_string()))?;
    LAST.set(text);
    out.set(LAST.with_borrow(|text| text.as_ptr()));
    Ok(())
}
