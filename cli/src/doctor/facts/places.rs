//! Directories that a node writes to.

use std::{
    fs::{self, DirEntry},
    path::{Path, PathBuf},
};

use covalent_config::Config;
use nix::{
    sys::statvfs::statvfs,
    unistd::{AccessFlags, eaccess},
};

/// Space for the sockets, the records of processes and the start of their logs.
const RUNTIME_BYTES: u64 = 64 << 10;

/// Space for the GUID.
const STATE_BYTES: u64 = 4 << 10;

/// A directory of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The key that names it, for example `node.runtime_dir`.
    pub key: &'static str,
    /// Its path.
    pub path: String,
    /// How much of it is to be written still, at least, in bytes.
    pub needed_bytes: u64,
    /// The finding.
    pub found: PlaceFound,
}

/// The object at a directory's path, or above it if the directory does not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceFound {
    /// Something else than a directory is there, or above it.
    NotADirectory {
        /// The path of that.
        path: String,
    },
    /// A directory.
    Directory {
        /// The directory itself, or the nearest one above it that exists.
        nearest: String,
        /// Whether this process may write there; with the system's word if not.
        writable: Result<(), String>,
        /// Free space on its file system, in bytes.
        free_bytes: u64,
        /// How many more files its file system takes; `None` where they are not counted.
        free_files: Option<u64>,
    },
    /// Its state is unknown.
    Unknown {
        /// The system's word.
        reason: String,
    },
}

/// Looks at the directories that `config` names.
pub fn gather(config: &Config) -> Vec<Place> {
    let node = &config.node;
    let mut places = vec![
        inspect("node.runtime_dir", &node.runtime_dir, RUNTIME_BYTES),
        inspect("node.state_dir", &node.state_dir, STATE_BYTES),
    ];
    if let Some(directory) = &config.journal.directory {
        let lanes = config.lane.len().max(1) as u64;
        let wanted = lanes * 2 * (u64::from(config.journal.file_mib) << 20);
        let missing = wanted.saturating_sub(bytes_below(directory));
        places.push(inspect("journal.directory", directory, missing));
    }
    places
}

/// Returns the journal files that a start set aside, because they had lost data and an operator
/// accepted the loss.
pub fn set_aside(config: &Config) -> Vec<String> {
    let Some(directory) = &config.journal.directory else {
        return Vec::new();
    };
    let mut found: Vec<String> = files_below(directory)
        .filter(is_set_aside)
        .map(|file| file.path().display().to_string())
        .collect();
    found.sort();
    found
}

fn is_set_aside(file: &DirEntry) -> bool {
    file.file_name().to_string_lossy().contains(".lost-")
}

/// The files in the directories of a directory, as far as they can be seen.
fn files_below(directory: &Path) -> impl Iterator<Item = DirEntry> {
    let entries = |path: PathBuf| {
        fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
    };
    entries(directory.to_owned()).flat_map(move |lane| entries(lane.path()))
}

/// Bytes of the files of journals in a directory.
fn bytes_below(directory: &Path) -> u64 {
    files_below(directory)
        .filter(|file| !is_set_aside(file))
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum()
}

fn inspect(key: &'static str, path: &Path, needed_bytes: u64) -> Place {
    Place {
        key,
        path: path.display().to_string(),
        needed_bytes,
        found: find(path),
    }
}

fn find(path: &Path) -> PlaceFound {
    let Some((nearest, metadata)) = path
        .ancestors()
        .find_map(|above| Some((above, fs::metadata(above).ok()?)))
    else {
        return PlaceFound::Unknown {
            reason: "nothing above it can be looked at".into(),
        };
    };
    if !metadata.is_dir() {
        return PlaceFound::NotADirectory {
            path: nearest.display().to_string(),
        };
    }
    match statvfs(nearest) {
        Err(errno) => PlaceFound::Unknown {
            reason: errno.desc().to_owned(),
        },
        Ok(system) => PlaceFound::Directory {
            nearest: nearest.display().to_string(),
            writable: eaccess(nearest, AccessFlags::W_OK | AccessFlags::X_OK)
                .map_err(|errno| errno.desc().to_owned()),
            free_bytes: system.blocks_available() * system.fragment_size(),
            free_files: (system.files() > 0).then(|| system.files_available()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_directory_above_a_missing_one_is_inspected() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let found = find(&directory.path().join("a/b"));
        let PlaceFound::Directory {
            nearest, writable, ..
        } = &found
        else {
            panic!("{found:?}")
        };
        assert_eq!(*nearest, directory.path().display().to_string());
        assert_eq!(*writable, Ok(()));
    }

    #[test]
    fn a_file_in_place_of_a_directory_is_seen() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let file = directory.path().join("file");
        fs::write(&file, "").expect("written");
        assert_eq!(
            find(&file.join("below")),
            PlaceFound::NotADirectory {
                path: file.display().to_string()
            }
        );
    }

    #[test]
    fn space_that_a_journal_has_is_not_required_again() {
        let directory = tempfile::tempdir().expect("temporary directory");
        assert_eq!(bytes_below(&directory.path().join("none")), 0);
        fs::create_dir(directory.path().join("lane-0")).expect("made");
        fs::write(directory.path().join("lane-0/journal.0"), [0; 300]).expect("written");
        assert_eq!(bytes_below(directory.path()), 300);
    }

    #[test]
    fn files_that_were_set_aside_are_found_and_not_counted_as_space() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let aside = directory.path().join("lane-0/journal.0.lost-7");
        fs::create_dir(directory.path().join("lane-0")).expect("made");
        fs::write(&aside, [0; 300]).expect("written");
        let mut config = Config::parse(
            "[node]\nname = \"a\"\n[[port]]\nname = \"p0\"\nkind = \"cable\"\npath \
             = \"/tmp/cable\"\n",
            "test",
        )
        .expect("a configuration");
        assert_eq!(set_aside(&config), [""; 0]);
        config.journal.directory = Some(directory.path().to_owned());
        assert_eq!(set_aside(&config), [aside.display().to_string()]);
        assert_eq!(bytes_below(directory.path()), 0);
    }
}
