//! The secret of this node: drawn once, and stored beside its GUID.
//!
//! With it a daemon recognizes what an earlier daemon of the same node issued, without a list of
//! it: see [`RegionTokens`](crate::server::RegionTokens).

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::state_dir::{FileError, Files, StateDir, failed};

/// File in the state directory that holds it as text, for its owner alone.
const SECRET_FILE: &str = "secret";

/// Bytes of it.
const SECRET_BYTES: usize = 16;

/// Why the secret cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file was written by something else.
    #[error(
        "{0} does not hold 32 hexadecimal digits: remove the file to generate a new secret; \
         regions of running applications are then registered under new keys only"
    )]
    Damaged(PathBuf),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
}

/// See the module. It is never shown, not even by `Debug`.
#[derive(Clone)]
pub struct Secret {
    /// The bits.
    pub key: [u8; SECRET_BYTES],
    /// The secret was drawn at this start: values made with an earlier secret are not recognized.
    pub is_fresh: bool,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret")
            .field("is_fresh", &self.is_fresh)
            .finish_non_exhaustive()
    }
}

impl Secret {
    /// Loads the secret from `state_dir`, or draws one if there is none. The caller holds the
    /// directory's lock.
    ///
    /// # Errors
    /// [`SecretError`] names the file and the remedy.
    pub(crate) fn take(
        directory: &StateDir<impl Files>,
        state_dir: &Path,
    ) -> Result<Self, SecretError> {
        let path = state_dir.join(SECRET_FILE);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let text = text.trim();
                match u128::from_str_radix(text, 16) {
                    Ok(bits) if text.len() == 2 * SECRET_BYTES => Ok(Self {
                        key: bits.to_be_bytes(),
                        is_fresh: false,
                    }),
                    _ => Err(SecretError::Damaged(path)),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(draw(directory, &path)?),
            Err(source) => Err(failed("read", &path)(source).into()),
        }
    }
}

/// Draws a secret and stores it so that a crash leaves either no file or a complete one.
fn draw(directory: &StateDir<impl Files>, path: &Path) -> Result<Secret, FileError> {
    let source = Path::new("/dev/urandom");
    let mut key = [0; SECRET_BYTES];
    fs::File::open(source)
        .and_then(|mut source| source.read_exact(&mut key))
        .map_err(failed("read random bytes from", source))?;
    let text = format!("{:032x}\n", u128::from_be_bytes(key));
    directory
        .write(SECRET_FILE, text.as_bytes(), 0o600)
        .map_err(failed("write", path))?;
    Ok(Secret {
        key,
        is_fresh: true,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn taken(path: &Path) -> Result<Secret, SecretError> {
        Secret::take(&StateDir::make(path, 0o700).unwrap(), path)
    }

    #[test]
    fn it_is_drawn_once_for_its_owner_alone_and_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        // A crash left this.
        fs::write(dir.path().join("secret.new"), "").unwrap();
        let first = taken(dir.path()).unwrap();
        assert!(first.is_fresh);
        let path = dir.path().join(SECRET_FILE);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = taken(dir.path()).unwrap();
        assert_eq!((second.key, second.is_fresh), (first.key, false));
        let text = fs::read_to_string(&path).unwrap();
        assert!(!format!("{second:?}").contains(text.trim()));
        fs::remove_file(&path).unwrap();
        let third = taken(dir.path()).unwrap();
        assert!(third.is_fresh && third.key != first.key);
    }

    #[test]
    fn a_damaged_file_is_named_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SECRET_FILE);
        for text in ["", "nonsense", "1234"] {
            fs::write(&path, text).unwrap();
            let error = taken(dir.path()).unwrap_err().to_string();
            assert!(
                error.contains("secret") && error.contains("remove the file"),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
