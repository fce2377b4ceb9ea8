//! Directories of files that survive a power failure.
//!
//! A new name is on disk only after its directory was synced. A file is therefore written under
//! another name, synced and renamed, and then the directory is synced. The file then has either its
//! old or its new contents, complete. A directory is on disk when its parent was synced.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct StateDir<F = System> {
    path: PathBuf,
    files: F,
}

/// The operations that the system provides, one call each.
pub(crate) trait Files {
    fn exists(&self, path: &Path) -> bool;
    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Makes a file that was not there and writes all of it.
    fn write_new(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<File>;
    fn sync_file(&self, path: &Path, file: &File) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The system itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct System;

/// A file operation failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path}: {source}")]
pub struct FileError {
    /// The operation that failed.
    doing: &'static str,
    /// To which file or directory.
    path: PathBuf,
    /// The operating system's answer.
    source: io::Error,
}

/// Makes a [`FileError`] of the system's answer to `doing` something to `path`.
pub(crate) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError {
        doing,
        path,
        source,
    }
}

impl StateDir {
    /// The directory `path`, made with its `mode` if it is missing, and those above it.
    ///
    /// # Errors
    /// The system's.
    pub fn make(path: &Path, mode: u32) -> io::Result<Self> {
        Self::make_with(System, path, mode)
    }
}

impl<F: Files> StateDir<F> {
    /// As [`StateDir::make`], where `files` stands for the system.
    ///
    /// # Errors
    /// As [`StateDir::make`].
    pub fn make_with(files: F, path: &Path, mode: u32) -> io::Result<Self> {
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !files.exists(path))
            .collect();
        for directory in missing.into_iter().rev() {
            match files.make_directory(directory, mode) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => files.sync_directory(above(directory))?,
            }
        }
        Ok(Self {
            path: path.to_owned(),
            files,
        })
    }

    /// Writes `bytes` to the file `name`, with the permissions `mode`. When this returns, the bytes
    /// are on disk. Until then, or after a crash, the file may have its old contents.
    ///
    /// # Errors
    /// The system's errors. The file is unchanged, or complete and perhaps not on disk.
    pub fn write(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        let (fresh, path) = (self.path.join(format!("{name}.new")), self.path.join(name));
        // One that a crash left may be readable for others.
        match self.files.remove(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.files.write_new(&fresh, bytes, mode)?;
        self.files.sync_file(&fresh, &file)?;
        self.files.rename(&fresh, &path)?;
        self.files.sync_directory(&self.path)
    }
}

fn above(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

impl Files for System {
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        DirBuilder::new().mode(mode).create(path)
    }

    fn write_new(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<File> {
        let mut file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(mode)
            .open(path)?;
        file.write_all(bytes)?;
        Ok(file)
    }

    fn sync_file(&self, _path: &Path, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        cell::RefCell,
        collections::{BTreeMap, BTreeSet},
    };

    use super::*;

    /// Files in memory whose power fails after a given number of calls.
    #[derive(Debug, Default)]
    struct Cut(RefCell<State>);

    #[derive(Debug, Default)]
    struct State {
        calls_left: usize,
        /// Content by number, and whether it is on disk.
        contents: Vec<(Vec<u8>, bool)>,
        /// Which content has which name, in memory and on disk.
        names: BTreeMap<PathBuf, usize>,
        names_on_disk: BTreeMap<PathBuf, usize>,
        directories: BTreeSet<PathBuf>,
        directories_on_disk: BTreeSet<PathBuf>,
    }

    impl Cut {
        fn call<T>(&self, does: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
            let mut state = self.0.borrow_mut();
            let left = state.calls_left.checked_sub(1);
            state.calls_left = left.ok_or_else(|| io::Error::other("the power is cut"))?;
            does(&mut state)
        }
    }

    impl Files for &Cut {
        fn exists(&self, path: &Path) -> bool {
            self.0.borrow().directories.contains(path)
        }

        fn make_directory(&self, path: &Path, _mode: u32) -> io::Result<()> {
            self.call(|state| {
                state.directories.insert(path.to_owned());
                Ok(())
            })
        }

        fn write_new(&self, path: &Path, bytes: &[u8], _mode: u32) -> io::Result<File> {
            self.call(|state| {
                state.contents.push((bytes.to_vec(), false));
                let number = state.contents.len() - 1;
                assert!(state.names.insert(path.to_owned(), number).is_none());
                Ok(())
            })?;
            File::open("/dev/null")
        }

        fn sync_file(&self, path: &Path, _file: &File) -> io::Result<()> {
            self.call(|state| {
                let number = state.names[path];
                state.contents[number].1 = true;
                Ok(())
            })
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.call(|state| {
                let number = state.names.remove(from).unwrap();
                state.names.insert(to.to_owned(), number);
                Ok(())
            })
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.call(|state| {
                let removed = state.names.remove(path).map(drop);
                removed.ok_or_else(|| io::ErrorKind::NotFound.into())
            })
        }

        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            self.call(|state| {
                let is_here = |name: &PathBuf| name.parent() == Some(path);
                state.names_on_disk.retain(|name, _| !is_here(name));
                let names = state.names.clone().into_iter();
                state
                    .names_on_disk
                    .extend(names.filter(|(name, _)| is_here(name)));
                let directories = state.directories.clone().into_iter();
                state
                    .directories_on_disk
                    .extend(directories.filter(is_here));
                Ok(())
            })
        }
    }

    impl State {
        /// Returns the possible contents of a file after a power failure. They are those of the
        /// file that has the name on disk or in memory, complete if it is synced.
        fn after_cut(&self, path: &Path) -> Vec<Option<Vec<u8>>> {
            let names = [self.names_on_disk.get(path), self.names.get(path)];
            let held = |number: Option<&usize>| {
                number.map(|&number| match &self.contents[number] {
                    (bytes, true) => bytes.clone(),
                    (_, false) => b"torn".to_vec(),
                })
            };
            names.map(held).to_vec()
        }
    }

    #[test]
    fn a_power_cut_at_any_call_leaves_a_state_file_as_it_was_or_whole() {
        let path = Path::new("/var/node");
        let mut whole = false;
        for calls in 0.. {
            let cut = Cut::default();
            cut.0.borrow_mut().calls_left = usize::MAX;
            for above in ["/", "/var"] {
                cut.0.borrow_mut().directories.insert(above.into());
            }
            let directory = StateDir::make_with(&cut, path, 0o700).unwrap();
            directory.write("guid", b"old", 0o600).unwrap();
            cut.0.borrow_mut().calls_left = calls;
            let written = directory.write("guid", b"new", 0o600);
            let found = cut.0.borrow().after_cut(&path.join("guid"));
            let (old, new) = (Some(b"old".to_vec()), Some(b"new".to_vec()));
            if written.is_ok() {
                assert_eq!(found, [new.clone(), new], "it was reported as on disk");
                whole = true;
                break;
            }
            assert!(found.iter().all(|it| *it == old || *it == new), "{found:?}");
        }
        assert!(whole);
    }

    #[test]
    fn each_directory_that_is_made_is_on_disk_with_those_above_it() {
        let cut = Cut::default();
        cut.0.borrow_mut().calls_left = usize::MAX;
        cut.0.borrow_mut().directories.insert("/".into());
        StateDir::make_with(&cut, Path::new("/var/lib/node"), 0o700).unwrap();
        let made = ["/var", "/var/lib", "/var/lib/node"].map(PathBuf::from);
        assert_eq!(cut.0.borrow().directories_on_disk, made.into());
    }
}
