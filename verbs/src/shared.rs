//! A verb queue that a device's groups share with its application: the owner of each completion,
//! and the completions that wait for a group.

use std::collections::VecDeque;

use covalent_protocol::verb::{self as codec, envelope::SUBMIT_BYTES_MAX, watch::Watch};

use crate::{
    error::Result,
    outstanding::{Answer, Posted},
    queue::Verbs,
    verb::{Mode, Outcome, VerbId},
};

/// The poster of a verb: the application, or one of its device's groups by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(pub(crate) u32);

impl Owner {
    /// The holder of the verb queue.
    pub(crate) const APPLICATION: Self = Self(0);
}

/// How something that a group posted ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A verb.
    Verb(Outcome),
    /// A lookup that found a region: the bytes that describe it.
    Found(Box<[u8]>),
    /// A watch: the node is reached now, or lost.
    Path {
        /// It is reached.
        up: bool,
    },
}

/// Final completions that wait for the groups that posted their verbs. Each holds an entry of the
/// table of outstanding verbs until it is taken, which bounds their number.
#[derive(Debug, Default)]
pub(crate) struct GroupEnds(VecDeque<GroupEnd>);

#[derive(Debug)]
struct GroupEnd {
    owner: Owner,
    id: VerbId,
    user_data: u64,
    ended: Ended,
}

impl GroupEnds {
    /// Keeps one.
    pub(crate) fn push(&mut self, id: VerbId, posted: &Posted, ended: Ended) {
        self.0.push_back(GroupEnd {
            owner: posted.owner,
            id,
            user_data: posted.user_data,
            ended,
        });
    }
}

impl Verbs<'_> {
    /// Takes the next completion of a group: its user data and its result. Completions of others
    /// stay.
    pub(crate) fn take_of(&mut self, owner: Owner) -> Result<Option<(u64, Ended)>> {
        self.pump()?;
        let Some(at) = self.group_ends.0.iter().position(|end| end.owner == owner) else {
            return Ok(None);
        };
        let end = self.group_ends.0.remove(at);
        Ok(end.map(|end| {
            self.outstanding.taken(end.id);
            (end.user_data, end.ended)
        }))
    }

    /// Frees completions of groups that no longer exist.
    pub(crate) fn forget_ends_of_dropped_groups(&mut self) {
        let Self {
            device,
            group_ends,
            outstanding,
            ..
        } = self;
        group_ends.0.retain(|end| {
            let is_kept = device.has_group(end.owner.0);
            if !is_kept {
                outstanding.taken(end.id);
            }
            is_kept
        });
    }

    /// Whether a verb of any length can be posted now.
    pub(crate) fn has_room(&mut self) -> bool {
        self.outstanding.len() < self.outstanding.depth()
            && self.submit.free_bytes() >= SUBMIT_BYTES_MAX as u64 + 64
    }

    /// Puts a message for a receive queue into the pipe. The lane sees it after [`Verbs::ring`].
    pub(crate) fn put_send(
        &mut self,
        owner: Owner,
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
        self.put_as(owner, target, &request, Mode::OnePhase, user_data)?;
        Ok(())
    }

    /// Puts a look for a name into the pipe.
    pub(crate) fn put_lookup(
        &mut self,
        owner: Owner,
        target: u64,
        name: &str,
        user_data: u64,
    ) -> Result<()> {
        let request = codec::Request {
            rkey: 0,
            offset: 0,
            verb: codec::Verb::Lookup { name },
        };
        self.put_as(owner, target, &request, Mode::OnePhase, user_data)?;
        Ok(())
    }

    /// Puts a watch for the path to a node into the pipe. It completes once the node's state
    /// differs from `known_up`.
    pub(crate) fn put_watch(
        &mut self,
        owner: Owner,
        target: u64,
        known_up: bool,
        user_data: u64,
    ) -> Result<()> {
        self.device.check_own()?;
        let posted = Posted {
            user_data,
            answer: Answer::Path,
            owner,
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

    /// Requests a wake-up for the next completion. Call it after announcing the sleep and before
    /// the last look.
    pub(crate) fn want_wake(&mut self) -> Result<()> {
        if self.complete.wait_for_more() {
            self.device.ring(self.complete_id)?;
        }
        Ok(())
    }
}
