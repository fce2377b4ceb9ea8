//! The disk operations of a journal: the interface behind which tests put a failing disk.
//!
//! [`super::drive::Drive`] is the real disk. All calls are static, so the interface costs a running
//! journal nothing.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Reads the two files of a journal.
pub trait Store {
    /// Where the journal is, for messages.
    fn directory(&self) -> &Path;

    /// Length of a file in bytes; `None` if it is missing.
    ///
    /// # Errors
    /// The length cannot be read.
    fn length(&self, file: usize) -> io::Result<Option<u64>>;

    /// Reads from `offset` on and returns how many bytes; 0 at the end of the file.
    ///
    /// # Errors
    /// It cannot be read.
    fn read_at(&self, file: usize, offset: u64, space: &mut [u8]) -> io::Result<usize>;
}

/// Creates, replaces and writes the two files of a journal.
///
/// A start creates a *fresh* file, which gets one of the two names once it is complete. A running
/// journal stages *chains*: each step begins when the previous one has succeeded. A step is
/// canceled (`ECANCELED`) if the previous one failed or was short.
pub trait Disk: Store {
    /// Makes the fresh file: `bytes` zeros, every block of it written.
    ///
    /// # Errors
    /// The system's; no fresh file is left.
    fn make_fresh(&mut self, bytes: u64) -> io::Result<()>;

    /// Writes all of `bytes` to the fresh file; offset and length are multiples of a block.
    ///
    /// # Errors
    /// The system's.
    fn write_fresh(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Waits until the fresh file is on disk.
    ///
    /// # Errors
    /// The system's.
    fn sync_fresh(&mut self) -> io::Result<()>;

    /// Renames the fresh file to `file`. The old content of `file` has no name then. Chains write
    /// to the new file from now on.
    ///
    /// # Errors
    /// The operating system's error.
    fn place_fresh(&mut self, file: usize) -> io::Result<()>;

    /// Waits until the names of files are on disk.
    ///
    /// # Errors
    /// The system's.
    fn sync_names(&mut self) -> io::Result<()>;

    /// Gives `file` a second name that ends with `suffix`, so that its content survives
    /// [`Disk::place_fresh`]. Returns the second name; `None` if the file is missing. A second call
    /// with the same file and suffix changes nothing.
    ///
    /// # Errors
    /// The operating system's error; another file has that name.
    fn set_aside(&mut self, file: usize, suffix: &str) -> io::Result<Option<PathBuf>>;

    /// Stages a chain. Nothing starts before [`Disk::enter`].
    ///
    /// # Errors
    /// The queue is full. Nothing was staged.
    ///
    /// # Safety
    /// The bytes of all steps must neither be freed nor change until [`Disk::completion`] has
    /// returned the result of each step.
    unsafe fn stage(&mut self, chain: &[Step<'_>]) -> io::Result<()>;

    /// Starts the staged steps and returns how many of them the kernel took, in order. The kernel
    /// may take only a part of the last chain. A later call then starts its other steps, which wait
    /// for nothing. Makes one system call and does not wait.
    ///
    /// # Errors
    /// The operating system's error. The kernel took no step.
    fn enter(&mut self) -> io::Result<usize>;

    /// Returns the tag and the result of a completed step: bytes or 0, or a negative error number.
    /// Makes no system call.
    fn completion(&mut self) -> Option<(u64, i32)>;

    /// As [`Disk::enter`], then waits until a step completes or a timeout expires: a disk may
    /// stall.
    ///
    /// # Errors
    /// The operating system's error.
    fn wait(&mut self) -> io::Result<usize>;
}

/// A step of a chain.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Identifies the result.
    pub tag: u64,
    /// On which file.
    pub file: usize,
    /// The action.
    pub action: Action<'a>,
}

/// The action of a step.
#[derive(Debug, Clone, Copy)]
pub enum Action<'a> {
    /// Writes bytes.
    Write {
        /// Where in the file.
        offset: u64,
        /// The data.
        bytes: &'a [u8],
    },
    /// Waits until everything that was written to the file is on disk (`fdatasync`).
    Sync,
}
