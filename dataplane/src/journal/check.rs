//! What can be checked of journals before anything is touched.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::{
    sys::{
        resource::{RLIM_INFINITY, Resource, getrlimit},
        statvfs::statvfs,
    },
    unistd::{AccessFlags, access, geteuid},
};

use super::{
    error::OpenError,
    file::{failed, file_path},
    open::JournalOptions,
};

/// Bytes of the blocks of a file, as stat(2) counts them.
const STAT_BLOCK_BYTES: u64 = 512;

/// Whether the journals of one node, which lie on one file system, can be opened as far as that shows without a change: bounds, directories, what this
/// process may write, room on the disk.
///
/// # Errors
/// [`OpenError`] for the first that cannot.
pub fn check(journals: &[JournalOptions]) -> Result<(), OpenError> {
    // What the file system has less when the journals before this one are open.
    let mut taken_bytes = 0;
    for options in journals {
        options.check()?;
        let limit_bytes = getrlimit(Resource::RLIMIT_FSIZE).map_or(RLIM_INFINITY, |(soft, _)| soft);
        if options.file_bytes > limit_bytes {
            return Err(OpenError::FileLimit {
                path: options.directory.clone(),
                file_bytes: options.file_bytes,
                limit_bytes,
            });
        }
        let (existing, metadata) = nearest(&options.directory)?;
        let doing = "put a journal into";
        if !metadata.is_dir() {
            let source = io::Error::from_raw_os_error(libc::ENOTDIR);
            return Err(failed(doing, &existing)(source));
        }
        access(&existing, AccessFlags::W_OK | AccessFlags::X_OK)
            .map_err(|error| failed(doing, &existing)(error.into()))?;
        let free_bytes = free_bytes(&existing)
            .map_err(|error| failed("ask for the room on the disk of", &existing)(error))?;
        let demand = Demand::of(options);
        let needed_bytes = taken_bytes + demand.most_bytes;
        if needed_bytes > free_bytes {
            return Err(OpenError::NoRoom {
                path: existing,
                needed_bytes,
                free_bytes,
            });
        }
        taken_bytes += demand.at_last_bytes;
    }
    Ok(())
}

/// The directory itself, or the nearest one above that there is.
fn nearest(directory: &Path) -> Result<(PathBuf, fs::Metadata), OpenError> {
    let ancestors = directory
        .ancestors()
        .filter(|path| !path.as_os_str().is_empty());
    for path in ancestors {
        match fs::metadata(path) {
            Err(error) if is_above(error.kind()) => {}
            found => {
                let metadata = found.map_err(failed("look at", path))?;
                return Ok((path.to_owned(), metadata));
            }
        }
    }
    // A relative path of which nothing is there is made here.
    let here = Path::new(".");
    let metadata = fs::metadata(here).map_err(failed("look at", here))?;
    Ok((here.to_owned(), metadata))
}

/// Whether what is wrong with a path shows in one above it.
const fn is_above(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// What the file system has for this process.
fn free_bytes(path: &Path) -> io::Result<u64> {
    let room = statvfs(path)?;
    let blocks = if geteuid().is_root() {
        room.blocks_free()
    } else {
        room.blocks_available()
    };
    Ok(blocks.saturating_mul(room.fragment_size()))
}

/// Bytes that a start takes of the file system beyond what the journal has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Demand {
    /// While it goes on: each of the two files is made anew before it takes the place of an old one.
    most_bytes: u64,
    /// When it is done.
    at_last_bytes: u64,
}

impl Demand {
    fn of(options: &JournalOptions) -> Self {
        let old = [0, 1].map(|file| {
            fs::metadata(file_path(&options.directory, file))
                .map_or(0, |metadata| metadata.blocks() * STAT_BLOCK_BYTES)
        });
        Self::beside(options.file_bytes, old)
    }

    fn beside(file_bytes: u64, [one, other]: [u64; 2]) -> Self {
        let both_bytes = 2 * file_bytes;
        Self {
            // Which of the old files goes first depends on what is in them.
            most_bytes: file_bytes.max(both_bytes.saturating_sub(one.min(other))),
            at_last_bytes: both_bytes.saturating_sub(one + other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_needs_room_for_what_it_makes_before_the_old_goes() {
        let demand = |file_bytes, old| {
            let Demand {
                most_bytes,
                at_last_bytes,
            } = Demand::beside(file_bytes, old);
            (most_bytes, at_last_bytes)
        };
        assert_eq!(demand(100, [0, 0]), (200, 200));
        assert_eq!(demand(100, [100, 100]), (100, 0));
        assert_eq!(demand(100, [100, 0]), (200, 100));
        assert_eq!(demand(300, [100, 100]), (500, 400));
        assert_eq!(demand(100, [300, 300]), (100, 0));
    }
}
