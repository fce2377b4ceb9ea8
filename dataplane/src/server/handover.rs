//! Memory on its way to an application: handed over, mapped, sealed, served.
//!
//! Who may map a memory file writable may also punch holes into it, and whoever touches a page of it meanwhile waits: a lane would wait for
//! as long as the kernel takes for the whole file, again and again. So the file is sealed once the application says that it has
//! mapped it, and no lane touches it before.

use std::os::fd::{AsFd, OwnedFd};

use covalent_api::request::Reply;
use covalent_pipe::end_writers;

use super::{Server, answers::Change};
use crate::lane::command::Command;

/// Memory that an application has, and no lane yet.
#[derive(Debug)]
pub struct Unmapped {
    /// The lane that is to serve it.
    pub lane: u32,
    /// How it is told.
    pub command: Command,
    /// What the session's record has gained.
    pub change: Change,
    /// The memory, to be sealed.
    pub memory: Vec<OwnedFd>,
}

impl Server {
    /// Hands memory over beside `reply`.
    pub(super) fn hand_over(
        &mut self,
        client: u64,
        reply: &Reply,
        fds: Vec<OwnedFd>,
        unmapped: Unmapped,
    ) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.unmapped = Some(unmapped);
        }
        self.reply_to(client, reply, fds);
    }

    /// The application has mapped what it was handed: seals it, and has the lane serve it.
    ///
    /// # Errors
    /// There is no such thing, or somebody has sealed it against sealing; it is closed then.
    pub(super) fn mapped(&mut self, client: u64) -> Result<(), String> {
        let unmapped = self
            .clients
            .get_mut(&client)
            .and_then(|client| client.unmapped.take())
            .ok_or("nothing waits to be mapped: open a pipe or register a region before")?;
        let sealed = unmapped
            .memory
            .iter()
            .try_for_each(|memory| end_writers(memory.as_fd()));
        if let Err(error) = sealed {
            self.undo(unmapped.change);
            return Err(error.to_string());
        }
        self.ask(
            client,
            unmapped.lane,
            unmapped.command,
            Reply::Done,
            Vec::new(),
            unmapped.change,
        );
        Ok(())
    }

    /// The application goes on without having mapped what it was handed: closes it.
    pub(super) fn forgo_unmapped(&mut self, client: u64) {
        let unmapped = self
            .clients
            .get_mut(&client)
            .and_then(|client| client.unmapped.take());
        if let Some(unmapped) = unmapped {
            self.undo(unmapped.change);
        }
    }
}
