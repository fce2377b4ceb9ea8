//! What may take its time before lanes are asked to take a configuration: reading it, comparing it, looking up a group.
//!
//! One thread does it, one draft at a time, and ends with the server.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use covalent_api::{
    agreement::Objection,
    config::{Config, Effect, changes},
};
use covalent_protocol::agreement::digest;

use super::admission::Admission;
use crate::{
    daemon::{StartError, check_cores},
    mailbox::Mailbox,
};

/// A draft to look at.
#[derive(Debug)]
pub struct Draft {
    /// Its text.
    pub text: String,
    /// The digest that it was offered by.
    pub digest: u64,
    /// What is in force.
    pub now: Arc<Config>,
    /// Who may speak now.
    pub admission: Admission,
}

/// What is ready for the lanes.
#[derive(Debug)]
pub struct Prepared {
    /// The configuration.
    pub config: Arc<Config>,
    /// Who may speak under it.
    pub admission: Admission,
    /// Keys whose value is another one.
    pub changed: Vec<String>,
}

/// What came of a draft.
pub type Preparation = Result<Prepared, Vec<Objection>>;

/// See the module.
#[derive(Debug)]
pub struct Opener {
    drafts: Option<mpsc::Sender<Draft>>,
    done: Arc<Mailbox<Preparation>>,
    thread: Option<JoinHandle<()>>,
}

impl Opener {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread or no event descriptor to give.
    pub fn start() -> io::Result<Self> {
        // One draft is looked at at a time, and the next one only when this was taken.
        let done = Arc::new(Mailbox::new(1)?);
        let (drafts, waiting) = mpsc::channel::<Draft>();
        let told = Arc::clone(&done);
        let thread = thread::Builder::new()
            .name("covalent-opener".to_owned())
            .spawn(move || {
                for draft in waiting {
                    // Full is impossible: see above.
                    let _ = told.push(prepare(&draft));
                }
            })?;
        Ok(Self {
            drafts: Some(drafts),
            done,
            thread: Some(thread),
        })
    }

    /// Has a draft looked at.
    pub fn prepare(&self, draft: Draft) {
        if let Some(drafts) = &self.drafts {
            // The thread ends when this sender does.
            let _ = drafts.send(draft);
        }
    }

    /// What came of the last draft, once that is known.
    pub fn next_done(&self) -> Option<Preparation> {
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
        self.drafts = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn prepare(draft: &Draft) -> Preparation {
    let whole = |message: String| {
        vec![Objection {
            key: String::new(),
            message,
        }]
    };
    if digest(draft.text.as_bytes()) != draft.digest {
        return Err(whole(
            "the draft is not the text that was offered: send it whole, and then the offer"
                .to_owned(),
        ));
    }
    let config = Config::parse(&draft.text, "draft").map_err(|error| {
        let problems = error.problems().iter();
        problems
            .map(|problem| Objection {
                key: problem.key.clone(),
                message: problem.message.clone(),
            })
            .collect::<Vec<_>>()
    })?;
    // Who looks for what is in force later finds the text by its digest.
    if config.to_toml().ok().as_deref() != Some(draft.text.as_str()) {
        return Err(whole(
            "the draft is not in canonical form: offer what `Config::to_toml` writes".to_owned(),
        ));
    }
    let changes = changes(&draft.now, &config);
    let objections: Vec<Objection> = changes
        .iter()
        .filter(|change| change.effect == Effect::Restart)
        .map(|change| Objection {
            message: format!(
                "is read at covalentd's start only, and is {} in force: put that back in place of {}, or restart covalentd",
                change.from, change.to
            ),
            key: change.key.clone(),
        })
        .collect();
    if !objections.is_empty() {
        return Err(objections);
    }
    if let Err(error) = check_cores(&config) {
        let key = match &error {
            StartError::NoSuchCore { lane, .. } => format!("lane[{lane}].core"),
            _ => String::new(),
        };
        let message = error.to_string();
        return Err(vec![Objection { key, message }]);
    }
    let admission = if config.node.group == draft.now.node.group {
        draft.admission.clone()
    } else {
        Admission::new(&config.node.group).map_err(|error| {
            vec![Objection {
                key: "node.group".to_owned(),
                message: error.to_string(),
            }]
        })?
    };
    Ok(Prepared {
        config: Arc::new(config),
        admission,
        changed: changes.into_iter().map(|change| change.key).collect(),
    })
}
