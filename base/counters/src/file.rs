//! A file in shared memory that one process makes and writes. The file gets its name only when it
//! is complete.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsFd,
        unix::fs::{OpenOptionsExt, PermissionsExt, fchown},
    },
    path::{Path, PathBuf},
};

use covalent_ipc::{
    mapping::{Access, Mapping},
    sync::AtomicU64,
};
use rustix::{
    fs::{FallocateFlags, fallocate},
    io::retry_on_intr,
};

use super::lock;

/// Mode of the file: its group may read it.
const MODE: u32 = 0o640;

/// The mapped file. Dropping this value does not remove it.
#[derive(Debug)]
pub(super) struct SharedFile {
    mapping: Mapping,
    words: usize,
    /// Holds the lock that shows readers that the writer is running. The kernel releases it however
    /// the process exits.
    _file: File,
}

impl SharedFile {
    /// Makes a file of `words` zeroed words beside `path`. Calls `fill` to write the first of them,
    /// then renames the file to `path`. A process that has a previous file open keeps that file.
    /// `group` may read it.
    pub(super) fn make(
        path: &Path,
        words: usize,
        group: Option<u32>,
        fill: impl FnOnce(&[AtomicU64]),
    ) -> io::Result<Self> {
        let beside = beside(path);
        // Remove the file of an earlier start that died before the rename.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        let made = Self::whole(file, words, group).and_then(|made| {
            fill(made.words());
            fs::rename(&beside, path)?;
            Ok(made)
        });
        if made.is_err() {
            let _ = fs::remove_file(&beside);
        }
        made
    }

    fn whole(file: File, words: usize, group: Option<u32>) -> io::Result<Self> {
        let bytes = words * size_of::<u64>();
        // Allocate the pages too: a missing page must be an error here, not a SIGBUS later.
        retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), 0, bytes as u64))?;
        lock::hold(&file)?;
        if let Some(group) = group {
            fchown(&file, None, Some(group))?;
        }
        file.set_permissions(fs::Permissions::from_mode(MODE))?;
        let mapping = Mapping::once(file.as_fd(), bytes, Access::ReadWrite)?;
        Ok(Self {
            mapping,
            words,
            _file: file,
        })
    }

    /// All of its words.
    pub(super) fn words(&self) -> &[AtomicU64] {
        self.mapping.u64s(0, self.words)
    }
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new"))
}
