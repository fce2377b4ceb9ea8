//! The near side of an echo between two processes, for a measurement that asks in its own way.

use std::os::fd::OwnedFd;

use anyhow::Result;

/// The near side: sends messages, and takes them when they come back. Nothing here waits.
pub trait NearEnd {
    /// Whether both sides know each other. To be called until they do.
    ///
    /// # Errors
    /// What went wrong with the means, as of the others.
    fn meet(&mut self) -> Result<bool>;

    /// Sends one message. `false`: there is no room now.
    fn put(&mut self, message: &[u8]) -> Result<bool>;

    /// Gives each message that has come back to `each`.
    fn take(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// A near side that is open.
pub struct Opened {
    /// The side.
    pub end: Box<dyn NearEnd>,
    /// For the far side.
    pub note: String,
    /// For the far side.
    pub fds: Vec<OwnedFd>,
}

impl Opened {
    /// One that has nothing to tell.
    pub fn plain(end: impl NearEnd + 'static) -> Self {
        Self {
            end: Box::new(end),
            note: String::new(),
            fds: Vec::new(),
        }
    }
}
