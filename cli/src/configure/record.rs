//! The record of original values: a file in the node's runtime directory, with a line of JSON for
//! each event.
//!
//! ```text
//!   begun BOOT                             the first line
//!   intent STAGE SETTING BEFORE WANTED     on disk before the setting is changed
//!   done SETTING NOW                       the value that the kernel set
//!   undoing SETTING                        its original value is about to be restored
//!   undone SETTING                         restored, or left because another program changed it
//! ```
//! A command that is killed at any moment leaves a record of all changes that it may have made. The
//! record need not outlive a boot, because the settings do not. A record of another boot is void,
//! wherever the directory is.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{setting::Setting, stage::Stage};

/// File name of the record in the runtime directory.
pub const FILE: &str = "configure.record";

/// A line of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The record begins, in this boot.
    Begun {
        /// The kernel's name for it.
        boot: String,
    },
    /// A setting is about to be changed.
    Intent {
        /// By which stage.
        stage: Stage,
        /// Which.
        setting: Setting,
        /// Its value.
        before: String,
        /// The value that it is given.
        wanted: String,
    },
    /// It was changed.
    Done {
        /// Which.
        setting: Setting,
        /// Its value, read back.
        now: String,
    },
    /// It is about to be given its value of before.
    Undoing {
        /// Which.
        setting: Setting,
    },
    /// It is not ours any more.
    Undone {
        /// Which.
        setting: Setting,
    },
}

/// Where lines are kept.
pub trait Ledger {
    /// All lines so far.
    fn lines(&self) -> &[Line];

    /// Adds a line; it is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    fn add_line(&mut self, line: Line) -> Result<()>;

    /// Forgets everything.
    ///
    /// # Errors
    /// When it cannot.
    fn forget(&mut self) -> Result<()>;
}

/// A setting that is not as it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The stage that changed it first.
    pub stage: Stage,
    /// Which.
    pub setting: Setting,
    /// Its value before the first change.
    pub before: String,
    /// The values that it was given since.
    pub ours: Vec<String>,
    /// The last of them, if the outcome of setting or undoing it was not recorded.
    pub in_flight: Option<String>,
}

/// The settings that are held by a record, in the order of their first change.
pub fn held(lines: &[Line]) -> Vec<Held> {
    let mut held: Vec<Held> = Vec::new();
    for line in lines {
        match line {
            Line::Begun { .. } => {}
            Line::Intent {
                stage,
                setting,
                before,
                wanted,
            } => match held.iter_mut().find(|held| held.setting == *setting) {
                Some(known) => {
                    known.ours.push(wanted.clone());
                    known.in_flight = Some(wanted.clone());
                }
                None => held.push(Held {
                    stage: *stage,
                    setting: setting.clone(),
                    before: before.clone(),
                    ours: vec![wanted.clone()],
                    in_flight: Some(wanted.clone()),
                }),
            },
            Line::Done { setting, now } => {
                if let Some(known) = held.iter_mut().find(|held| held.setting == *setting) {
                    known.ours.push(now.clone());
                    known.in_flight = None;
                }
            }
            Line::Undoing { setting } => {
                if let Some(known) = held.iter_mut().find(|held| held.setting == *setting) {
                    known.in_flight = known.ours.last().cloned();
                }
            }
            Line::Undone { setting } => held.retain(|held| held.setting != *setting),
        }
    }
    held
}

/// A record in a file.
#[derive(Debug)]
pub struct FileLedger {
    path: PathBuf,
    boot: String,
    lines: Vec<Line>,
    /// Why an existing record is void.
    void: Option<String>,
}

impl FileLedger {
    /// Reads the record in `directory`, if there is one.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read, or is not a record.
    pub fn open(directory: &Path, boot: &str) -> Result<Self> {
        let path = directory.join(FILE);
        let mut ledger = Self {
            path,
            boot: boot.to_owned(),
            lines: Vec::new(),
            void: None,
        };
        let text = match fs::read_to_string(&ledger.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ledger),
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot read {}", ledger.path.display()));
            }
        };
        ledger.lines = parse(&text).with_context(|| {
            format!(
                "{} is no record of `covalent configure`\n  cure: inspect it, then remove it",
                ledger.path.display()
            )
        })?;
        match ledger.lines.first() {
            Some(Line::Begun { boot: then }) if then == boot => {}
            Some(Line::Begun { .. }) => {
                ledger.lines.clear();
                ledger.void = Some(format!(
                    "{} is of another boot, and the settings that it records ended with that",
                    ledger.path.display()
                ));
            }
            // Killed before the first line was whole.
            None => {}
            Some(_) => bail!("{} does not begin with its boot", ledger.path.display()),
        }
        Ok(ledger)
    }

    /// Returns why the existing record is void, if it is.
    pub fn void(&self) -> Option<&str> {
        self.void.as_deref()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends these lines after the known ones, each line whole.
    fn append(&self, lines: &[Line]) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)?;
        let end = match self.lines.is_empty() {
            true => 0,
            false => whole(&mut file)?,
        };
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        let mut text = String::new();
        for line in lines {
            text.push_str(&serde_json::to_string(line)?);
            text.push('\n');
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        sync_directory(&self.path)
    }
}

impl Ledger for FileLedger {
    fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn add_line(&mut self, line: Line) -> Result<()> {
        let mut lines = Vec::new();
        if self.lines.is_empty() {
            lines.push(Line::Begun {
                boot: self.boot.clone(),
            });
        }
        lines.push(line);
        self.append(&lines)
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        self.lines.extend(lines);
        Ok(())
    }

    fn forget(&mut self) -> Result<()> {
        self.lines.clear();
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Parses the lines of a record. A line without its line break was never completely written, so no
/// action followed it.
fn parse(text: &str) -> Result<Vec<Line>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .enumerate()
        .map(|(at, line)| {
            serde_json::from_str(line).with_context(|| format!("line {} is malformed", at + 1))
        })
        .collect()
}

/// Where the last whole line ends.
fn whole(file: &mut File) -> io::Result<u64> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|&byte| byte == b'\n');
    Ok(end.map_or(0, |end| end as u64 + 1))
}

fn sync_directory(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(irq: u32, before: &str, wanted: &str) -> Line {
        Line::Intent {
            stage: Stage::Irq,
            setting: Setting::Interrupt { irq },
            before: before.to_owned(),
            wanted: wanted.to_owned(),
        }
    }

    fn done(irq: u32, now: &str) -> Line {
        Line::Done {
            setting: Setting::Interrupt { irq },
            now: now.to_owned(),
        }
    }

    #[test]
    fn fini_restores_the_first_recorded_value() {
        let lines = [
            intent(1, "0", "1"),
            done(1, "1"),
            intent(2, "0-3", "2"),
            intent(1, "1", "3"),
            done(1, "3"),
        ];
        let held = held(&lines);
        assert_eq!(held.len(), 2);
        assert_eq!(held[0].before, "0");
        assert_eq!(held[0].ours, ["1", "1", "3", "3"]);
        assert_eq!(held[0].in_flight, None);
        assert_eq!(held[1].in_flight.as_deref(), Some("2"));
    }

    #[test]
    fn a_setting_that_is_being_undone_is_in_flight_again() {
        let undoing = Line::Undoing {
            setting: Setting::Interrupt { irq: 1 },
        };
        let lines = [intent(1, "0", "1"), done(1, "1"), undoing];
        assert_eq!(held(&lines)[0].in_flight.as_deref(), Some("1"));
    }

    #[test]
    fn an_undone_setting_is_not_held_and_starts_anew() {
        let undone = Line::Undone {
            setting: Setting::Interrupt { irq: 1 },
        };
        let mut lines = vec![intent(1, "0", "1"), done(1, "1"), undone];
        assert_eq!(held(&lines), []);
        lines.push(intent(1, "5", "1"));
        assert_eq!(held(&lines)[0].before, "5");
    }

    #[test]
    fn a_record_is_read_back_and_a_torn_line_is_left_away() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ledger = FileLedger::open(directory.path(), "boot-1").expect("nothing there");
        assert_eq!(ledger.lines(), []);
        assert!(!ledger.path().exists(), "nothing is written without a need");
        ledger.add_line(intent(1, "0", "1")).expect("written");
        ledger.add_line(done(1, "1")).expect("written");
        let lines = ledger.lines().to_vec();
        assert_eq!(lines.len(), 3);
        let whole = fs::read(ledger.path()).expect("there");
        for torn in 0..20 {
            let mut bytes = whole.clone();
            let line = serde_json::to_string(&intent(2, "0", "1")).expect("plain");
            bytes.extend_from_slice(&line.as_bytes()[..torn]);
            fs::write(ledger.path(), bytes).expect("written");
            let mut reopened = FileLedger::open(directory.path(), "boot-1").expect("read");
            assert_eq!(reopened.lines(), lines);
            reopened.add_line(intent(3, "0", "1")).expect("written");
            let last = FileLedger::open(directory.path(), "boot-1").expect("read");
            assert_eq!(last.lines().len(), 4, "behind the last whole line");
        }
        ledger.forget().expect("removed");
        ledger.forget().expect("nothing to remove is no error");
    }

    #[test]
    fn a_first_line_that_was_torn_is_no_record_yet() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join(FILE), "{\"begun\":{\"bo").expect("written");
        let mut ledger = FileLedger::open(directory.path(), "boot-1").expect("read");
        assert_eq!(ledger.lines(), []);
        ledger.add_line(intent(1, "0", "1")).expect("written");
        let reopened = FileLedger::open(directory.path(), "boot-1").expect("read");
        assert_eq!(reopened.lines().len(), 2);
    }

    #[test]
    fn a_record_of_another_boot_is_void_and_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ledger = FileLedger::open(directory.path(), "boot-1").expect("nothing there");
        ledger.add_line(intent(1, "0", "1")).expect("written");
        let mut next = FileLedger::open(directory.path(), "boot-2").expect("read");
        assert_eq!(next.lines(), []);
        assert!(next.void().is_some_and(|why| why.contains("another boot")));
        next.add_line(intent(2, "4", "5")).expect("written");
        let reopened = FileLedger::open(directory.path(), "boot-2").expect("read");
        assert_eq!(held(reopened.lines()).len(), 1);
        assert_eq!(reopened.void(), None);
    }

    #[test]
    fn something_else_in_its_place_is_not_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        for text in ["hello\n", "{\"undone\":{\"setting\":\"huge_pages\"}}\n"] {
            fs::write(directory.path().join(FILE), text).expect("written");
            let error = FileLedger::open(directory.path(), "b").expect_err("no record");
            assert!(format!("{error:#}").contains(FILE), "{error:#}");
        }
    }
}
