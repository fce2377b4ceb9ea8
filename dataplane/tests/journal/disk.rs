//! Where the tests put journals, and how their files look.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use covalent_dataplane::journal::{JournalOptions, OnLoss};
use tempfile::TempDir;

/// Smallest journal that there can be.
pub const FILE_BYTES: u64 = 128 * 1024;
pub const BATCH_BYTES: usize = 64 * 1024;
pub const BLOCK_BYTES: u64 = 4096;
/// The header and the marks.
pub const LEAD_BYTES: u64 = 4 * BLOCK_BYTES;

/// A directory in memory, or where temporary files go if there is none.
pub fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a directory")
}

/// A directory on the disk that this was built on.
pub fn on_disk() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// A small journal below `directory`.
pub fn small(directory: &Path) -> JournalOptions {
    JournalOptions {
        directory: directory.join("journal"),
        file_bytes: FILE_BYTES,
        batch_bytes: BATCH_BYTES,
        on_loss: OnLoss::Refuse,
    }
}

/// The file of a generation.
pub fn file_of(options: &JournalOptions, generation: u64) -> PathBuf {
    options
        .directory
        .join(format!("journal.{}", generation % 2))
}

/// The marks of both files.
pub type Marks = [Vec<u8>; 2];

/// The marks of both files now.
pub fn marks(options: &JournalOptions) -> Marks {
    [0, 1].map(|generation| {
        let mut marks = vec![0; (LEAD_BYTES - BLOCK_BYTES) as usize];
        let file = File::open(file_of(options, generation)).expect("a journal file");
        file.read_exact_at(&mut marks, BLOCK_BYTES)
            .expect("they are there");
        marks
    })
}

/// Where the blocks end that something was written to.
pub fn written_bytes(path: &Path) -> u64 {
    let bytes = fs::read(path).expect("a journal file");
    let last = bytes
        .iter()
        .rposition(|&byte| byte != 0)
        .expect("something was written");
    (last as u64 + 1).next_multiple_of(BLOCK_BYTES)
}

/// A copy of a journal's files, to be damaged.
#[derive(Debug)]
pub struct Copy {
    _directory: TempDir,
    pub options: JournalOptions,
}

impl Copy {
    pub fn of(options: &JournalOptions) -> Self {
        let directory = in_memory();
        let copy = small(directory.path());
        fs::create_dir(&copy.directory).expect("a directory");
        for generation in 0..2 {
            fs::copy(file_of(options, generation), file_of(&copy, generation)).expect("a file");
        }
        Self {
            _directory: directory,
            options: copy,
        }
    }

    /// Puts the marks of another moment in place.
    pub fn set_marks(&self, marks: &Marks) {
        for (generation, marks) in (0..).zip(marks) {
            self.open(generation)
                .write_all_at(marks, BLOCK_BYTES)
                .expect("they can be written");
        }
    }

    /// One of its files, open.
    pub fn open(&self, generation: u64) -> File {
        File::options()
            .read(true)
            .write(true)
            .open(file_of(&self.options, generation))
            .expect("a journal file")
    }
}

/// Changes a part of a file while `check` looks at it.
pub fn with_bytes<T>(file: &File, offset: u64, bytes: &[u8], check: impl FnOnce() -> T) -> T {
    let mut before = vec![0; bytes.len()];
    file.read_exact_at(&mut before, offset)
        .expect("it is there");
    file.write_all_at(bytes, offset).expect("it can be written");
    let seen = check();
    file.write_all_at(&before, offset)
        .expect("it can be written");
    seen
}
