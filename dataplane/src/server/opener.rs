//! The thread that changes the configuration ([`super::reconfigure`]), and opens and closes ports.
//!
//! One thread runs one job after the other, in the order of submission, and stops with the server.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    slice,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use covalent_api::agreement::Objection;
use covalent_config::{Config, PortConfig};

use super::{
    preparation::Draft,
    reconfigure::{Lanes, Outcome, Stopped, reconfigure},
};
use crate::{
    lane::command::{Command, Stepped},
    mailbox::Mailbox,
    port::{self, LaneMemory, Port, PortError, absent::AbsentPort},
    privilege::{self, PrivilegeError, Privileges},
};

/// An opened port, with its index in the configuration that requests it.
#[derive(Debug)]
pub struct Opened {
    /// Place in `port`.
    pub at: usize,
    /// The port.
    pub port: Box<dyn Port>,
}

/// A job for the thread.
#[derive(Debug)]
pub enum Job {
    /// Puts a draft in force on every lane or on none. The last message is [`Message::Ended`].
    Reconfigure(Box<Draft>),
    /// Closes ports. Not answered.
    Close(Vec<Box<dyn Port>>),
}

/// A message of the thread to the host thread.
#[derive(Debug)]
pub enum Message {
    /// Commands for lanes: see [`Lanes::execute`]. Answered by [`Opener::answer`].
    Lanes {
        /// At most one for each lane.
        commands: Vec<(u32, Command)>,
        /// Whether other commands to lanes wait from now on.
        holds: bool,
    },
    /// [`Job::Reconfigure`] is done.
    Ended(Box<Outcome>),
}

/// The answers of the lanes to [`Message::Lanes`].
pub type Answers = Vec<(u32, Stepped)>;

/// See the module.
#[derive(Debug)]
pub struct Opener {
    jobs: Option<mpsc::Sender<Job>>,
    answers: Option<mpsc::Sender<Answers>>,
    messages: Arc<Mailbox<Message>>,
    thread: Option<JoinHandle<()>>,
}

/// The lanes, as this thread reaches them: through the host thread.
struct ByHost {
    messages: Arc<Mailbox<Message>>,
    answers: mpsc::Receiver<Answers>,
}

impl Lanes for ByHost {
    fn execute(&mut self, commands: Vec<(u32, Command)>, holds: bool) -> Result<Answers, Stopped> {
        // Full is impossible: the host thread answers each message before the next one.
        let _ = self.messages.push(Message::Lanes { commands, holds });
        self.answers.recv().map_err(|_| Stopped)
    }
}

impl Opener {
    /// Starts the thread. It drops privileges as requested, except those needed to open a port.
    ///
    /// # Errors
    /// The outer error: the system has no thread or event descriptor left. The inner error: the
    /// kernel refused to drop privileges.
    pub fn start(privileges: Privileges) -> io::Result<Result<Self, PrivilegeError>> {
        // One message is in flight at a time: the thread waits for the answer, or for the next job,
        // which the host thread submits only after it took the outcome of the last one.
        let messages = Arc::new(Mailbox::new(1)?);
        let (jobs, waiting) = mpsc::channel::<Job>();
        let (answers, answered) = mpsc::channel();
        let mut lanes = ByHost {
            messages: Arc::clone(&messages),
            answers: answered,
        };
        let (gave_up, applied) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("covalent-opener".to_owned())
            .spawn(move || {
                let _ = gave_up.send(privilege::apply_to_opener(privileges));
                for job in waiting {
                    match job {
                        Job::Reconfigure(draft) => match reconfigure(&draft, &mut lanes) {
                            Ok(outcome) => {
                                let ended = Message::Ended(Box::new(outcome));
                                let _ = lanes.messages.push(ended);
                            }
                            Err(Stopped) => return,
                        },
                        Job::Close(ports) => drop(ports),
                    }
                }
            })?;
        let opener = Self {
            jobs: Some(jobs),
            answers: Some(answers),
            messages,
            thread: Some(thread),
        };
        let applied = applied.recv().map_err(io::Error::other)?;
        Ok(applied.map(|()| opener))
    }

    /// Has a job done, after those before it.
    pub fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The thread ends when this sender does.
            let _ = jobs.send(job);
        }
    }

    /// Returns the next message of the thread, if there is one.
    pub fn next_message(&self) -> Option<Message> {
        self.messages.silence();
        self.messages.pop()
    }

    /// Passes the answers to the last `Message::Lanes` on.
    pub fn answer(&self, answers: Answers) {
        if let Some(to) = &self.answers {
            // The thread ends when this sender does.
            let _ = to.send(answers);
        }
    }
}

impl AsFd for Opener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.messages.as_fd()
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.jobs = None;
        self.answers = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Opens these ports of `config`, in the order of the file.
///
/// # Errors
/// The problem of the first port that cannot be opened. The ports opened before it are closed
/// again.
pub(super) fn open_all(config: &Config, places: &[usize]) -> Result<Vec<Opened>, Vec<Objection>> {
    let mut opened = Vec::with_capacity(places.len());
    for (at, wanted) in config.port.iter().enumerate() {
        if !places.contains(&at) {
            continue;
        }
        let port = open(config, wanted).map_err(|error| {
            vec![Objection {
                key: format!("port[{at}]"),
                message: error.to_string(),
            }]
        })?;
        opened.push(Opened { at, port });
    }
    Ok(opened)
}

/// Opens one port with packet memory of its own: the memory of its lane was planned for the ports
/// at start.
fn open(config: &Config, wanted: &PortConfig) -> Result<Box<dyn Port>, PortError> {
    let mut memory = LaneMemory::for_lane(slice::from_ref(wanted), wanted.lane)?;
    port::open(wanted, &config.dataplane, &config.link, &mut memory)
}

/// Opens a port as it was before it was closed, or a placeholder port if that fails.
pub(super) fn restore(config: &Config, at: usize) -> Box<dyn Port> {
    let wanted = &config.port[at];
    open(config, wanted).unwrap_or_else(|error| {
        let problem = error.to_string();
        tracing::error!(
            port = wanted.name,
            problem,
            "a port cannot be opened as it was"
        );
        let reason = format!(
            "it was closed for reopening, and cannot be opened, not even as before: {problem}; run \
             `covalent reload` when that is fixed"
        );
        Box::new(AbsentPort::instead_of(wanted, &reason))
    })
}
