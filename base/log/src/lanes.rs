//! Log lines of lanes, written by another thread. A lane must not block, and neither a terminal nor
//! journald guarantees to accept a line at once. The same thread writes repeat counts.

use std::{
    cell::Cell,
    fmt::{self, Write},
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use tracing::{
    Event, Level, Subscriber, debug, error,
    field::{Field, Visit},
    info, trace, warn,
};
use tracing_subscriber::{Layer, layer::Context};

use crate::counted::write_due;

/// Most lines that wait for the writer; more are counted.
const WAITING_MAX: usize = 256;

/// Name of the writer thread.
const WRITER: &str = "log";

/// Target of the lines that the writer thread writes. The filter has already selected each line by
/// its own target, on the lane.
const TARGET: &str = "covalent_dataplane::lane";

thread_local! {
    static IS_LANE: Cell<bool> = const { Cell::new(false) };
}

/// Marks the calling thread as a lane: from now on its lines are handed to the writer thread, and
/// lines that do not fit are counted.
pub fn mark_thread_as_lane() {
    IS_LANE.set(true);
}

/// Layer that takes the lines of lanes and hands them over. It stands in front of the layers that
/// write.
pub struct Lanes {
    lines: SyncSender<WriterMessage>,
    lost: Arc<AtomicU64>,
}

/// Lines that wait for the writer thread.
pub struct Waiting {
    lines: SyncSender<WriterMessage>,
    handed_over: Receiver<WriterMessage>,
    lost: Arc<AtomicU64>,
}

/// The writer thread. Dropping this waits until all lines handed over before are written.
pub struct Writing {
    lines: SyncSender<WriterMessage>,
    thread: Option<JoinHandle<()>>,
}

/// A message to the writer thread.
pub(crate) enum WriterMessage {
    Line(Line),
    /// Lines repeat, and their count must be reported.
    CheckDue,
    End,
}

pub(crate) struct Line {
    level: Level,
    /// Name of the lane's thread.
    lane: String,
    text: String,
}

impl Lanes {
    /// Creates the layer, and the queue to which it hands lines over.
    #[must_use]
    pub fn new() -> (Self, Waiting) {
        let (lines, handed_over) = sync_channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let waiting = Waiting {
            lines: lines.clone(),
            handed_over,
            lost: Arc::clone(&lost),
        };
        (Self { lines, lost }, waiting)
    }

    /// The channel to the writer thread.
    pub(crate) fn writer(&self) -> SyncSender<WriterMessage> {
        self.lines.clone()
    }
}

impl Waiting {
    /// Starts the writer thread. It has the signal mask and the capabilities that its caller has at
    /// this call.
    ///
    /// # Errors
    /// If the operating system cannot create a thread.
    pub fn write(self) -> io::Result<Writing> {
        let thread = thread::Builder::new()
            .name(WRITER.to_owned())
            .spawn(move || write(&self.handed_over, &self.lost))?;
        Ok(Writing {
            lines: self.lines,
            thread: Some(thread),
        })
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // If the send fails, the thread has panicked, and there is nothing to wait for.
        let _ = self.lines.send(WriterMessage::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<S: Subscriber> Layer<S> for Lanes {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        if !IS_LANE.get() {
            return true;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let line = Line {
            level: *event.metadata().level(),
            lane: thread::current().name().unwrap_or_default().to_owned(),
            text: text.message + &text.fields,
        };
        if self.lines.try_send(WriterMessage::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        false
    }
}

fn write(lines: &Receiver<WriterMessage>, lost: &AtomicU64) {
    loop {
        let next_message = match write_due() {
            None => lines.recv().map_err(RecvTimeoutError::from),
            Some(due) => lines.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match next_message {
            Ok(WriterMessage::Line(line)) => line.write(),
            Ok(WriterMessage::CheckDue) | Err(RecvTimeoutError::Timeout) => {}
            Ok(WriterMessage::End) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            warn!(target: TARGET, lost, "lanes logged lines faster than they could be written");
        }
    }
}

impl Line {
    fn write(self) {
        let Self { level, lane, text } = self;
        match level {
            Level::ERROR => error!(target: TARGET, lane, "{text}"),
            Level::WARN => warn!(target: TARGET, lane, "{text}"),
            Level::INFO => info!(target: TARGET, lane, "{text}"),
            Level::DEBUG => debug!(target: TARGET, lane, "{text}"),
            Level::TRACE => trace!(target: TARGET, lane, "{text}"),
        }
    }
}

/// A line as text.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
