//! A reader of the file of counters.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use super::{
    layout::{
        ENDED, FamilyType, FieldKind, MAGIC, VERSION, family, field, head, slot, table, writer,
    },
    lock,
    snapshot::{Family, Field, Object, Snapshot, Table, WriterSet},
    text,
};
use covalent_ipc::sync::{Ordering, fence};
use nix::libc;

/// No file of ours is longer: a node of 256 lanes makes one of a third of that.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Most metrics, and most writers.
const RECORDS_MAX: u64 = 4096;
/// How long a set that changes under the reader is taken again.
const PATIENCE: Duration = Duration::from_secs(1);

/// State of the process that writes the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// The process that made the file is running.
    Running,
    /// It shut down gracefully.
    Ended,
    /// It died: it was killed, or it crashed.
    Died,
}

impl Liveness {
    /// One word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Died => "died",
        }
    }
}

/// Why a file of counters cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
    /// It is something else.
    #[error("this is no file of counters")]
    Foreign,
    /// It has another layout.
    #[error(
        "its layout has version {found}, and this program reads version {VERSION}: use the \
         `covalent` of the release that wrote it"
    )]
    Version {
        /// The version found.
        found: u64,
    },
    /// A word cannot be.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// A writer was writing at each look.
    #[error("{writer} did not finish writing")]
    Busy {
        /// Its name.
        writer: String,
    },
}

/// An open file of counters. It stays valid when a new daemon replaces the file at the path.
#[derive(Debug)]
pub struct CountersFile {
    file: File,
}

impl CountersFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`ReadError::System`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        // A FIFO in the file's place must not block the open.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        Ok(Self { file })
    }

    /// Returns whether the process that made the file is running. That process holds a lock, which
    /// the kernel releases however the process exits.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn liveness(&self) -> Result<Liveness, ReadError> {
        if lock::is_held(&self.file)? {
            return Ok(Liveness::Running);
        }
        let state = Words::read(&self.file, 0, head::WORDS)?.word(head::STATE);
        Ok(if state == ENDED {
            Liveness::Ended
        } else {
            Liveness::Died
        })
    }

    /// Reads everything, with each writer's data as one set. If a writer writes continuously, it
    /// retries for one second.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self) -> Result<Snapshot, ReadError> {
        let begun = Instant::now();
        let mut pause = Duration::from_micros(50);
        loop {
            match self.try_read() {
                Err(ReadError::Busy { .. }) if begun.elapsed() < PATIENCE => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(5));
                }
                done => return done,
            }
        }
    }

    /// As [`CountersFile::read`], without trying again.
    ///
    /// # Errors
    /// [`ReadError::Busy`] if a set changed while it was read.
    pub fn try_read(&self) -> Result<Snapshot, ReadError> {
        let length = self.file.metadata()?.size();
        let head = Words::read(&self.file, 0, head::WORDS).map_err(|error| match error {
            ReadError::Damaged(_) => ReadError::Foreign,
            other => other,
        })?;
        if head.word(0) != u64::from_ne_bytes(MAGIC) {
            return Err(ReadError::Foreign);
        }
        if head.word(head::VERSION) != VERSION {
            return Err(ReadError::Version {
                found: head.word(head::VERSION),
            });
        }
        if length > FILE_BYTES_MAX || head.word(head::FILE_BYTES) != length {
            return Err(ReadError::Damaged(
                "its length is not the one in its header",
            ));
        }
        let families = self.families(&head)?;
        // Check before reading the sets. A writer that dies meanwhile leaves an unfinished set,
        // which the next read reports as torn.
        let liveness = self.liveness()?;
        let count = within(
            head.word(head::WRITER_COUNT),
            RECORDS_MAX,
            "the number of writers",
        )?;
        let first = head.word(head::WRITERS);
        let writers = (0..count)
            .map(|index| {
                let at = first.saturating_add(index * (writer::WORDS as u64) * 8);
                self.writer(at, families.len(), liveness)
            })
            .collect::<Result<_, _>>()?;
        Ok(Snapshot {
            liveness,
            pid: head.word(head::PID),
            start_ticks: head.word(head::START_TICKS),
            started_realtime_ns: head.word(head::STARTED_REALTIME_NS),
            interval_ns: head.word(head::INTERVAL_NS),
            node: head.text(head::NODE, head::NODE_WORDS)?.to_owned(),
            families,
            writers,
        })
    }

    fn families(&self, head: &Words) -> Result<Vec<Family>, ReadError> {
        let count = within(
            head.word(head::FAMILY_COUNT),
            RECORDS_MAX,
            "the number of metrics",
        )?;
        let records = Words::read(
            &self.file,
            head.word(head::FAMILIES),
            count as usize * family::WORDS,
        )?;
        records
            .0
            .chunks(family::WORDS * 8)
            .map(|record| {
                let record = Words(record.to_vec());
                let name = record.text(family::NAME, family::NAME_WORDS)?;
                if name.is_empty()
                    || !name
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                {
                    return Err(ReadError::Damaged("the name of a metric"));
                }
                let help = record.text(family::HELP, family::HELP_WORDS)?;
                Ok(Family {
                    kind: FamilyType::of(record.word(family::TYPE))
                        .ok_or(ReadError::Damaged("the type of a metric"))?,
                    name: name.to_owned(),
                    unit: record.text(family::UNIT, family::UNIT_WORDS)?.to_owned(),
                    help: help.replace(char::is_control, " "),
                })
            })
            .collect()
    }

    fn writer(&self, at: u64, families: usize, liveness: Liveness) -> Result<WriterSet, ReadError> {
        let before = Words::read(&self.file, at, writer::WORDS)?;
        let sequence = before.word(writer::SEQUENCE);
        let name = before.text(writer::NAME, writer::NAME_WORDS)?.to_owned();
        let is_running = liveness == Liveness::Running;
        if is_running && !sequence.is_multiple_of(2) {
            return Err(ReadError::Busy { writer: name });
        }
        // Data read from here on is at least as new as the sequence.
        fence(Ordering::Acquire);
        let taken = self.set(&before, families);
        fence(Ordering::Acquire);
        let after = Words::read(&self.file, at, 1)?.word(writer::SEQUENCE);
        if is_running && after != sequence {
            return Err(ReadError::Busy { writer: name });
        }
        let (fields, tables) = taken?;
        Ok(WriterSet {
            name,
            is_torn: !sequence.is_multiple_of(2),
            written_monotonic_ns: before.word(writer::WRITTEN_MONOTONIC_NS),
            written_realtime_ns: before.word(writer::WRITTEN_REALTIME_NS),
            omitted: before.word(writer::OMITTED),
            fields,
            tables,
        })
    }

    fn set(&self, record: &Words, families: usize) -> Result<(Vec<Field>, Vec<Table>), ReadError> {
        let capacity = within(
            record.word(writer::FIELD_CAPACITY),
            1 << 20,
            "the room for fields",
        )?;
        let count = within(
            record.word(writer::FIELD_COUNT),
            capacity,
            "the number of fields",
        )?;
        let words = Words::read(
            &self.file,
            record.word(writer::FIELDS),
            count as usize * field::WORDS,
        )?;
        let fields = words
            .0
            .chunks(field::WORDS * 8)
            .map(|record| {
                let record = Words(record.to_vec());
                let word = record.word(field::FAMILY_AND_KIND);
                let family = (word & u64::from(u32::MAX)) as usize;
                if family >= families {
                    return Err(ReadError::Damaged("a field of no metric"));
                }
                let labels = record.text(field::LABELS, field::LABELS_WORDS)?;
                super::parse_labels(labels).ok_or(ReadError::Damaged("the label of a field"))?;
                Ok(Field {
                    family,
                    kind: FieldKind::of(word >> 32)
                        .ok_or(ReadError::Damaged("the kind of a field"))?,
                    labels: labels.to_owned(),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let count = within(
            record.word(writer::TABLE_COUNT),
            table::MOST as u64,
            "the number of tables",
        )?;
        let tables = (0..count as usize)
            .map(|index| {
                let own = writer::TABLES + index * table::WORDS;
                self.table(record, own, fields.len())
            })
            .collect::<Result<_, _>>()?;
        Ok((fields, tables))
    }

    fn table(&self, record: &Words, own: usize, fields: usize) -> Result<Table, ReadError> {
        let word = |at: usize| record.word(own + at);
        let stride = within(word(table::STRIDE_BYTES), 1 << 20, "the size of a slot")? as usize;
        let text_bytes = word(table::TEXT_BYTES);
        let shortest = (slot::TEXT as u64 * 8).saturating_add(text_bytes);
        if !stride.is_multiple_of(8) || !text_bytes.is_multiple_of(8) || shortest > stride as u64 {
            return Err(ReadError::Damaged("the size of a slot"));
        }
        let slots = within(
            word(table::SLOTS),
            FILE_BYTES_MAX / 8,
            "the number of slots",
        )?;
        let used = within(word(table::USED), slots, "the number of slots in use")? as usize;
        if used.saturating_mul(stride) as u64 > FILE_BYTES_MAX {
            return Err(ReadError::Damaged("the number of slots in use"));
        }
        let words = Words::read(&self.file, word(table::OFFSET), used * stride / 8)?;
        let mut objects = Vec::new();
        for (index, bytes) in words.0.chunks(stride.max(8)).enumerate() {
            objects.extend(object(index, bytes, text_bytes as usize, fields)?);
        }
        let name = record.text(own + table::NAME, table::NAME_WORDS)?;
        Ok(Table {
            name: name.to_owned(),
            objects,
        })
    }
}

/// The object in a slot, if there is one.
fn object(
    index: usize,
    bytes: &[u8],
    text_bytes: usize,
    fields: usize,
) -> Result<Option<Object>, ReadError> {
    let generation = word_of(bytes, slot::GENERATION);
    if generation == 0 {
        return Ok(None);
    }
    let shape = word_of(bytes, slot::SHAPE);
    let (first, count) = (
        (shape & u64::from(u32::MAX)) as usize,
        (shape >> 32) as usize,
    );
    let values = &bytes[slot::TEXT * 8 + text_bytes..];
    if first.saturating_add(count) > fields || count > values.len() / 8 {
        return Err(ReadError::Damaged("the fields of an object"));
    }
    let length = within(
        word_of(bytes, slot::TEXT_BYTES),
        text_bytes as u64,
        "a text's length",
    )?;
    let text = text::load(&bytes[slot::TEXT * 8..][..length as usize])
        .ok_or(ReadError::Damaged("the text of an object"))?;
    let lines: Vec<String> = text.split('\n').map(ToOwned::to_owned).collect();
    if lines.iter().any(|line| super::parse_labels(line).is_none()) {
        return Err(ReadError::Damaged("the labels of an object"));
    }
    Ok(Some(Object {
        slot: index,
        generation,
        lines,
        first,
        values: (0..count).map(|at| word_of(values, at)).collect(),
    }))
}

fn within(found: u64, most: u64, what: &'static str) -> Result<u64, ReadError> {
    if found > most {
        return Err(ReadError::Damaged(what));
    }
    Ok(found)
}

fn word_of(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at * 8..][..8]);
    u64::from_ne_bytes(word)
}

/// Words of the file, copied at one moment.
struct Words(Vec<u8>);

impl Words {
    fn read(file: &File, at: u64, words: usize) -> Result<Self, ReadError> {
        let length = file.metadata()?.size();
        let bytes = words as u64 * 8;
        if !at.is_multiple_of(8) || at.checked_add(bytes).is_none_or(|end| end > length) {
            return Err(ReadError::Damaged("something lies beyond its end"));
        }
        let mut copied = vec![0; words * 8];
        file.read_exact_at(&mut copied, at)?;
        Ok(Self(copied))
    }

    fn word(&self, at: usize) -> u64 {
        word_of(&self.0, at)
    }

    fn text(&self, at: usize, words: usize) -> Result<&str, ReadError> {
        text::load(&self.0[at * 8..][..words * 8])
            .filter(|text| !text.contains(char::is_control))
            .ok_or(ReadError::Damaged("a text"))
    }
}
