//! What a group posts to its verb queue, and takes from it.

use covalent_protocol::verb::{self as codec, envelope::SUBMIT_BYTES_MAX, watch::Watch};

use crate::{
    ends::{Ended, Ends},
    error::Result,
    outstanding::{Answer, Posted},
    queue::Verbs,
    verb::Mode,
};

impl Verbs<'_> {
    /// Takes the next completion of the group: its user data and its result.
    pub(super) fn take_end(&mut self) -> Result<Option<(u64, Ended)>> {
        self.pump()?;
        let end = self.ends.as_mut().and_then(Ends::take);
        Ok(end.map(|(id, user_data, ended)| {
            self.outstanding.taken(id);
            (user_data, ended)
        }))
    }

    /// Whether a verb of any length can be posted now.
    pub(super) fn has_room(&mut self) -> bool {
        self.outstanding.len() < self.outstanding.depth()
            && self.submit.free_bytes() >= SUBMIT_BYTES_MAX as u64 + 64
    }

    /// Puts a message for a receive queue into the pipe. The lane sees it after [`Verbs::ring`].
    pub(super) fn put_send(
        &mut self,
        target: u64,
        rkey: u32,
        data: &[u8],
        user_data: u64,
    ) -> Result<()> {
        let request = codec::Request {
            rkey,
            offset: 0,
            verb: codec::Verb::Send { data },
        };
        self.put(target, &request, Mode::OnePhase, user_data)?;
        Ok(())
    }

    /// Puts a look for a name into the pipe.
    pub(super) fn put_lookup(&mut self, target: u64, name: &str, user_data: u64) -> Result<()> {
        let request = codec::Request {
            rkey: 0,
            offset: 0,
            verb: codec::Verb::Lookup { name },
        };
        self.put(target, &request, Mode::OnePhase, user_data)?;
        Ok(())
    }

    /// Puts a watch for the path to a node into the pipe. It completes once the node's state
    /// differs from `known_up`.
    pub(super) fn put_watch(&mut self, target: u64, known_up: bool, user_data: u64) -> Result<()> {
        self.device.check_own()?;
        let posted = Posted {
            user_data,
            answer: Answer::Path,
        };
        let Some(id) = self.outstanding.open(posted) else {
            return Err(self.full());
        };
        let watch = Watch {
            user_data: id.number(),
            target,
            known_up,
        };
        let written = self.submit.reserve(Watch::BYTES).ok().and_then(|mut room| {
            watch.encode(&mut room).ok()?;
            room.commit();
            Some(())
        });
        self.keep(id, written)?;
        Ok(())
    }
}
