//! The near side of an echo between two processes, for a measurement with its own request loop.

use std::os::fd::OwnedFd;

use anyhow::Result;

/// The near side: sends messages, and takes them when they come back. Nothing here waits.
pub trait NearEnd {
    /// Returns whether both sides are connected. Call until it returns `true`.
    ///
    /// # Errors
    /// A failure of the transport, as in the other methods.
    fn meet(&mut self) -> Result<bool>;

    /// Sends one message. Returns `false` if there is no space now.
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
    /// Creates a part without data for the far side.
    pub fn plain(end: impl NearEnd + 'static) -> Self {
        Self {
            end: Box::new(end),
            note: String::new(),
            fds: Vec::new(),
        }
    }
}
