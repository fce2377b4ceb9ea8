//! Memory on its way to an application: handed over, mapped, sealed, served.
//!
//! A process that may map a memory file writable may also punch holes into it. A thread that
//! touches a page meanwhile waits: a lane would wait as long as the kernel needs for the whole
//! file, again and again. The daemon therefore seals the file once the application reports that it
//! has mapped it, and no lane touches the file before. The daemon then fills earlier holes and
//! faults their pages in again.

use std::os::fd::{AsFd, OwnedFd};

use covalent_api::request::Reply;
use covalent_pipe::end_writers;

use super::{Server, answers::Change, memory::After, memory_worker::Job};
use crate::lane::command::Command;

/// Memory that an application has, and no lane yet.
#[derive(Debug)]
pub struct Unmapped {
    /// The session that it is charged to.
    pub session: u64,
    /// How much it is, in bytes.
    pub bytes: u64,
    /// How many mappings it has.
    pub mappings: u32,
    /// The lane that is to serve it.
    pub lane: u32,
    /// The command that passes it to the lane.
    pub command: Command,
    /// The change made to the session's record.
    pub change: Change,
    /// The memory, to be sealed.
    pub memory: Vec<OwnedFd>,
}

impl Unmapped {
    /// Prevents further writable mappings of this memory and further holes in it. Then populates
    /// and maps every page here, whatever was done to the memory before. The time grows with its
    /// size.
    ///
    /// # Errors
    /// The reason that it cannot be sealed.
    pub fn seal(&mut self) -> Result<(), String> {
        for memory in &self.memory {
            end_writers(memory.as_fd()).map_err(|error| error.to_string())?;
        }
        match &self.command {
            Command::Attach(new) => new.rings.populate(),
            Command::OpenPipe(new) => new.nic.populate(),
            Command::Register(new) => new.memory.populate(),
            // Nothing else comes with memory.
            _ => {}
        }
        self.memory.clear();
        Ok(())
    }
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

    /// The application has mapped the memory that it was handed. Seals it and orders the lane to
    /// serve it.
    ///
    /// # Errors
    /// No memory waits to be mapped.
    pub(super) fn mapped(&mut self, client: u64) -> Result<(), String> {
        let unmapped = self
            .clients
            .get_mut(&client)
            .and_then(|client| client.unmapped.take())
            .ok_or(
                "nothing waits to be mapped: open a session or a pipe or register a region before",
            )?;
        let (session, bytes) = (unmapped.session, unmapped.bytes);
        let job = Job::Seal(Box::new(unmapped));
        self.send_on_errand(session, Some(client), bytes, job, After::Serve);
        Ok(())
    }

    /// It is sealed.
    pub(super) fn serve_sealed(&mut self, client: u64, unmapped: Unmapped) {
        if let Some(record) = self.sessions.get_mut(&unmapped.session) {
            // The first thing of a session that is served is the session itself.
            record.attached = true;
        }
        self.order_for(
            client,
            unmapped.lane,
            unmapped.command,
            Reply::Done,
            Vec::new(),
            unmapped.change,
        );
    }

    /// The application continues without having mapped the memory that it was handed. Closes that
    /// memory and returns its size in bytes.
    pub(super) fn forgo_unmapped(&mut self, client: u64) -> u64 {
        let unmapped = self
            .clients
            .get_mut(&client)
            .and_then(|client| client.unmapped.take());
        let bytes = unmapped.as_ref().map_or(0, |unmapped| unmapped.bytes);
        if let Some(unmapped) = unmapped {
            self.forgo(unmapped);
        }
        bytes
    }

    /// Closes memory that no lane will serve.
    pub(super) fn forgo(&mut self, unmapped: Unmapped) {
        let thing = (unmapped.command, unmapped.memory);
        if matches!(unmapped.change, Change::Attached { .. }) {
            // Here and now: it is small, and the record that it is charged to goes with it.
            drop(thing);
        } else {
            self.release(unmapped.session, unmapped.bytes, unmapped.mappings, thing);
        }
        self.undo(unmapped.change);
    }
}
