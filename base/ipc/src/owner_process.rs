//! Whether this is the process that made something, or one that was forked from it.

use std::{
    io, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// The smallest page: the kernel gives a whole one.
const PAGE_BYTES: usize = 4096;

/// A word that the kernel sets to 0 in every forked process (`MADV_WIPEONFORK`). It stays mapped
/// until the process exits.
static MARK: OnceLock<&'static AtomicU32> = OnceLock::new();

/// Number for the next process that requests one. A child continues from its parent's value.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// The process in which this value was made. Costs a load to look at, and no system call.
#[derive(Debug, Clone, Copy)]
pub struct OwnerProcess {
    mark: &'static AtomicU32,
    number: u32,
}

impl OwnerProcess {
    /// This process.
    ///
    /// # Errors
    /// The system gives no page of memory.
    pub fn this() -> io::Result<Self> {
        let mark = match MARK.get() {
            Some(mark) => mark,
            None => {
                let made = make_mark()?;
                MARK.get_or_init(|| made)
            }
        };
        let found = mark.load(Ordering::Relaxed);
        let number = if found != 0 {
            found
        } else {
            let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
            // Another thread may have been first.
            match mark.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => fresh,
                Err(theirs) => theirs,
            }
        };
        Ok(Self { mark, number })
    }

    /// Whether this is that process still, and not one that was forked from it.
    #[must_use]
    #[inline]
    pub fn is_here(&self) -> bool {
        self.mark.load(Ordering::Relaxed) == self.number
    }
}

fn make_mark() -> io::Result<&'static AtomicU32> {
    // SAFETY: the kernel chooses where, so nothing else is mapped over.
    let page = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            PAGE_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }?;
    // SAFETY: the page was just mapped and nothing uses it. A wiped page is zero, which is a valid
    // `AtomicU32`.
    unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) }?;
    // SAFETY: the page is zero, aligned for any type, accessed only through atomics, and never
    // unmapped. It is mapped in a child too.
    Ok(unsafe { &*page.cast::<AtomicU32>() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use nix::{
        libc,
        sys::wait::{WaitStatus, waitpid},
        unistd::{ForkResult, fork},
    };

    use super::*;

    #[test]
    fn a_forked_process_is_another_one_and_has_its_own() {
        let here = OwnerProcess::this().unwrap();
        assert!(here.is_here() && OwnerProcess::this().unwrap().is_here());
        // SAFETY: the child performs only loads, stores and `_exit`. It calls nothing for which
        // another thread of this process may hold a lock.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let mut well = !here.is_here();
                let own = OwnerProcess::this().unwrap();
                well &= own.is_here() && !here.is_here();
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(i32::from(!well)) }
            }
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
                assert!(here.is_here());
            }
        }
    }
}
