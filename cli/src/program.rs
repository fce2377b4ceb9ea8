//! Where the other programs of Covalent are.

use std::{
    env,
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A program of Covalent that is not where it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the program `{name}` is neither in {beside} nor on PATH\n  \
     cure: build the whole workspace with `cargo build --release` (or `make build`), or install \
     `{name}` beside `covalent`"
)]
pub struct Missing {
    name: String,
    beside: String,
}

/// Finds `name` beside the running executable, else on `PATH`. A build tree and an installation
/// both work, and programs that work together are from the same build.
///
/// # Errors
/// [`Missing`] lists the searched places and how to build the program.
pub fn find(name: &str) -> Result<PathBuf, Missing> {
    let own_dir = env::current_exe()
        .ok()
        .and_then(|own| own.parent().map(Path::to_owned));
    find_in(name, own_dir.as_deref(), env::var_os("PATH").as_deref())
}

fn find_in(name: &str, own_dir: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, Missing> {
    own_dir
        .map(Path::to_owned)
        .into_iter()
        .chain(path.into_iter().flat_map(env::split_paths))
        .map(|directory| directory.join(name))
        .find(|candidate| is_executable(candidate))
        .ok_or_else(|| Missing {
            name: name.to_owned(),
            beside: own_dir.map_or_else(
                || "its own directory".to_owned(),
                |own| own.display().to_string(),
            ),
        })
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_sibling_wins_over_path_and_a_missing_program_teaches() {
        let own = tempfile::tempdir().expect("temporary directory");
        let elsewhere = tempfile::tempdir().expect("temporary directory");
        for directory in [&own, &elsewhere] {
            let program = directory.path().join("covalentd");
            fs::write(&program, "").expect("write");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
        }
        let path = Some(elsewhere.path().as_os_str());
        assert_eq!(
            find_in("covalentd", Some(own.path()), path),
            Ok(own.path().join("covalentd"))
        );

        let only_text = own.path().join("covalent-bank");
        fs::write(&only_text, "").expect("write");
        let missing =
            find_in("covalent-bank", Some(own.path()), path).expect_err("it is not executable");
        let message = missing.to_string();
        assert!(
            message.contains("covalent-bank") && message.contains("cargo build --release"),
            "{message}"
        );
        assert!(
            message.contains(&own.path().display().to_string()),
            "{message}"
        );
    }
}
