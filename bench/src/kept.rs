//! Results that were kept in a folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Writes `text`, a result called `name` of a run that began at `began_unix_ms`, to a new file in `folder`, which is made if it is missing; returns where.
pub fn write_to(folder: &Path, name: &str, began_unix_ms: u64, text: String) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let path = folder.join(format!("{name}-{began_unix_ms}.json"));
    fs::write(&path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// The last result called `name` in `place`, or in the folder of it if it is a file; `None` if there is none. `maker` is what makes such results,
/// for people.
pub fn last_beside<T: DeserializeOwned>(
    place: &Path,
    name: &str,
    maker: &str,
) -> Result<Option<T>> {
    let folder = if place.is_dir() {
        place
    } else {
        place.parent().unwrap_or(Path::new("."))
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", folder.display())),
    };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name().is_some_and(|file| {
                let file = file.to_string_lossy();
                file.starts_with(&format!("{name}-")) && file.ends_with(".json")
            })
        })
        .collect();
    // Their names have the time in them, and as many digits for centuries.
    found.sort();
    let Some(path) = found.pop() else {
        return Ok(None);
    };
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let value: Value = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a result of `{maker}`", path.display()))?;
    ensure!(
        value["name"] == name,
        "{} is a result of {}, not of `{maker}`",
        path.display(),
        value["name"]
    );
    serde_json::from_value(value)
        .map(Some)
        .with_context(|| format!("{} is not a result of `{maker}`", path.display()))
}
