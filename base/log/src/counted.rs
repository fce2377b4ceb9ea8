//! Repeated log lines are counted and not written again, so that a flapping state does not fill a
//! disk.

use std::{
    fmt::{self, Write},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc::SyncSender},
    time::Instant,
};

use tracing::{
    Event, Level, Subscriber, error,
    field::{Field, Visit},
    info, warn,
};
use tracing_subscriber::{Layer, layer::Context};

use crate::{
    lanes::{Lanes, WriterMessage},
    repeats::Repeats,
};

/// Target of the lines that report repeat counts.
const TARGET: &str = "covalent_log::again";

/// The numeric field that identifies the object of a line.
const OBJECT: &str = "lane";

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// By how bad they are.
#[derive(Default)]
struct Known {
    errors: Repeats,
    warnings: Repeats,
    others: Repeats,
}

/// Layer that counts repeated lines. Two lines that differ only in numbers, such as an epoch, a
/// session or a count, are the same. Diagnostic lines, `debug` and below, are not counted.
pub struct Counted {
    /// The writer thread to wake when the window of a line ends, if there is one.
    writer_thread: Option<SyncSender<WriterMessage>>,
}

impl Counted {
    /// For a process with the writer thread of `lanes`, which also reports repeat counts.
    #[must_use]
    pub fn before(lanes: &Lanes) -> Self {
        Self {
            writer_thread: Some(lanes.writer()),
        }
    }

    /// For a process without a writer thread, which must call [`write_due`].
    #[must_use]
    pub const fn alone() -> Self {
        Self {
            writer_thread: None,
        }
    }
}

impl<S: Subscriber> Layer<S> for Counted {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO || metadata.target() == TARGET {
            return true;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let line = line.message + &line.fields;
        let mut known = known();
        let was_due = known.next_due();
        let is_new = known.of(*metadata.level()).admit(&line, Instant::now());
        let is_due = known.next_due();
        drop(known);
        if was_due != is_due
            && let Some(writer_thread) = &self.writer_thread
        {
            // One that is full is looked at anyway.
            let _ = writer_thread.try_send(WriterMessage::CheckDue);
        }
        is_new
    }
}

/// Writes the repeat counts of lines whose window has ended. Returns when the next count is due:
/// call it again then. If none is due, call it from time to time.
pub fn write_due() -> Option<Instant> {
    let now = Instant::now();
    let mut known = known();
    let errors = known.errors.take_due(now);
    let warnings = known.warnings.take_due(now);
    let others = known.others.take_due(now);
    let next = known.next_due();
    // Writing takes the lock again.
    drop(known);
    for (line, times) in errors {
        error!(target: TARGET, times, "{line}: again");
    }
    for (line, times) in warnings {
        warn!(target: TARGET, times, "{line}: again");
    }
    for (line, times) in others {
        info!(target: TARGET, times, "{line}: again");
    }
    next
}

fn known() -> MutexGuard<'static, Known> {
    // The table is complete after each call, even if a holder of the lock panicked.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    fn of(&mut self, level: Level) -> &mut Repeats {
        match level {
            Level::ERROR => &mut self.errors,
            Level::WARN => &mut self.warnings,
            _ => &mut self.others,
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let all = [&self.errors, &self.warnings, &self.others];
        all.into_iter().filter_map(Repeats::next_due).min()
    }
}

/// A line without its numbers.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn number(&mut self, field: &Field, value: impl fmt::Display) {
        if field.name() == OBJECT {
            // Writing to a string cannot fail.
            let _ = write!(self.fields, " {OBJECT}={value}");
        }
    }
}

impl Visit for Line {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.number(field, value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.number(field, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.number(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.number(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
