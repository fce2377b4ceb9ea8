//! The thread for slow steps of a configuration change: parsing it, comparing it, looking up a
//! group, opening and closing ports.
//!
//! One thread runs one job after the other, in the order of submission, and stops with the server.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    slice,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use covalent_api::{
    agreement::Objection,
    config::{Config, PortConfig},
};

use super::preparation::{Draft, Preparation, prepare};
use crate::{
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

/// Ports to close, and those to open after that.
#[derive(Debug)]
pub struct Openings {
    /// Closed first.
    pub close: Vec<Box<dyn Port>>,
    /// Places in `port` of the configuration.
    pub open: Vec<usize>,
    /// The configuration.
    pub config: Arc<Config>,
}

/// A job for the thread.
#[derive(Debug)]
pub enum Job {
    /// Answered by [`Done::Prepared`].
    Prepare(Draft),
    /// All of them or none. Answered by [`Done::Opened`].
    Open(Openings),
    /// Each that can be. Answered by [`Done::Restored`].
    Restore(Openings),
    /// Closes ports. Not answered.
    Close(Vec<Box<dyn Port>>),
}

/// The result of a job.
#[derive(Debug)]
pub enum Done {
    /// Of [`Job::Prepare`].
    Prepared(Preparation),
    /// Of [`Job::Open`].
    Opened(Result<Vec<Opened>, Vec<Objection>>),
    /// Of [`Job::Restore`], with a pulled cable for each that cannot be opened.
    Restored(Vec<Opened>),
}

/// See the module.
#[derive(Debug)]
pub struct Opener {
    jobs: Option<mpsc::Sender<Job>>,
    done: Arc<Mailbox<Done>>,
    thread: Option<JoinHandle<()>>,
}

impl Opener {
    /// Starts the thread. It drops privileges as requested, except those needed to open a port.
    ///
    /// # Errors
    /// The outer error: the system has no thread or event descriptor left. The inner error: the
    /// kernel refused to drop privileges.
    pub fn start(privileges: Privileges) -> io::Result<Result<Self, PrivilegeError>> {
        // One job with a reply is in flight at a time. The next one is submitted only after this
        // reply was taken.
        let done = Arc::new(Mailbox::new(1)?);
        let (jobs, waiting) = mpsc::channel::<Job>();
        let done_mailbox = Arc::clone(&done);
        let (gave_up, applied) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("covalent-opener".to_owned())
            .spawn(move || {
                let _ = gave_up.send(privilege::apply_to_opener(privileges));
                for job in waiting {
                    if let Some(done) = run_job(job) {
                        // Full is impossible: see above.
                        let _ = done_mailbox.push(done);
                    }
                }
            })?;
        let opener = Self {
            jobs: Some(jobs),
            done,
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

    /// Returns the result of the last job, once it is known.
    pub fn next_done(&self) -> Option<Done> {
        self.done.silence();
        self.done.pop()
    }
}

impl AsFd for Opener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run_job(job: Job) -> Option<Done> {
    match job {
        Job::Prepare(draft) => Some(Done::Prepared(prepare(&draft))),
        Job::Open(Openings {
            close,
            open,
            config,
        }) => {
            drop(close);
            Some(Done::Opened(open_all(&config, &open)))
        }
        Job::Restore(Openings {
            close,
            open,
            config,
        }) => {
            drop(close);
            let ports = open.into_iter().map(|at| restore(&config, at));
            Some(Done::Restored(ports.collect()))
        }
        Job::Close(ports) => {
            drop(ports);
            None
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

fn restore(config: &Config, at: usize) -> Opened {
    let wanted = &config.port[at];
    let port = open(config, wanted).unwrap_or_else(|error| {
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
    });
    Opened { at, port }
}
