//! What a journal asks of a disk: the seam at which tests put one that fails.
//!
//! [`super::drive::Drive`] is the real one. All calls are static, so the seam costs a running journal nothing.

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
    /// It cannot be asked for.
    fn length(&self, file: usize) -> io::Result<Option<u64>>;

    /// Reads from `offset` on and returns how many bytes; 0 at the end of the file.
    ///
    /// # Errors
    /// It cannot be read.
    fn read_at(&self, file: usize, offset: u64, space: &mut [u8]) -> io::Result<usize>;
}

/// Makes, replaces and writes the two files of a journal.
///
/// A start makes a *fresh* file, which gets one of the two names once it is whole. A running journal stages *chains*: each step
/// begins when the one before it has succeeded, and is cancelled (`ECANCELED`) if that failed or was short.
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

    /// Gives the fresh file the name of `file`, whose old content has no name then. Chains write to it from now on.
    ///
    /// # Errors
    /// The system's.
    fn place_fresh(&mut self, file: usize) -> io::Result<()>;

    /// Waits until the names of files are on disk.
    ///
    /// # Errors
    /// The system's.
    fn sync_names(&mut self) -> io::Result<()>;

    /// Gives `file` a second name that ends with `suffix`, so that its content outlives [`Disk::place_fresh`]. Returns it;
    /// `None` if the file is missing. A second call with the same file and suffix changes nothing.
    ///
    /// # Errors
    /// The system's; another file has that name.
    fn set_aside(&mut self, file: usize, suffix: &str) -> io::Result<Option<PathBuf>>;

    /// Stages a chain. Nothing happens before [`Disk::enter`].
    ///
    /// # Errors
    /// There is no room, and nothing was staged.
    ///
    /// # Safety
    /// The bytes of all steps must neither be freed nor change until [`Disk::completion`] has returned the result of each step.
    unsafe fn stage(&mut self, chain: &[Step<'_>]) -> io::Result<()>;

    /// Starts what is staged and returns how many steps were taken, in order. The last chain may have been taken in part: then its
    /// other steps are taken by a later call and wait for nothing. One system call; it does not wait.
    ///
    /// # Errors
    /// The system's. Nothing was taken.
    fn enter(&mut self) -> io::Result<usize>;

    /// The tag and the result of a step that has ended: bytes or 0, or a negative error number. No system call.
    fn completion(&mut self) -> Option<(u64, i32)>;

    /// As [`Disk::enter`], then waits until a step has ended, or for a while: a disk may stand still.
    ///
    /// # Errors
    /// The system's.
    fn wait(&mut self) -> io::Result<usize>;
}

/// A step of a chain.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// What its result is known by.
    pub tag: u64,
    /// On which file.
    pub file: usize,
    /// What to do.
    pub action: Action<'a>,
}

/// What a step does.
#[derive(Debug, Clone, Copy)]
pub enum Action<'a> {
    /// Writes bytes.
    Write {
        /// Where in the file.
        offset: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// Waits until everything that was written to the file is on disk (`fdatasync`).
    Sync,
}
