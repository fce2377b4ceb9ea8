//! Lines of lanes, written by another thread: a lane waits for nobody, and neither a terminal nor journald promises to take a line at once.
//! The same thread writes how often lines came again.

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

/// What the thread is called that writes them.
const WRITER: &str = "log";

/// Under which name these lines are chosen. Where a line was written in the code its own had to be chosen before.
const TARGET: &str = "covalent_dataplane::lane";

thread_local! {
    static IS_LANE: Cell<bool> = const { Cell::new(false) };
}

/// Says that the calling thread is a lane: from now on its lines are handed over, and what does not fit is counted.
pub fn this_is_a_lane() {
    IS_LANE.set(true);
}

/// Takes lines of lanes out, and hands them over. It stands in front of what writes.
pub struct Lanes {
    lines: SyncSender<Said>,
    lost: Arc<AtomicU64>,
}

/// What was handed over, and waits for its thread.
pub struct Waiting {
    lines: SyncSender<Said>,
    handed_over: Receiver<Said>,
    lost: Arc<AtomicU64>,
}

/// The thread that writes. Whoever drops this waits until all is written that was handed over before.
pub struct Writing {
    lines: SyncSender<Said>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is told.
pub(crate) enum Said {
    Line(Line),
    /// Lines come again, and it is to be told how often.
    Look,
    End,
}

pub(crate) struct Line {
    level: Level,
    /// Name of the lane's thread.
    lane: String,
    text: String,
}

impl Lanes {
    /// Hands over to who is behind the second.
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

    /// Where the thread is told something.
    pub(crate) fn writer(&self) -> SyncSender<Said> {
        self.lines.clone()
    }
}

impl Waiting {
    /// Starts the thread that writes. It has the signals and the capabilities that its caller has by then.
    ///
    /// # Errors
    /// If the system gives no thread.
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
        // Where nobody takes it the thread has panicked, and there is nothing to wait for.
        let _ = self.lines.send(Said::End);
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
        if self.lines.try_send(Said::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        false
    }
}

fn write(lines: &Receiver<Said>, lost: &AtomicU64) {
    loop {
        let said = match write_due() {
            None => lines.recv().map_err(RecvTimeoutError::from),
            Some(due) => lines.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match said {
            Ok(Said::Line(line)) => line.write(),
            Ok(Said::Look) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Said::End) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            warn!(target: TARGET, lost, "lines of lanes came too fast to be written");
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
