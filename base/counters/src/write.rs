//! The writers' side of the file of counters.

use std::{io, path::Path, process, sync::Arc, time::Duration};

use covalent_ipc::{
    published,
    sync::{AtomicU64, Ordering},
};
use nix::time::{ClockId, clock_gettime};

use super::{
    draft::{Draft, DraftField},
    file::SharedFile,
    layout::{
        ENDED, FamilyType, FieldKind, MAGIC, RUNNING, VERSION, family, field, head, slot, table,
        writer,
    },
    text,
};

/// A cache line, in words. Data of two writers never shares a line.
const LINE_WORDS: usize = 8;

/// Planned contents of a file.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The node's name. Only its first 64 bytes are published.
    pub node: &'a str,
    /// How often writers write, at most.
    pub interval: Duration,
    /// The metrics. Values name them by their number here.
    pub families: &'a [FamilyPlan<'a>],
    /// The writers, one [`Writer`] each.
    pub writers: &'a [WriterPlan],
    /// The group that may read the file besides its user.
    pub group: Option<u32>,
}

/// A metric's words.
#[derive(Debug, Clone, Copy)]
pub struct FamilyPlan<'a> {
    /// Its type.
    pub kind: FamilyType,
    /// Its name, at most 96 bytes.
    pub name: &'a str,
    /// Its unit, at most 24 bytes.
    pub unit: &'a str,
    /// One sentence, at most 512 bytes.
    pub help: &'a str,
}

/// One writer.
#[derive(Debug, Clone)]
pub struct WriterPlan {
    /// Its name, at most 32 bytes.
    pub name: String,
    /// How many different meanings its values have together, objects of one shape counted once.
    pub fields: usize,
    /// Its tables, at most 8.
    pub tables: Vec<TablePlan>,
}

/// Objects of one kind.
#[derive(Debug, Clone, Copy)]
pub struct TablePlan {
    /// Kind of its objects, at most 24 bytes.
    pub name: &'static str,
    /// Most objects.
    pub slots: usize,
    /// Most bytes of text of one; a multiple of 8.
    pub text_bytes: usize,
    /// Most values of one.
    pub values: usize,
}

impl TablePlan {
    const fn stride_words(&self) -> usize {
        (slot::TEXT + self.text_bytes / 8 + self.values).next_multiple_of(LINE_WORDS)
    }
}

/// The file, as held by its maker. If it is dropped without [`Board::end`], readers see that its
/// process died.
#[derive(Debug)]
pub struct Board {
    file: Arc<SharedFile>,
}

impl Board {
    /// Records for readers that the process shut down gracefully. Call it after every writer has
    /// stopped.
    pub fn end(&self) {
        self.file.words()[head::STATE].store(ENDED, Ordering::Release);
    }
}

/// Makes the complete file of counters at `path`, with all of its memory allocated. Returns one
/// writer for each in the plan.
///
/// # Errors
/// The error of the system call: no space, no permission, or no such directory. Nothing is left
/// behind then.
pub fn create(path: &Path, plan: &Plan<'_>) -> io::Result<(Board, Vec<Writer>)> {
    let families = head::WORDS;
    let writers = (families + plan.families.len() * family::WORDS).next_multiple_of(LINE_WORDS);
    let mut end = writers + plan.writers.len() * writer::WORDS;
    let mut places = Vec::new();
    for wanted in plan.writers {
        let fields = end;
        end += wanted.fields * field::WORDS;
        let mut tables = Vec::new();
        for planned in wanted.tables.iter().take(table::MOST) {
            end = end.next_multiple_of(LINE_WORDS);
            tables.push(end);
            end += planned.slots * planned.stride_words();
        }
        end = end.next_multiple_of(LINE_WORDS);
        places.push((fields, tables));
    }
    let file = SharedFile::make(path, end, plan.group, |words| {
        write_head(words, plan, families, writers);
        for (index, (wanted, (fields, tables))) in plan.writers.iter().zip(&places).enumerate() {
            write_writer(
                &words[writers + index * writer::WORDS..],
                wanted,
                *fields,
                tables,
            );
        }
        // Written last: a reader that finds the magic finds everything.
        words[0].store(u64::from_ne_bytes(MAGIC), Ordering::Release);
    })?;
    let file = Arc::new(file);
    let all = plan.writers.iter().zip(places).enumerate();
    let writers = all.map(|(index, (wanted, (fields, tables)))| Writer {
        file: Arc::clone(&file),
        record: writers + index * writer::WORDS,
        fields,
        field_capacity: wanted.fields,
        known: Vec::new(),
        tables: wanted
            .tables
            .iter()
            .zip(tables)
            .map(|(planned, at)| OwnTable {
                at,
                stride: planned.stride_words(),
                slots: planned.slots,
                text_words: planned.text_bytes / 8,
                values: planned.values,
                used: 0,
                shapes: Vec::new(),
                seats: Vec::new(),
            })
            .collect(),
    });
    let writers = writers.collect();
    Ok((Board { file }, writers))
}

fn write_head(words: &[AtomicU64], plan: &Plan<'_>, families: usize, writers: usize) {
    let set = |at: usize, value: u64| words[at].store(value, Ordering::Relaxed);
    set(head::VERSION, VERSION);
    set(head::FILE_BYTES, (words.len() * 8) as u64);
    set(head::PID, process::id().into());
    set(head::START_TICKS, start_ticks());
    set(head::STARTED_REALTIME_NS, now_ns(ClockId::CLOCK_REALTIME));
    for (at, half) in boot_id().into_iter().enumerate() {
        set(head::BOOT_ID + at, half);
    }
    set(head::STATE, RUNNING);
    set(head::INTERVAL_NS, nanoseconds(plan.interval));
    set(head::FAMILIES, bytes(families));
    set(head::FAMILY_COUNT, plan.families.len() as u64);
    set(head::WRITERS, bytes(writers));
    set(head::WRITER_COUNT, plan.writers.len() as u64);
    text::store(&words[head::NODE..][..head::NODE_WORDS], plan.node);
    let records = words[families..].chunks(family::WORDS);
    for (declared, record) in plan.families.iter().zip(records) {
        record[family::TYPE].store(declared.kind as u64, Ordering::Relaxed);
        text::store(&record[family::UNIT..][..family::UNIT_WORDS], declared.unit);
        text::store(&record[family::NAME..][..family::NAME_WORDS], declared.name);
        text::store(&record[family::HELP..][..family::HELP_WORDS], declared.help);
    }
}

fn write_writer(record: &[AtomicU64], plan: &WriterPlan, fields: usize, tables: &[usize]) {
    let set = |at: usize, value: u64| record[at].store(value, Ordering::Relaxed);
    set(writer::FIELDS, bytes(fields));
    set(writer::FIELD_CAPACITY, plan.fields as u64);
    set(writer::TABLE_COUNT, tables.len() as u64);
    text::store(&record[writer::NAME..][..writer::NAME_WORDS], &plan.name);
    for (index, (planned, &at)) in plan.tables.iter().zip(tables).enumerate() {
        let own = writer::TABLES + index * table::WORDS;
        text::store(
            &record[own + table::NAME..][..table::NAME_WORDS],
            planned.name,
        );
        set(own + table::OFFSET, bytes(at));
        set(own + table::STRIDE_BYTES, bytes(planned.stride_words()));
        set(own + table::SLOTS, planned.slots as u64);
        set(own + table::TEXT_BYTES, planned.text_bytes as u64);
    }
}

/// One writer's part of the file. No other writer writes there.
#[derive(Debug)]
pub struct Writer {
    file: Arc<SharedFile>,
    record: usize,
    fields: usize,
    field_capacity: usize,
    /// The fields that were written.
    known: Vec<KnownField>,
    tables: Vec<OwnTable>,
}

/// A field as written.
#[derive(Debug)]
struct KnownField {
    family: u32,
    kind: FieldKind,
    by: Box<str>,
}

/// The first field of a shape, and how many there are.
type Shape = (usize, usize);

#[derive(Debug)]
struct OwnTable {
    at: usize,
    stride: usize,
    slots: usize,
    text_words: usize,
    values: usize,
    used: usize,
    shapes: Vec<Shape>,
    seats: Vec<Seat>,
}

/// State of an object as written.
#[derive(Debug, Default)]
struct Seat {
    /// How many objects had this slot.
    generations: u64,
    /// The object that has it.
    key: Option<u64>,
    text: String,
    shape: Option<Shape>,
}

impl Writer {
    /// Begins a set. Readers see all of it at once when the returned value is dropped.
    pub fn begin(&mut self) -> Writing<'_> {
        let sequence = &self.file.words()[self.record + writer::SEQUENCE];
        Writing {
            next: published::begin(sequence),
            writer: self,
        }
    }
}

/// A set that is being written.
#[derive(Debug)]
pub struct Writing<'a> {
    writer: &'a mut Writer,
    /// The next value of the sequence.
    next: u64,
}

impl Writing<'_> {
    /// Returns whether the object with this `key` already has the slot. Its labels are known then,
    /// unless they change.
    #[must_use]
    pub fn knows(&self, table: usize, slot: usize, key: u64) -> bool {
        let table = self.writer.tables.get(table);
        table.and_then(|table| table.seats.get(slot)?.key) == Some(key)
    }

    /// Writes the object with this `key` into a slot. A draft without labels keeps the existing
    /// labels if the same object has the slot. Returns whether there was space for it.
    pub fn put(&mut self, table: usize, slot: usize, key: u64, draft: &Draft) -> bool {
        let keeps_text = self.knows(table, slot, key) && draft.text.is_empty();
        let Some(shape) = self.writer.shape(table, slot, draft) else {
            return false;
        };
        let Some(own) = self.writer.tables.get_mut(table) else {
            return false;
        };
        if slot >= own.slots || draft.text.len() > own.text_words * 8 {
            return false;
        }
        own.used = own.used.max(slot + 1);
        if own.seats.len() <= slot {
            own.seats.resize_with(slot + 1, Seat::default);
        }
        let (seat, at) = (&mut own.seats[slot], own.at + slot * own.stride);
        let words = &self.writer.file.words()[at..][..own.stride];
        if seat.key != Some(key) {
            seat.generations += 1;
            seat.key = Some(key);
        }
        words[self::slot::GENERATION].store(seat.generations, Ordering::Relaxed);
        if !keeps_text && seat.text != draft.text {
            seat.text.clone_from(&draft.text);
            words[self::slot::TEXT_BYTES].store(draft.text.len() as u64, Ordering::Relaxed);
            let place = &words[self::slot::TEXT..][..own.text_words];
            let taken = draft.text.len().div_ceil(8);
            text::store(&place[..taken], &draft.text);
        }
        if seat.shape != Some(shape) {
            seat.shape = Some(shape);
            let word = (shape.1 as u64) << 32 | shape.0 as u64;
            words[self::slot::SHAPE].store(word, Ordering::Relaxed);
        }
        let values = &words[self::slot::TEXT + own.text_words..];
        for (word, &value) in values.iter().zip(&draft.values) {
            word.store(value, Ordering::Relaxed);
        }
        true
    }

    /// Empties a slot, if anything is in it.
    pub fn clear(&mut self, table: usize, slot: usize) {
        let Some(own) = self.writer.tables.get_mut(table) else {
            return;
        };
        if let Some(seat) = own.seats.get_mut(slot)
            && seat.key.take().is_some()
        {
            let at = own.at + slot * own.stride + self::slot::GENERATION;
            self.writer.file.words()[at].store(0, Ordering::Relaxed);
        }
    }

    /// Empties the slots from `first` on.
    pub fn clear_from(&mut self, table: usize, first: usize) {
        let used = self.writer.tables.get(table).map_or(0, |own| own.used);
        for slot in first..used {
            self.clear(table, slot);
        }
    }

    /// Sets the number of objects for which there was no space.
    pub fn omitted(&mut self, count: u64) {
        self.set(writer::OMITTED, count);
    }

    fn set(&self, at: usize, value: u64) {
        self.writer.file.words()[self.writer.record + at].store(value, Ordering::Relaxed);
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.set(
            writer::WRITTEN_MONOTONIC_NS,
            now_ns(ClockId::CLOCK_MONOTONIC),
        );
        self.set(writer::WRITTEN_REALTIME_NS, now_ns(ClockId::CLOCK_REALTIME));
        self.set(writer::FIELD_COUNT, self.writer.known.len() as u64);
        for (index, table) in self.writer.tables.iter().enumerate() {
            let at = writer::TABLES + index * self::table::WORDS + self::table::USED;
            self.set(at, table.used as u64);
        }
        let sequence = &self.writer.file.words()[self.writer.record + writer::SEQUENCE];
        published::end(sequence, self.next);
    }
}

impl Writer {
    /// Returns fields that match the values of `draft`: those of the slot, others of the table, or
    /// new ones.
    fn shape(&mut self, table: usize, slot: usize, draft: &Draft) -> Option<Shape> {
        let own = self.tables.get(table)?;
        if draft.fields.len() > own.values {
            return None;
        }
        let has = own.seats.get(slot).and_then(|seat| seat.shape);
        let mut shapes = has.into_iter().chain(own.shapes.iter().copied());
        if let Some(found) = shapes.find(|&shape| self.means(shape, draft)) {
            return Some(found);
        }
        let first = self.known.len();
        if draft.fields.len() > self.field_capacity - first {
            return None;
        }
        for declared in &draft.fields {
            self.write_field(declared, draft.by(declared));
        }
        let shape = (first, draft.fields.len());
        self.tables.get_mut(table)?.shapes.push(shape);
        Some(shape)
    }

    fn means(&self, (first, count): Shape, draft: &Draft) -> bool {
        count == draft.fields.len()
            && self.known[first..first + count]
                .iter()
                .zip(&draft.fields)
                .all(|(known, declared)| {
                    known.family == declared.family
                        && known.kind == declared.kind
                        && *known.by == *draft.by(declared)
                })
    }

    fn write_field(&mut self, declared: &DraftField, by: &str) {
        let at = self.fields + self.known.len() * field::WORDS;
        let words = &self.file.words()[at..][..field::WORDS];
        let word = (declared.kind as u64) << 32 | u64::from(declared.family);
        words[field::FAMILY_AND_KIND].store(word, Ordering::Relaxed);
        text::store(&words[field::LABELS..][..field::LABELS_WORDS], by);
        self.known.push(KnownField {
            family: declared.family,
            kind: declared.kind,
            by: by.into(),
        });
    }
}

const fn bytes(words: usize) -> u64 {
    (words * 8) as u64
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The time of a clock; every kernel that runs this has both.
pub(super) fn now_ns(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| nanoseconds(time.into()))
}

/// Start time of this process in clock ticks since boot: field 22 of proc_pid_stat(5). 0 if it
/// cannot be read.
pub(super) fn start_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name, which may hold anything.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let field = behind.split_ascii_whitespace().nth(19);
    field.and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// The 16 bytes of this boot's id. 0 where that cannot be read.
fn boot_id() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes();
    let half = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&number[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    [half(0), half(8)]
}
