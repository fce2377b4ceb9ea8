//! Plots beside the page.

use std::{fs, path::Path};

use anyhow::{Context, Result};

/// Writes a plot, or removes an old file that would be mistaken for the plot of this result.
pub fn keep(path: &Path, svg: Option<&str>) -> Result<()> {
    match svg {
        Some(svg) => write(path, svg),
        None if path.exists() => {
            fs::remove_file(path).with_context(|| format!("removing {}", path.display()))
        }
        None => Ok(()),
    }
}

/// Writes a plot, and makes its folder if it is missing.
pub fn write(path: &Path, svg: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    fs::write(path, svg).with_context(|| format!("writing {}", path.display()))
}
