//! Sealed, allocated shared memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{
        FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat,
        ftruncate, memfd_create,
    },
    io::{Errno, retry_on_intr},
};

use crate::PipeError;

/// Bytes of a huge page.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Bytes of an ordinary page.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// With these no process can change the size again, so mapped pages never vanish (no SIGBUS), nor lift the seals.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// Makes a memfd of `bytes` with every page allocated now, its size sealed. `seal` must still be called.
pub(crate) fn create(what: &'static str, bytes: u64, huge: bool) -> Result<OwnedFd, PipeError> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge {
        flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    }
    let memfd = memfd_create(what, flags).map_err(PipeError::system(what, "memfd_create"))?;
    ftruncate(&memfd, bytes).map_err(PipeError::system(what, "ftruncate"))?;
    // Allocate, don't only size: a page that cannot be had must be an error here and not a SIGBUS later.
    retry_on_intr(|| fallocate(&memfd, FallocateFlags::empty(), 0, bytes))
        .map_err(PipeError::system(what, "fallocate"))?;
    Ok(memfd)
}

/// Seals the size. With `writers_end`, also forbids every later writable mapping, `write` and hole: who receives the memfd can only
/// read it, while writable mappings made before stay so.
pub(crate) fn seal(
    what: &'static str,
    memfd: BorrowedFd<'_>,
    writers_end: bool,
) -> Result<(), PipeError> {
    let seals = if writers_end {
        SIZE_SEALS | SealFlags::FUTURE_WRITE
    } else {
        SIZE_SEALS
    };
    fcntl_add_seals(memfd, seals).map_err(PipeError::system(what, "fcntl(F_ADD_SEALS)"))
}

/// Checks that a received descriptor is a memfd of exactly `bytes` whose size is sealed. Returns the size of its pages.
pub(crate) fn check(
    what: &'static str,
    memfd: BorrowedFd<'_>,
    bytes: u64,
) -> Result<u64, PipeError> {
    let seals = fcntl_get_seals(memfd).map_err(|errno| match errno {
        Errno::INVAL => PipeError::Foreign {
            what,
            problem: "the descriptor is not a memfd",
        },
        errno => PipeError::system(what, "fcntl(F_GET_SEALS)")(errno),
    })?;
    if !seals.contains(SIZE_SEALS) {
        return Err(PipeError::Foreign {
            what,
            problem: "the memfd is not sealed against shrinking and growing",
        });
    }
    let stat = fstat(memfd.as_fd()).map_err(PipeError::system(what, "fstat"))?;
    let found = stat.st_size as u64;
    if found != bytes {
        return Err(PipeError::Size {
            what,
            found,
            expected: "the size that was announced with it",
        });
    }
    Ok(stat.st_blksize as u64)
}
