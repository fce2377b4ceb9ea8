//! The real disk: a directory, its files, and an `io_uring`. Only this module uses `io_uring`.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use io_uring::{IoUring, opcode, squeue, types};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{
    disk::{Action, Disk, Step, Store},
    error::OpenError,
    file::{Directory, FILES, FRESH, failed, file_path, wait_for_writers_of},
};

/// Entries of the submission queue: three for a mark, two for a batch, two for zeros, rounded up.
const ENTRIES: u32 = 8;

/// Most steps of a chain.
const STEPS_MAX: usize = 3;

/// How long one wait for the disk lasts at most.
const WAIT_MS: u8 = 200;

/// How long to wait instead where the kernel refuses a wait.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// The files of a journal, open for reading alone.
#[derive(Debug)]
pub(super) struct Files {
    directory: PathBuf,
    files: [Option<File>; 2],
}

/// See the module.
pub struct Drive {
    directory: Directory,
    found: Files,
    fresh: Option<File>,
    /// The files that chains write to. This process created them.
    written: [Option<File>; 2],
    /// Declared after the files whose descriptor numbers it uses: see `Drop` of the ring of
    /// flights.
    uring: IoUring,
}

impl Files {
    /// Those in `directory`.
    ///
    /// # Errors
    /// One that is there cannot be opened.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let open = |file| match File::open(file_path(directory, file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        };
        Ok(Self {
            directory: directory.to_owned(),
            files: [open(0)?, open(1)?],
        })
    }

    /// Waits until no process has the files open for writing.
    ///
    /// # Errors
    /// A process still has one open at `deadline`.
    pub fn wait_for_writers(&self, deadline: Instant) -> Result<(), OpenError> {
        for (number, file) in self.files.iter().enumerate() {
            if let Some(file) = file {
                wait_for_writers_of(file, &file_path(&self.directory, number), deadline)?;
            }
        }
        Ok(())
    }

    fn file(&self, file: usize) -> io::Result<&File> {
        self.files[file % 2].as_ref().ok_or_else(no_such_file)
    }
}

impl Store for Files {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn length(&self, file: usize) -> io::Result<Option<u64>> {
        let file = self.files[file % 2].as_ref();
        file.map(|file| Ok(file.metadata()?.len())).transpose()
    }

    fn read_at(&self, file: usize, offset: u64, space: &mut [u8]) -> io::Result<usize> {
        self.file(file)?.read_at(space, offset)
    }
}

impl Drive {
    /// The journal in the directory `path`, for this process alone.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn take(path: &Path) -> Result<Self, OpenError> {
        let uring = probe().map_err(OpenError::NoRing)?;
        let directory = Directory::take(path)?;
        let found = Files::open(path).map_err(failed("open the files of", path))?;
        Ok(Self {
            directory,
            found,
            fresh: None,
            written: [None, None],
            uring,
        })
    }

    fn fresh(&self) -> io::Result<&File> {
        self.fresh.as_ref().ok_or_else(no_such_file)
    }

    fn fresh_path(&self) -> PathBuf {
        self.directory.path().join(FRESH)
    }

    fn entry(&self, step: &Step<'_>) -> io::Result<squeue::Entry> {
        let file = self.written[step.file % 2].as_ref();
        let fd = types::Fd(file.ok_or_else(no_such_file)?.as_raw_fd());
        let entry = match step.action {
            Action::Write { offset, bytes } => {
                opcode::Write::new(fd, bytes.as_ptr(), bytes.len() as u32)
                    .offset(offset)
                    .build()
            }
            Action::Sync => opcode::Fsync::new(fd)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
        };
        Ok(entry.user_data(step.tag))
    }
}

/// A ring, if the kernel gives one.
///
/// # Errors
/// The kernel's.
pub(super) fn probe() -> io::Result<IoUring> {
    // Sets no flag that saves the kernel an interrupt: with these flags, results appear only after
    // a system call.
    IoUring::builder().dontfork().build(ENTRIES)
}

fn no_such_file() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Store for Drive {
    fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn length(&self, file: usize) -> io::Result<Option<u64>> {
        self.found.length(file)
    }

    fn read_at(&self, file: usize, offset: u64, space: &mut [u8]) -> io::Result<usize> {
        self.found.read_at(file, offset, space)
    }
}

impl Disk for Drive {
    fn make_fresh(&mut self, bytes: u64) -> io::Result<()> {
        self.fresh = Some(self.directory.make(bytes)?);
        Ok(())
    }

    fn write_fresh(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.fresh()?.write_all_at(bytes, offset)
    }

    fn sync_fresh(&mut self) -> io::Result<()> {
        self.fresh()?.sync_all()
    }

    fn place_fresh(&mut self, file: usize) -> io::Result<()> {
        let to = file_path(self.directory.path(), file);
        fs::rename(self.fresh_path(), to)?;
        self.written[file % 2] = self.fresh.take();
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        File::open(self.directory.path())?.sync_all()
    }

    fn set_aside(&mut self, file: usize, suffix: &str) -> io::Result<Option<PathBuf>> {
        let path = file_path(self.directory.path(), file);
        let aside = self
            .directory
            .path()
            .join(format!("{}.{suffix}", FILES[file % 2]));
        let identity = |path| fs::metadata(path).map(|it| (it.dev(), it.ino()));
        match fs::hard_link(&path, &aside) {
            Ok(()) => Ok(Some(aside)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // An earlier start already created the link.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let is_same = identity(&path)? == identity(&aside)?;
                is_same.then_some(Some(aside)).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    unsafe fn stage(&mut self, chain: &[Step<'_>]) -> io::Result<()> {
        let Some((first, rest)) = chain.split_first() else {
            return Ok(());
        };
        let first = self.entry(first)?;
        let mut entries = [const { None }; STEPS_MAX];
        entries[0] = Some(first);
        for (entry, step) in entries[1..].iter_mut().zip(rest) {
            *entry = Some(self.entry(step)?);
        }
        let mut queue = self.uring.submission();
        if queue.capacity() - queue.len() < chain.len() {
            return Err(io::Error::other("the submission queue is full"));
        }
        let last = chain.len() - 1;
        for (at, entry) in entries.into_iter().flatten().enumerate() {
            let entry = if at < last {
                entry.flags(squeue::Flags::IO_LINK)
            } else {
                entry
            };
            // SAFETY: the memory of the step stays valid and unchanged until its result is reaped,
            // as the caller guarantees. Its file is one of `self.written`. These are replaced only
            // during a start, when no chain is staged.
            unsafe { queue.push(&entry) }
                .map_err(|_| io::Error::other("the submission queue is full"))?;
        }
        Ok(())
    }

    fn enter(&mut self) -> io::Result<usize> {
        self.uring.submit()
    }

    fn completion(&mut self) -> Option<(u64, i32)> {
        let entry = self.uring.completion().next()?;
        Some((entry.user_data(), entry.result()))
    }

    fn wait(&mut self) -> io::Result<usize> {
        let taken = self.uring.submit()?;
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(WAIT_MS)).is_err() {
            thread::sleep(RETRY_PAUSE);
        }
        Ok(taken)
    }
}

impl AsFd for Drive {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor belongs to the ring, which stays open as long as `self` exists.
        unsafe { BorrowedFd::borrow_raw(self.uring.as_raw_fd()) }
    }
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drive")
            .field("directory", &self.directory)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}
