//! The two memfds of a pipe.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use covalent_ipc::{
    mapping::{Access, Mapping},
    sync::Ordering,
};

use crate::{
    CAPACITY_BYTES_MAX, CAPACITY_BYTES_MIN, Direction, PagePolicy, PipeError, PipeSpec,
    control::Control,
    memfd::{self, HUGE_PAGE_BYTES, PAGE_BYTES},
    ring::Ring,
    shared::Shared,
    words::reactive::OUTSTANDING,
};

const WHAT: &str = "pipe data memory";

/// The shared memory of one pipe: control memory and data ring, mapped, with the descriptors to
/// pass on.
///
/// The daemon makes it with [`PipeMemory::create`] and the application with [`PipeMemory::open`].
/// Each then passes it to one half ([`NicPipe`](crate::nic::NicPipe), or one of
/// [`app`](crate::app)). `Send`. The halves take it by value.
#[derive(Debug)]
pub struct PipeMemory {
    pub(crate) shared: Shared,
    fds: [OwnedFd; 2],
    direction: Direction,
    page_bytes: u64,
}

impl PipeMemory {
    /// Makes the memory: two memfds with every page allocated and mapped, sealed against any change
    /// of size.
    ///
    /// The data of an RX pipe of either kind is also sealed against writing: the application can
    /// only read it. Only such data gets reserved huge pages. A process that may write to a file of
    /// reserved huge pages may also punch a hole into it. If no huge page is free then, the
    /// daemon's next access raises SIGBUS.
    ///
    /// All other data gets transparent huge pages, as does RX data when no huge page is reserved.
    /// These cannot fail in this way. Making them takes about 2 ms per MiB. A ring below 2 MiB is
    /// smaller than a huge page and gets small pages under every policy.
    ///
    /// # Errors
    /// [`PipeError::Size`] if the capacity is not a power of two in range. [`PipeError::HugePages`]
    /// under [`PagePolicy::Require`]. [`PipeError::System`] if memory or descriptors are exhausted.
    pub fn create(spec: &PipeSpec) -> Result<Self, PipeError> {
        let PipeSpec {
            direction,
            capacity_bytes,
            pages,
        } = *spec;
        check_capacity(capacity_bytes)?;
        let read_only = direction.is_read_only();
        let wants_huge = pages != PagePolicy::Never && capacity_bytes >= HUGE_PAGE_BYTES;
        let reserved = if wants_huge && read_only {
            create_data(capacity_bytes, Pages::Reserved, read_only).ok()
        } else {
            None
        };
        let (ring, data, page_bytes) = match reserved {
            Some((ring, data)) => (ring, data, HUGE_PAGE_BYTES),
            None => {
                // The kernel puts pages together only where a huge one can lie.
                let pages = if wants_huge {
                    Pages::ToCollapse
                } else {
                    Pages::Small
                };
                let (ring, data) = create_data(capacity_bytes, pages, read_only)?;
                if wants_huge && ring.collapse() {
                    (ring, data, HUGE_PAGE_BYTES)
                } else if wants_huge && spec.pages == PagePolicy::Require {
                    return Err(PipeError::HugePages {
                        bytes: capacity_bytes,
                    });
                } else {
                    (ring, data, PAGE_BYTES)
                }
            }
        };
        let (control, words) = Control::create(capacity_bytes, direction, page_bytes)?;
        Ok(Self {
            shared: Shared {
                control,
                ring,
                alignment: direction.alignment(),
            },
            fds: [words, data],
            direction,
            page_bytes,
        })
    }

    /// Maps the memory of a pipe that was received as `fds` (control, data) and made for
    /// `direction` and `capacity_bytes`.
    ///
    /// # Errors
    /// [`PipeError::Foreign`] or [`PipeError::Size`] if the descriptors are not the sealed memory
    /// of such a pipe. [`PipeError::System`] if it cannot be mapped.
    pub fn open(
        fds: [OwnedFd; 2],
        direction: Direction,
        capacity_bytes: u64,
    ) -> Result<Self, PipeError> {
        check_capacity(capacity_bytes)?;
        let control = Control::open(fds[0].as_fd(), capacity_bytes, direction)?;
        let memfd_page_bytes = memfd::check(WHAT, fds[1].as_fd(), capacity_bytes)?;
        let access = if direction.is_read_only() {
            Access::Read
        } else {
            Access::ReadWrite
        };
        let page_bytes = control.page_bytes();
        let alignment = if page_bytes == HUGE_PAGE_BYTES {
            HUGE_PAGE_BYTES
        } else {
            memfd_page_bytes
        };
        let mapping = map_data(fds[1].as_fd(), capacity_bytes, alignment, access)?;
        mapping.populate();
        Ok(Self {
            shared: Shared {
                control,
                ring: Ring::new(mapping),
                alignment: direction.alignment(),
            },
            fds,
            direction,
            page_bytes,
        })
    }

    /// Returns the descriptors for the other side, in the order of [`PipeMemory::open`]: control,
    /// data. They are closed when a half takes the memory. The mappings stay.
    #[must_use]
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.fds[0].as_fd(), self.fds[1].as_fd()]
    }

    /// Size of the data pages in effect: 4096 or 2097152 bytes.
    #[must_use]
    pub const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Size of the ring in bytes.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.shared.ring.capacity() as u64
    }

    /// Whether the daemon has put nothing into it so far.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.shared.control.tail().load(Ordering::Acquire) & !OUTSTANDING == 0
    }

    /// Which way the pipe carries.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Gives up the descriptors and keeps the mappings, if the pipe carries `expected`.
    pub(crate) fn into_shared(self, expected: Direction) -> Result<Shared, PipeError> {
        if self.direction != expected {
            return Err(PipeError::Direction {
                found: self.direction,
                expected,
            });
        }
        Ok(self.shared)
    }
}

fn check_capacity(capacity_bytes: u64) -> Result<(), PipeError> {
    if capacity_bytes.is_power_of_two()
        && (CAPACITY_BYTES_MIN..=CAPACITY_BYTES_MAX).contains(&capacity_bytes)
    {
        return Ok(());
    }
    Err(PipeError::Size {
        what: "pipe",
        found: capacity_bytes,
        expected: "a power of two, 4 KiB to 1 GiB",
    })
}

/// Kind of pages that back a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// Pages of 4 KiB.
    Small,
    /// As [`Pages::Small`], where huge ones will lie; [`Ring::collapse`] brings them in.
    ToCollapse,
    /// Huge pages that the host has reserved.
    Reserved,
}

fn create_data(
    capacity_bytes: u64,
    pages: Pages,
    read_only: bool,
) -> Result<(Ring, OwnedFd), PipeError> {
    let memfd = memfd::create(WHAT, capacity_bytes, pages == Pages::Reserved)?;
    let alignment = if pages == Pages::Small {
        PAGE_BYTES
    } else {
        HUGE_PAGE_BYTES
    };
    // Map before sealing: the seal leaves existing writable mappings alone.
    let mapping = map_data(memfd.as_fd(), capacity_bytes, alignment, Access::ReadWrite)?;
    if pages != Pages::ToCollapse {
        mapping.populate();
    }
    let writers = if read_only {
        memfd::Writers::None
    } else {
        memfd::Writers::UntilMapped
    };
    memfd::seal(WHAT, memfd.as_fd(), writers)?;
    Ok((Ring::new(mapping), memfd))
}

fn map_data(
    memfd: BorrowedFd<'_>,
    capacity_bytes: u64,
    alignment: u64,
    access: Access,
) -> Result<Mapping, PipeError> {
    Mapping::twice(memfd, capacity_bytes as usize, alignment as usize, access).map_err(|source| {
        PipeError::System {
            what: WHAT,
            call: "mmap",
            source,
        }
    })
}
