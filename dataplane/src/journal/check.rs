//! Checks of journals that need no change.

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

/// Checks whether the journals of one node can be opened, without a change. All are on one file
/// system. The checks cover bounds, directories, this process's write permission, and free disk
/// space.
///
/// # Errors
/// [`OpenError`] for the first that cannot.
pub fn check(journals: &[JournalOptions]) -> Result<(), OpenError> {
    // Bytes that the journals before this one take from the file system when they are open.
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
            .map_err(|error| failed("query the free space on the disk of", &existing)(error))?;
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

/// Whether an error of this kind on a path calls for a look at its parent.
const fn is_above(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Bytes of the file system that are free for this process.
fn free_bytes(path: &Path) -> io::Result<u64> {
    let room = statvfs(path)?;
    let blocks = if geteuid().is_root() {
        room.blocks_free()
    } else {
        room.blocks_available()
    };
    Ok(blocks.saturating_mul(room.fragment_size()))
}

/// Bytes that a start takes from the file system in addition to the journal's present size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Demand {
    /// Peak during the start: each of the two new files is created before it replaces an old one.
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
            // The content decides which old file is replaced first.
            most_bytes: file_bytes.max(both_bytes.saturating_sub(one.min(other))),
            at_last_bytes: both_bytes.saturating_sub(one + other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_needs_space_for_new_files_beside_the_old() {
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
