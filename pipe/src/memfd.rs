//! Sealed, allocated shared memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{
        FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat,
        ftruncate, memfd_create,
    },
    io::{Errno, retry_on_intr},
};

use crate::{PipeError, memory_limit};

/// Bytes of a huge page.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Bytes of an ordinary page.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// With these seals no process can change the size, so mapped pages never vanish (no SIGBUS). Seals
/// cannot be removed.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// How long the receiver of a memfd may map it writable. While it may, it can also punch holes. A
/// process that touches a page during a hole punch waits until it finishes, for a time proportional
/// to the file size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    /// For good; for a trusted receiver.
    Stay,
    /// Never: the receiver can only read. Writable mappings made before stay writable.
    None,
    /// Until [`end_writers`].
    UntilMapped,
}

/// Makes a memfd of `bytes` with every page allocated now. The caller must still call `seal`.
pub(crate) fn create(what: &'static str, bytes: u64, huge: bool) -> Result<OwnedFd, PipeError> {
    // Huge pages were reserved before, and are no part of that limit.
    if !huge && let Some(exceeded) = memory_limit::exceeded_by(bytes) {
        return Err(PipeError::MemoryLimit {
            what,
            bytes,
            room_bytes: exceeded.room_bytes,
            group: exceeded.group,
        });
    }
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge {
        flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    }
    let memfd = memfd_create(what, flags).map_err(PipeError::system(what, "memfd_create"))?;
    retry_on_intr(|| ftruncate(&memfd, bytes)).map_err(PipeError::system(what, "ftruncate"))?;
    // Allocate the pages too: a missing page must be an error here, not a SIGBUS later.
    retry_on_intr(|| fallocate(&memfd, FallocateFlags::empty(), 0, bytes))
        .map_err(PipeError::system(what, "fallocate"))?;
    Ok(memfd)
}

/// Seals the size, and restricts writers as `writers` specifies.
pub(crate) fn seal(
    what: &'static str,
    memfd: BorrowedFd<'_>,
    writers: Writers,
) -> Result<(), PipeError> {
    let seals = match writers {
        Writers::Stay => SIZE_SEALS | SealFlags::SEAL,
        Writers::None => SIZE_SEALS | SealFlags::FUTURE_WRITE | SealFlags::SEAL,
        Writers::UntilMapped => SIZE_SEALS,
    };
    fcntl_add_seals(memfd, seals).map_err(PipeError::system(what, "fcntl(F_ADD_SEALS)"))
}

/// Revokes for all processes the right to map `memfd` writable, to write to it with system calls,
/// and to punch holes in it. Existing mappings stay writable.
///
/// This is for the memory of sessions, pipes and regions, after the process that it was made for
/// has mapped it.
///
/// # Errors
/// [`PipeError::System`] if a process has sealed it against further seals, or if there is no memory
/// to fill holes punched before.
pub fn end_writers(memfd: BorrowedFd<'_>) -> Result<(), PipeError> {
    const WHAT: &str = "shared memory";
    let seals = fcntl_get_seals(memfd).map_err(PipeError::system(WHAT, "fcntl(F_GET_SEALS)"))?;
    if !seals.contains(SealFlags::FUTURE_WRITE) {
        fcntl_add_seals(memfd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
            .map_err(PipeError::system(WHAT, "fcntl(F_ADD_SEALS)"))?;
    }
    // Fill the holes made until now, so that no first access allocates their pages. A process that
    // had these pages mapped must fault them in again.
    let bytes = fstat(memfd)
        .map_err(PipeError::system(WHAT, "fstat"))?
        .st_size as u64;
    retry_on_intr(|| fallocate(memfd, FallocateFlags::empty(), 0, bytes))
        .map_err(PipeError::system(WHAT, "fallocate"))
}

/// Checks that a received descriptor is a memfd of exactly `bytes` whose size is sealed. Returns
/// its page size.
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
