//! Directories that a node writes to, and leftovers in them.

use super::{
    facts::{Place, places::PlaceFound},
    finding::Finding,
};

/// Checks whether a directory is writable and has space.
pub fn place(place: &Place) -> Finding {
    let check = place.key.to_owned();
    let Place { key, path, .. } = place;
    match &place.found {
        PlaceFound::NotADirectory { path: file } => Finding::failed(
            check,
            format!("{path} cannot be a directory: {file} is something else"),
            format!("mv {file} {file}.old, or name another directory in {key}"),
        ),
        PlaceFound::Unknown { reason } => Finding::failed(
            check,
            format!("{path} cannot be looked at: {reason}"),
            format!("run as root (sudo covalent doctor), or name another directory in {key}"),
        ),
        PlaceFound::Directory {
            nearest,
            writable: Err(reason),
            ..
        } => Finding::failed(
            check,
            format!("{nearest} cannot be written to: {reason}"),
            format!("run as root, or name in {key} a directory of this user"),
        ),
        PlaceFound::Directory {
            free_bytes,
            nearest,
            ..
        } if *free_bytes < place.needed_bytes => Finding::failed(
            check,
            format!(
                "{path} lies on a full file system: {} KiB free, {} KiB needed",
                free_bytes >> 10,
                place.needed_bytes.div_ceil(1024)
            ),
            format!(
                "df -h {nearest} shows it, du -xsh {nearest}/* shows the largest directories; or \
                 name another directory in {key}"
            ),
        ),
        PlaceFound::Directory {
            free_files: Some(0),
            nearest,
            ..
        } => Finding::failed(
            check,
            format!("{path} lies on a file system that takes no more files"),
            format!("df -i {nearest} shows it; remove some, or name another directory in {key}"),
        ),
        PlaceFound::Directory { free_bytes, .. } => {
            Finding::fine(check, format!("{path}, {} MiB free", free_bytes >> 20))
        }
    }
}

/// Journals of which a loss was accepted.
pub fn set_aside(files: &[String]) -> Option<Finding> {
    let first = files.first()?;
    Some(Finding::warning(
        "journal loss".to_owned(),
        format!(
            "a journal had lost acknowledged records, and a start has accepted that: {} files were \
             set aside, {first} first",
            files.len()
        ),
        "compare with the data of other nodes; remove the files when they are no longer needed",
    ))
}

/// A record of a process that is gone.
pub fn record(path: impl std::fmt::Display) -> Finding {
    Finding::warning(
        format!("record {path}"),
        "its process is gone without `covalent down`: it was killed. Its shared memory was freed \
         with it",
        "nothing: the next `covalent up` replaces it, `covalent down` removes it",
    )
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Level, *};

    fn finding(writable: Result<(), String>, free_bytes: u64, free_files: Option<u64>) -> Finding {
        place(&Place {
            key: "node.state_dir",
            path: "/var/lib/covalent".into(),
            needed_bytes: 4096,
            found: PlaceFound::Directory {
                nearest: "/var/lib".into(),
                writable,
                free_bytes,
                free_files,
            },
        })
    }

    #[test]
    fn an_accepted_loss_is_shown_as_long_as_its_files_are_there() {
        assert!(set_aside(&[]).is_none());
        let finding = set_aside(&["/j/lane-0/journal.0.lost-7".into()]).expect("a finding");
        assert!(finding.level == Level::Warning && finding.found.contains("journal.0.lost-7"));
    }

    #[test]
    fn a_directory_must_be_writable_and_have_space() {
        assert_eq!(finding(Ok(()), 4096, None).level, Level::Fine);
        assert_eq!(finding(Ok(()), 4096, Some(1)).level, Level::Fine);
        let full = finding(Ok(()), 4095, Some(1));
        assert!(full.level == Level::Failed && full.cure.starts_with("df -h /var/lib"));
        let many = finding(Ok(()), 4096, Some(0));
        assert!(many.level == Level::Failed && many.cure.starts_with("df -i /var/lib"));
        let refused = finding(Err("Read-only file system".into()), 4096, None);
        assert!(refused.level == Level::Failed && refused.found.contains("Read-only"));
    }
}
