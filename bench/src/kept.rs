//! Results: how they are printed, stored in a folder and found again.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::arguments::{Format, Output};

/// The results of one suite.
pub trait Kept: Serialize + DeserializeOwned {
    /// The suite's name on the command line, in results and in file names.
    const NAME: &'static str;

    /// The whole run for people at a terminal.
    fn table(&self) -> String;

    /// The text of the result file: on many lines, unless the result is too long to be read by
    /// people.
    ///
    /// # Errors
    /// The result cannot be converted to JSON.
    fn text(&self) -> Result<String> {
        lines(self)
    }

    /// The whole result on one line of JSON.
    ///
    /// # Errors
    /// It cannot be JSON.
    fn line(&self) -> Result<String> {
        serde_json::to_string(self).context("writing JSON")
    }

    /// Writes the result into `folder`, which is made if it is missing, in place of the suite's
    /// earlier one. Returns the file.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    fn write_to(&self, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let path = file(folder, Self::NAME);
        fs::write(&path, self.text()? + "\n")
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// The suite's result in `folder`; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    fn read_from(folder: &Path) -> Result<Option<Self>> {
        read(folder, Self::NAME, &maker::<Self>())
    }

    /// Prints the result in the format of `output`, and stores it if `output` names a folder.
    ///
    /// # Errors
    /// The result cannot be written.
    fn report(&self, output: &Output) -> Result<()> {
        let path = output
            .results
            .as_deref()
            .map(|folder| self.write_to(folder))
            .transpose()?;
        let mut out = io::stdout().lock();
        match (output.format, path) {
            (Format::Json, _) => writeln!(out, "{}", self.line()?),
            (Format::Table, None) => write!(out, "{}", self.table()),
            (Format::Table, Some(path)) => {
                writeln!(out, "{}written: {}", self.table(), path.display())
            }
        }
        .context("writing the result")
    }
}

/// The result as JSON on many lines.
///
/// # Errors
/// It cannot be JSON.
pub fn lines(result: &impl Serialize) -> Result<String> {
    serde_json::to_string_pretty(result).context("writing JSON")
}

/// Returns the command that makes results of this type, for messages.
pub fn maker<T: Kept>() -> String {
    format!("covalent-bench {}", T::NAME)
}

/// The time, in milliseconds since 1970; 0 before that.
pub fn now_unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(0))
}

/// The file of the result called `name`.
fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

/// Returns the result called `name` in `folder`. Returns `None` if there is none. Error messages
/// name `maker` as the command that makes such results.
pub fn read<T: DeserializeOwned>(folder: &Path, name: &str, maker: &str) -> Result<Option<T>> {
    let path = file(folder, name);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    let other = || format!("{} is not a result of `{maker}`", path.display());
    let value: Value = serde_json::from_str(&text).with_context(other)?;
    ensure!(
        value["name"] == name,
        "{} is a result of {}, not of `{maker}`",
        path.display(),
        value["name"]
    );
    serde_json::from_value(value).map(Some).with_context(other)
}
