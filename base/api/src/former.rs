//! Keeps the files of an earlier process when the next one starts, so the cause of its exit can be
//! examined.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where the file of the earlier process is kept: at `path` with `.before` behind it.
#[must_use]
pub fn kept(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".before");
    name.into()
}

/// Keeps the file that an earlier process wrote at `path`, and replaces the previously kept file.
/// Does nothing if there is no such file.
///
/// # Errors
/// The file cannot be renamed.
pub fn keep(path: &Path) -> io::Result<()> {
    match fs::rename(path, kept(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        kept => kept,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_last_file_is_kept_and_none_is_no_error() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.log");
        keep(&path).unwrap();
        assert!(!kept(&path).exists());
        for text in ["first", "second"] {
            fs::write(&path, text).unwrap();
            keep(&path).unwrap();
            assert_eq!(fs::read_to_string(kept(&path)).unwrap(), text);
            assert!(!path.exists());
        }
        assert_eq!(kept(&path), place.path().join("a.log.before"));
    }
}
