//! Detects when another process removes, replaces or writes the files of journals.
//!
//! A lane writes to open files, so it would not notice a removed file: it would acknowledge commits
//! that the next start cannot find. The directories above a journal are watched too: a move of one
//! of them breaks the path to the files.

use std::{
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor},
};

use super::file::{FILES, LOCK};

/// Event reads per call, some dozens of events each, so that a storm of them does not monopolize
/// the host thread.
const READS_PER_CALL: usize = 4;

/// Watches the directories of journals. Non-blocking.
#[derive(Debug)]
pub struct JournalWatch {
    inotify: Inotify,
    /// The lane and the directory of each watch.
    watched: Vec<(WatchDescriptor, u32, PathBuf)>,
    /// The expected files and directories.
    present: Vec<Present>,
}

/// A file or directory of a journal, as it was found at first.
#[derive(Debug)]
struct Present {
    lane: u32,
    path: PathBuf,
    found: Option<Identity>,
}

/// Device and inode.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// A change of a journal by another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meddled {
    /// The lane of the journal.
    pub lane: u32,
    /// The file or directory.
    pub path: PathBuf,
    /// The change.
    pub what: &'static str,
}

impl JournalWatch {
    /// Watches `directories`, each with the lane of its journal. The journals are already open.
    ///
    /// # Errors
    /// The kernel refuses a watch.
    pub fn open(directories: impl IntoIterator<Item = (u32, PathBuf)>) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let itself =
            AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_ONLYDIR;
        let events = itself
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_CLOSE_WRITE;
        let (mut watched, mut present) = (Vec::new(), Vec::new());
        for (lane, path) in directories {
            // One that this user cannot read cannot be watched.
            for above in path.ancestors().skip(1) {
                if let Ok(watch) = inotify.add_watch(above, itself) {
                    watched.push((watch, lane, above.to_owned()));
                }
            }
            let files = FILES.iter().chain([&LOCK]).map(|name| path.join(name));
            present.extend([path.clone()].into_iter().chain(files).map(|path| Present {
                lane,
                found: identity(&path),
                path,
            }));
            watched.push((inotify.add_watch(&path, events)?, lane, path));
        }
        Ok(Self {
            inotify,
            watched,
            present,
        })
    }

    /// Reads the pending events and passes the harmful ones to `visit`.
    ///
    /// # Errors
    /// The watch failed permanently.
    pub fn read(&mut self, mut visit: impl FnMut(Meddled)) -> io::Result<()> {
        for _ in 0..READS_PER_CALL {
            let events = match self.inotify.read_events() {
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                events => events?,
            };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    self.compare(&mut visit);
                    continue;
                }
                let name = event.name.as_ref().and_then(|name| name.to_str());
                let Some(what) = harm(event.mask, name) else {
                    continue;
                };
                // One directory may be above the journals of many lanes.
                let concerned = self.watched.iter().filter(|(watch, ..)| *watch == event.wd);
                for (_, lane, directory) in concerned {
                    visit(Meddled {
                        lane: *lane,
                        path: name.map_or_else(|| directory.clone(), |name| directory.join(name)),
                        what,
                    });
                }
            }
        }
        Ok(())
    }

    /// Checks all files after the kernel dropped events: is everything still in its place?
    fn compare(&self, visit: &mut impl FnMut(Meddled)) {
        let changed = |present: &&Present| identity(&present.path) != present.found;
        for Present { lane, path, .. } in self.present.iter().filter(changed) {
            visit(Meddled {
                lane: *lane,
                path: path.clone(),
                what: "was removed or replaced",
            });
        }
    }
}

/// Returns the harm that an event does to a journal. The event is on the journal's directory, or on
/// the entry `name` in it. While a lane has the journal open, it creates, renames and closes no
/// file.
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
        Some("was written to by another process")
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

    /// Creates a directory with a journal's files, applies `deed` to it, and returns the reported
    /// changes.
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
        // More than enough for a full queue.
        for _ in 0..events_max() {
            watch
                .read(|meddled| {
                    assert_eq!(meddled.lane, 3);
                    let within = meddled.path.strip_prefix(&path);
                    let within = within.map_or_else(|_| meddled.path.clone(), Path::to_owned);
                    seen.push((within, meddled.what));
                })
                .unwrap();
        }
        seen
    }

    /// Events that the kernel keeps for one watcher.
    fn events_max() -> usize {
        let max = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        max.trim().parse().unwrap()
    }

    #[test]
    fn a_directory_above_that_is_moved_is_seen_by_all_lanes() {
        let root = tempfile::tempdir().unwrap();
        let journals = root.path().join("state/journals");
        let lanes = [0, 1].map(|lane| (lane, journals.join(format!("lane-{lane}"))));
        for (_, path) in &lanes {
            fs::create_dir_all(path).unwrap();
        }
        for moved in [journals.as_path(), &root.path().join("state")] {
            let mut watch = JournalWatch::open(lanes.clone()).unwrap();
            let elsewhere = root.path().join("elsewhere");
            fs::rename(moved, &elsewhere).unwrap();
            let mut seen = Vec::new();
            watch.read(|meddled| seen.push(meddled)).unwrap();
            let expected = [0, 1].map(|lane| Meddled {
                lane,
                path: moved.to_owned(),
                what: "was moved away",
            });
            assert_eq!(seen, expected);
            fs::rename(elsewhere, moved).unwrap();
        }
    }

    #[test]
    fn changes_during_lost_events_are_detected() {
        let overflow = |path: &Path| {
            // Two in turn: events that are alike are kept as one.
            for _ in 0..=events_max() / 2 {
                fs::write(path.join("a"), "").unwrap();
                fs::write(path.join("b"), "").unwrap();
            }
        };
        assert_eq!(seen(overflow), []);
        for name in FILES.into_iter().chain([LOCK]) {
            let replaced = seen(|path| {
                overflow(path);
                let other = path.parent().unwrap().join("x");
                fs::write(&other, "y").unwrap();
                fs::rename(other, path.join(name)).unwrap();
            });
            let expected = (PathBuf::from(name), "was removed or replaced");
            assert_eq!(replaced, [expected]);
        }
    }

    #[test]
    fn every_harmful_change_of_journal_files_is_detected() {
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
        assert_eq!(written, file(FILES[1], "was written to by another process"));
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
    fn harmless_file_events_are_not_reported() {
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
