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

/// With these no process can change the size again, so mapped pages never vanish (no SIGBUS). No seal can be lifted.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Until when whoever receives a memfd may map it writable. As long as he may, he may punch holes into it too, and who touches a page
/// while a hole is made waits until it is: as long as the file is large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    /// For good; for a trusted receiver.
    Stay,
    /// Not at all: he can only read. Writable mappings made before stay so.
    None,
    /// Until [`end_writers`].
    UntilMapped,
}

/// Makes a memfd of `bytes` with every page allocated now, its size sealed. `seal` must still be called.
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
    // Allocate, don't only size: a page that cannot be had must be an error here and not a SIGBUS later.
    retry_on_intr(|| fallocate(&memfd, FallocateFlags::empty(), 0, bytes))
        .map_err(PipeError::system(what, "fallocate"))?;
    Ok(memfd)
}

/// Seals the size, and what `writers` says.
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

/// Takes from everybody the right to map `memfd` writable, to write to it by system calls, and to make holes in it. Mappings that are there
/// stay writable. For the memory of sessions, pipes and regions, once it is mapped by whom it was made for.
///
/// # Errors
/// [`PipeError::System`] if somebody has sealed it against that, or if there is no memory for the holes that somebody made before.
pub fn end_writers(memfd: BorrowedFd<'_>) -> Result<(), PipeError> {
    const WHAT: &str = "shared memory";
    let seals = fcntl_get_seals(memfd).map_err(PipeError::system(WHAT, "fcntl(F_GET_SEALS)"))?;
    if !seals.contains(SealFlags::FUTURE_WRITE) {
        fcntl_add_seals(memfd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
            .map_err(PipeError::system(WHAT, "fcntl(F_ADD_SEALS)"))?;
    }
    // Holes that were made until now are filled, or their pages would be sought when they are first touched. Whoever had those pages mapped
    // before has to bring them in again.
    let bytes = fstat(memfd)
        .map_err(PipeError::system(WHAT, "fstat"))?
        .st_size as u64;
    retry_on_intr(|| fallocate(memfd, FallocateFlags::empty(), 0, bytes))
        .map_err(PipeError::system(WHAT, "fallocate"))
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
