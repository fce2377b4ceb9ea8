//! Translates a lane's reply for the client that made the request.

use std::os::fd::OwnedFd;

use covalent_api::{event::EventKind, request::Reply, status::RegionStatus};

use super::{
    Server,
    durable_regions::Wanted,
    memory::After,
    memory_worker::{self, Job},
};
use crate::{
    lane::command::{Answer, Released},
    session::{
        SessionEnd,
        mappings::{PIPE_MAPPINGS, REGION_MAPPINGS},
    },
};

/// The recipient of a lane's reply, and the action to take on it.
#[derive(Debug)]
pub enum Pending {
    /// No recipient: the command is a consequence, not a request.
    NoClient,
    /// A client gets this reply if all went well.
    Reply {
        /// The client.
        client: u64,
        /// The reply.
        reply: Box<Reply>,
        /// Descriptors beside it.
        fds: Vec<OwnedFd>,
        /// The change to the session's record.
        change: Change,
    },
    /// A session is being detached.
    Detach {
        /// The session.
        session: u64,
        /// Why, as it is counted.
        class: &'static str,
        /// Why, for people.
        reason: String,
    },
    /// A step of a reconfiguration.
    Agreement {
        /// The lane that does it.
        lane: u32,
    },
    /// A lane leaves.
    Leave {
        /// The lane.
        lane: u32,
    },
    /// A part of a status.
    Status {
        /// The round that collects the parts.
        round: u64,
        /// The lane that reports it.
        lane: u32,
    },
}

/// The change to the session's record that a successful command makes. Quotas are taken before the
/// command is sent, and given back if it fails.
#[derive(Debug)]
pub enum Change {
    /// Nothing.
    None,
    /// The session is attached.
    Attached {
        /// The session.
        session: u64,
    },
    /// A pipe was opened.
    Opened {
        /// The session.
        session: u64,
        /// Its number.
        number: u32,
    },
    /// A pipe was closed.
    Closed {
        /// The session.
        session: u64,
        /// Its number.
        number: u32,
    },
    /// A binding was made.
    Bound {
        /// The session.
        session: u64,
        /// The pipe's number.
        number: u32,
    },
    /// A binding was taken back.
    Unbound {
        /// The session.
        session: u64,
        /// The pipe's number.
        number: u32,
    },
    /// A region was registered.
    Registered {
        /// The session.
        session: u64,
        /// The region.
        region: RegionStatus,
        /// Whether it is durable.
        durable: bool,
    },
    /// A region was taken back.
    Withdrawn {
        /// The session.
        session: u64,
        /// Its key.
        rkey: u32,
        /// Its size.
        size_bytes: u64,
    },
    /// A durable region was deleted.
    Deleted {
        /// Its name.
        name: String,
    },
}

impl Server {
    /// A lane answered the command of `ticket`.
    pub(super) fn answered(&mut self, ticket: u64, result: Result<Answer, String>) {
        let Some(pending) = self.pending.remove(&ticket) else {
            return;
        };
        match pending {
            Pending::NoClient => {}
            Pending::Agreement { lane } => self.lane_stepped(lane, result),
            Pending::Reply {
                client,
                reply,
                fds,
                change,
            } => match result {
                Ok(Answer::Released(released)) => {
                    self.closed(client, change, *released, reply);
                }
                Ok(
                    Answer::Done
                    | Answer::Left { .. }
                    | Answer::Snapshot(_)
                    | Answer::Pipes { .. }
                    | Answer::Stepped(_),
                ) => {
                    let attached = self.apply(change);
                    self.reply_to(client, &reply, fds);
                    if let Some(session) = attached {
                        self.raise_attached(session);
                    }
                }
                Ok(Answer::InDoubt(reason)) => {
                    let reason = self.doubt(change, reason);
                    self.refuse(client, reason);
                }
                Err(reason) => {
                    self.undo(change);
                    self.refuse(client, reason);
                }
            },
            Pending::Detach {
                session,
                class,
                reason,
            } => {
                let released = match result {
                    Ok(Answer::Released(released)) => *released,
                    _ => Released::default(),
                };
                self.let_go(session, class, reason, released);
            }
            Pending::Leave { lane } => {
                self.lane_left(lane, matches!(result, Ok(Answer::Left { in_order: true })));
            }
            Pending::Status { round, lane } => {
                if let Ok(answer) = result {
                    self.status_part(round, lane, answer);
                }
            }
        }
    }

    /// A lane has released a pipe or a region. The client gets its reply when the memory is freed.
    fn closed(&mut self, client: u64, change: Change, released: Released, reply: Box<Reply>) {
        let (session, bytes, mappings) = match &change {
            Change::Closed { session, number } => {
                let pipe = self
                    .sessions
                    .get(session)
                    .and_then(|record| record.pipes.get(number));
                let bytes = pipe.map_or(0, |pipe| pipe.capacity_bytes);
                (*session, bytes, PIPE_MAPPINGS)
            }
            Change::Withdrawn {
                session,
                size_bytes,
                ..
            } => (*session, *size_bytes, REGION_MAPPINGS),
            _ => return,
        };
        self.apply(change);
        let job = Job::Release(memory_worker::Released::new(mappings, released));
        let after = After::SendReply(reply);
        self.send_on_errand(session, Some(client), bytes, job, after);
    }

    /// A lane has released a session. The session ends when its memory is freed.
    fn let_go(&mut self, session: u64, class: &'static str, reason: String, released: Released) {
        let Some(record) = self.sessions.get_mut(&session) else {
            return;
        };
        record.end = Some(SessionEnd {
            class,
            reason,
            pipes: released.pipes.len() as u32,
            bindings: released.bindings,
            verbs: released.verbs,
            regions: released.regions.len() as u32,
        });
        let bytes = record.quota.memory_bytes();
        // No mappings are given back here: they go with the session's record.
        self.release(session, bytes, 0, released);
    }

    /// Forgets a session that its lane has released and whose memory is freed.
    pub(super) fn end_if_over(&mut self, session: u64) {
        let Some(record) = self.sessions.get_mut(&session) else {
            return;
        };
        if record.errands > 0 {
            return;
        }
        let Some(end) = record.end.take() else {
            return;
        };
        let reclaimed = &mut self.reclaimed;
        for (causes, count) in [
            (&mut reclaimed.pipes, end.pipes.into()),
            (&mut reclaimed.bindings, end.bindings.into()),
            (&mut reclaimed.regions, end.regions.into()),
            (&mut reclaimed.verbs, end.verbs.into()),
            (&mut reclaimed.memory_bytes, record.quota.memory_bytes()),
        ] {
            *causes.entry(end.class.to_owned()).or_default() += count;
        }
        self.sessions.remove(&session);
        self.raise(EventKind::Detached {
            session,
            reason: end.reason,
            pipes: end.pipes,
            regions: end.regions,
        });
    }

    /// Applies the change. Returns the session that became attached, if one did.
    fn apply(&mut self, change: Change) -> Option<u64> {
        match change {
            Change::None | Change::Opened { .. } | Change::Bound { .. } => {}
            Change::Registered {
                session,
                region,
                durable,
            } => {
                if let Some(record) = self.sessions.get(&session) {
                    self.durable_regions.served(Wanted {
                        name: &region.name,
                        uid: record.uid,
                        lane: record.lane,
                        size_bytes: region.size_bytes,
                        durable,
                    });
                }
            }
            Change::Deleted { name } => self.durable_regions.end_delete(&name, true),
            Change::Attached { session } => return Some(session),
            Change::Closed { session, number } => {
                if let Some(record) = self.sessions.get_mut(&session) {
                    record.close_pipe(number);
                }
            }
            Change::Unbound { session, number } => self.forget_binding(session, number),
            Change::Withdrawn {
                session,
                rkey,
                size_bytes,
            } => {
                if let Some(record) = self.sessions.get_mut(&session) {
                    record.forget_region(rkey);
                    record.quota.close_region(size_bytes);
                }
            }
        }
        None
    }

    /// It is unknown whether a region was deleted, for this reason. Returns the text to report.
    fn doubt(&mut self, change: Change, reason: String) -> String {
        let Change::Deleted { name } = change else {
            return reason;
        };
        self.durable_regions.doubt_delete(&name);
        format!(
            "whether the durable region `{name}` is deleted is known only when the daemon is \
             restarted: {reason}"
        )
    }

    /// Reverts the record of a command that was refused or never sent. Memory that was handed out
    /// stays charged.
    pub(super) fn undo(&mut self, change: Change) {
        match change {
            Change::None
            | Change::Closed { .. }
            | Change::Unbound { .. }
            | Change::Withdrawn { .. } => {}
            Change::Attached { session } => {
                let client = self
                    .sessions
                    .remove(&session)
                    .and_then(|record| self.clients.get_mut(&record.client));
                if let Some(client) = client {
                    client.session = None;
                }
            }
            Change::Opened { session, number } => {
                if let Some(record) = self.sessions.get_mut(&session) {
                    record.close_pipe(number);
                }
            }
            Change::Bound { session, number } => self.forget_binding(session, number),
            Change::Deleted { name } => self.durable_regions.end_delete(&name, false),
            Change::Registered {
                session, region, ..
            } => {
                if let Some(record) = self.sessions.get_mut(&session) {
                    record.forget_region(region.rkey);
                }
            }
        }
    }

    fn forget_binding(&mut self, session: u64, number: u32) {
        if let Some(record) = self.sessions.get_mut(&session)
            && let Some(pipe) = record.pipes.get_mut(&number)
        {
            pipe.bindings -= 1;
            record.quota.give_bindings(1);
        }
    }
}
