//! `covalent_notice`.

use std::{cell::RefCell, ffi::c_int};

use covalent::{NOTICE_WORDS, Notice};

use crate::{
    argument::{Out, values},
    device::{covalent_device, device},
    handle::{Kind, Table, this_thread},
    held::Held,
    status::{call, invalid},
};

/// Words of a notice.
pub const COVALENT_NOTICE_WORDS: usize = 50;

const _: () = assert!(COVALENT_NOTICE_WORDS == NOTICE_WORDS);

/// A place in the memory shared with the daemon where a program publishes words about itself. The
/// node's status lists notices in the layout of group members, as `covalent groups` shows them, and
/// skips others. A device has 7, those of its groups included. A device with a notice does not
/// reconnect. Use it only on its device's thread. A zero handle is invalid.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_notice {
    /// Opaque.
    pub handle: u64,
}

thread_local! {
    static NOTICES: RefCell<Table<Held<Notice<'static>>>> = RefCell::new(
        Table::new(Kind::Notice, this_thread()),
    );
}

/// Opens a notice, which is empty at first. Does not wait. Returns COVALENT_INVALID if the device
/// has as many notices as it can have.
///
/// # Safety
/// `notice` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_notice_open(
    device: covalent_device,
    notice: *mut covalent_notice,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(notice, "notice")? };
        let device = self::device(device)?;
        let opened = Held::open(&device, |device| device.notice())?;
        let handle = NOTICES.with_borrow_mut(|notices| notices.insert(opened))?;
        out.set(covalent_notice { handle });
        Ok(())
    })
}

/// Replaces the notice by `count` words in the machine's byte order, at most COVALENT_NOTICE_WORDS.
/// The rest is zeros. A reader gets the words of one call, or none. Makes no system call.
///
/// # Safety
/// `words` points to `count` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_notice_publish(
    notice: covalent_notice,
    words: *const u64,
    count: usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let words = unsafe { values(words, count, "words")? };
        let mut all = [0; COVALENT_NOTICE_WORDS];
        let place = all.get_mut(..count).ok_or_else(|| {
            invalid(format!(
                "count {count}: expected at most {COVALENT_NOTICE_WORDS} words"
            ))
        })?;
        place.copy_from_slice(words);
        NOTICES.with_borrow_mut(|notices| Ok(notices.get(notice.handle)?.get().publish(&all)?))
    })
}

/// Clears a notice and frees its place.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_notice_close(notice: covalent_notice) -> c_int {
    call(|| {
        let closed = NOTICES.with_borrow_mut(|notices| notices.remove(notice.handle))?;
        drop(closed);
        Ok(())
    })
}
