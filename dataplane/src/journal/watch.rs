//! Sees it when somebody else lays hands on the files of journals.
//!
//! A lane writes into files that are open, so it would not notice that one was removed: commits would be acknowledged, and the next start would not find
//! them.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor},
};

use super::file::{FILES, LOCK};

/// Times that events are read per call, some dozens each, so that a storm of them does not keep the host thread.
const READS_PER_CALL: usize = 4;

/// Watches the directories of journals. Non-blocking.
#[derive(Debug)]
pub struct JournalWatch {
    inotify: Inotify,
    /// The lane and the directory of each watch.
    watched: Vec<(WatchDescriptor, u32, PathBuf)>,
}

/// What was done to a journal by somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meddled {
    /// The lane whose journal it is.
    pub lane: u32,
    /// The file or directory.
    pub path: PathBuf,
    /// What was done to it.
    pub what: &'static str,
}

impl JournalWatch {
    /// Watches `directories`, each with the lane whose journal is there. They are open already.
    ///
    /// # Errors
    /// The kernel gives no watch.
    pub fn open(directories: impl IntoIterator<Item = (u32, PathBuf)>) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let events = AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let watched = directories
            .into_iter()
            .map(|(lane, path)| {
                let watch = inotify.add_watch(&path, events)?;
                Ok((watch, lane, path))
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { inotify, watched })
    }

    /// Reads what came and shows it to `visit`, if it does harm.
    ///
    /// # Errors
    /// The watch failed for good.
    pub fn read(&mut self, mut visit: impl FnMut(Meddled)) -> io::Result<()> {
        for _ in 0..READS_PER_CALL {
            let events = match self.inotify.read_events() {
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                events => events?,
            };
            for event in events {
                let mut watched = self.watched.iter();
                let Some((_, lane, directory)) = watched.find(|(watch, _, _)| *watch == event.wd)
                else {
                    continue;
                };
                let name = event.name.as_ref().and_then(|name| name.to_str());
                let Some(what) = harm(event.mask, name) else {
                    continue;
                };
                visit(Meddled {
                    lane: *lane,
                    path: name.map_or_else(|| directory.clone(), |name| directory.join(name)),
                    what,
                });
            }
        }
        Ok(())
    }
}

/// What an event on a journal's directory, or on the entry `name` in it, does to the journal. While a lane has a journal nobody makes, renames or closes its files.
fn harm(events: AddWatchFlags, name: Option<&str>) -> Option<&'static str> {
    let Some(name) = name else {
        return if events.intersects(AddWatchFlags::IN_DELETE_SELF) {
            Some("was removed")
        } else if events.intersects(AddWatchFlags::IN_MOVE_SELF) {
            Some("was moved away")
        } else if events.intersects(AddWatchFlags::IN_UNMOUNT) {
            Some("was unmounted")
        } else {
            None
        };
    };
    let is_file = FILES.contains(&name);
    if !is_file && name != LOCK {
        None
    } else if events.intersects(AddWatchFlags::IN_DELETE) {
        Some("was removed")
    } else if events.intersects(AddWatchFlags::IN_MOVED_FROM) {
        Some("was moved away")
    } else if events.intersects(AddWatchFlags::IN_MOVED_TO) {
        Some("was replaced")
    } else if is_file && events.intersects(AddWatchFlags::IN_CLOSE_WRITE) {
        Some("was written to by somebody else")
    } else {
        None
    }
}

impl AsFd for JournalWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{fs, path::Path};

    use super::*;

    /// A directory with a journal's files, and what is seen when `deed` is done to it.
    fn seen(deed: impl FnOnce(&Path)) -> Vec<(PathBuf, &'static str)> {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("lane-0");
        fs::create_dir(&path).unwrap();
        for name in FILES.iter().chain([&LOCK]) {
            fs::write(path.join(name), "x").unwrap();
        }
        let mut watch = JournalWatch::open([(3, path.clone())]).unwrap();
        deed(&path);
        let mut seen = Vec::new();
        watch
            .read(|meddled| {
                assert_eq!(meddled.lane, 3);
                let within = meddled.path.strip_prefix(&path).unwrap().to_owned();
                seen.push((within, meddled.what));
            })
            .unwrap();
        seen
    }

    #[test]
    fn whatever_endangers_a_journal_is_seen() {
        let file = |name: &str, what| vec![(PathBuf::from(name), what)];
        for name in FILES.into_iter().chain([LOCK]) {
            let removed = seen(|path| fs::remove_file(path.join(name)).unwrap());
            assert_eq!(removed, file(name, "was removed"));
            let moved = seen(|path| {
                fs::rename(path.join(name), path.parent().unwrap().join("x")).unwrap();
            });
            assert_eq!(moved, file(name, "was moved away"));
        }
        let written = seen(|path| fs::write(path.join(FILES[1]), "").unwrap());
        assert_eq!(written, file(FILES[1], "was written to by somebody else"));
        let replaced = seen(|path| {
            let other = path.parent().unwrap().join("x");
            fs::write(&other, "y").unwrap();
            fs::rename(other, path.join(FILES[0])).unwrap();
        });
        assert_eq!(replaced, file(FILES[0], "was replaced"));
        let moved = seen(|path| fs::rename(path, path.with_extension("old")).unwrap());
        assert_eq!(moved, file("", "was moved away"));
        let removed = seen(|path| fs::remove_dir_all(path).unwrap());
        assert!(
            removed.contains(&(PathBuf::new(), "was removed")),
            "{removed:?}"
        );
    }

    #[test]
    fn what_does_no_harm_is_not_told() {
        let nothing = seen(|path| {
            fs::write(path.join("notes"), "mine").unwrap();
            fs::remove_file(path.join("notes")).unwrap();
            fs::read(path.join(FILES[0])).unwrap();
            // Another daemon that finds it taken.
            fs::write(path.join(LOCK), "").unwrap();
            fs::copy(path.join(FILES[1]), path.join("backup")).unwrap();
        });
        assert_eq!(nothing, []);
    }
}
