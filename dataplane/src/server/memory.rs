//! Jobs on application memory: requests to the workers, and the next step after each.
//!
//! A client has one request in flight, so it waits for at most one job. Further jobs free the
//! memory that it gives up or leaves behind. The session stays charged for all of it until that is
//! done, so a fast client gains nothing.

use std::os::fd::OwnedFd;

use covalent_api::{
    request::{PipeKind, Reply, Rights},
    status::RegionStatus,
};
use covalent_pipe::{PipeMemory, nic::NicPipe, region::RegionMemory};

use super::{
    Server,
    answers::Change,
    handover::Unmapped,
    memory_worker::{Done, Job, Released},
    small_pages,
};
use crate::{
    lane::command::{Command, NewPipe, NewRegion},
    session::{
        PipeRecord,
        mappings::{PIPE_MAPPINGS, REGION_MAPPINGS},
    },
};

/// A job and the step after it.
#[derive(Debug)]
pub struct Errand {
    /// The session that the memory belongs to.
    session: u64,
    /// The user in whose turn the job runs.
    uid: u32,
    /// The client that waits for the job. `None` for memory that no client needs any more.
    client: Option<u64>,
    /// Mappings that are there no more when it has ended.
    frees: u32,
    after: After,
}

/// The step after a job.
#[derive(Debug)]
pub enum After {
    /// The memory of a pipe is handed over.
    OpenPipe(PlannedPipe),
    /// A region is handed over.
    Register(PlannedRegion),
    /// A lane begins to serve the memory, which is sealed now.
    Serve,
    /// The client gets this reply.
    SendReply(Box<Reply>),
    /// Nothing.
    Nothing,
}

/// A pipe whose memory is being allocated. Its quota is taken.
#[derive(Debug)]
pub struct PlannedPipe {
    /// The lane of its session.
    pub lane: u32,
    /// Its number, if it had one before.
    pub number: Option<u32>,
    /// The purpose of the pipe.
    pub kind: PipeKind,
    /// Its port.
    pub port: Option<u16>,
    /// The other pipe of its verb queue, if it is one and that is open.
    pub partner: Option<u32>,
    /// Ring size in bytes.
    pub capacity_bytes: u64,
    /// Longest frame of a port that it sends on; else 0.
    pub frame_bytes_max: u32,
    /// The EtherType that it does not carry, as in [`Reply::Pipe`].
    pub link_ethertype: Option<u16>,
}

/// A region whose memory is being allocated. Its quota, name and key are taken.
#[derive(Debug)]
pub struct PlannedRegion {
    /// The lane of its session.
    pub lane: u32,
    /// The region as it will be.
    pub region: RegionStatus,
    /// The verbs allowed on it.
    pub rights: Rights,
    /// Whether it is durable.
    pub durable: bool,
}

impl Server {
    /// Runs a job on `bytes` bytes of memory of `session`. If `client` is given, it makes no
    /// request until the job ends.
    pub(super) fn send_on_errand(
        &mut self,
        session: u64,
        client: Option<u64>,
        bytes: u64,
        job: Job,
        after: After,
    ) {
        let Some(record) = self.sessions.get_mut(&session) else {
            // Without a session the only job is to drop its remains, which are too small to wait
            // for.
            return;
        };
        record.errands += 1;
        let frees = match &job {
            Job::Release(released) => released.mappings,
            Job::MakePipe(_) | Job::MakeRegion(_) | Job::Seal(_) => 0,
        };
        let uid = record.uid;
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        if let Some(client) = client.and_then(|client| self.clients.get_mut(&client)) {
            client.busy = true;
            client.errand = Some(ticket);
        }
        self.errands.insert(
            ticket,
            Errand {
                session,
                uid,
                client,
                frees,
                after,
            },
        );
        self.memory.push(uid, bytes, ticket, job);
    }

    /// Frees memory that is no longer in use.
    pub(super) fn release(
        &mut self,
        session: u64,
        bytes: u64,
        mappings: u32,
        thing: impl Send + 'static,
    ) {
        let job = Job::Release(Released::new(mappings, thing));
        self.send_on_errand(session, None, bytes, job, After::Nothing);
    }

    /// Frees memory that no session has and no client waits for.
    pub(super) fn discard(&mut self, uid: u32, bytes: u64, thing: impl Send + 'static) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let job = Job::Release(Released::new(0, thing));
        self.memory.push(uid, bytes, ticket, job);
    }

    /// A client is leaving: cancels the job that it waits for, if that has not begun.
    pub(super) fn call_off_errand(&mut self, client: u64) {
        let ticket = self
            .clients
            .get_mut(&client)
            .and_then(|client| client.errand.take());
        if let Some(ticket) = ticket
            && let Some(errand) = self.errands.get(&ticket)
            && let Some(done) = self.memory.cancel(errand.uid, ticket)
        {
            self.errand_ended(ticket, done);
        }
    }

    /// Looks which jobs have ended.
    pub(super) fn take_errands(&mut self) {
        self.memory.silence();
        while let Some((ticket, done)) = self.memory.next_done() {
            self.errand_ended(ticket, done);
        }
    }

    fn errand_ended(&mut self, ticket: u64, done: Done) {
        let Some(Errand {
            session,
            client,
            frees,
            after,
            ..
        }) = self.errands.remove(&ticket)
        else {
            return;
        };
        // A client that closed or was turned away has no session any more, or will have none.
        let waits = |number: &u64| {
            self.clients
                .get(number)
                .is_some_and(|client| client.session == Some(session) && !client.closing)
        };
        let client = client.filter(|client| !matches!(done, Done::Canceled(_)) && waits(client));
        if let Some(client) = client.and_then(|client| self.clients.get_mut(&client)) {
            client.errand = None;
        }
        match (client, after, done) {
            (Some(client), After::OpenPipe(planned), Done::Pipe(made)) => match made {
                Ok((memory, fds)) => self.hand_over_pipe(client, session, planned, memory, fds),
                Err(reason) => {
                    if let Some(record) = self.sessions.get_mut(&session) {
                        record.quota.give_pipe(planned.capacity_bytes);
                    }
                    self.refuse(client, reason);
                }
            },
            (Some(client), After::Register(planned), Done::Region(made)) => match made {
                Ok((memory, fds)) => self.hand_over_region(client, session, planned, memory, fds),
                Err(reason) => {
                    if let Some(record) = self.sessions.get_mut(&session) {
                        record.quota.give_region(planned.region.size_bytes);
                        record.forget_region(planned.region.rkey);
                    }
                    self.refuse(client, reason);
                }
            },
            (Some(client), After::Serve, Done::Sealed(unmapped, sealed)) => match sealed {
                Ok(()) => self.serve_sealed(client, *unmapped),
                Err(reason) => {
                    self.forgo(*unmapped);
                    self.refuse(client, reason);
                }
            },
            (Some(client), After::SendReply(reply), _) => self.reply_to(client, &reply, Vec::new()),
            (None, After::OpenPipe(planned), Done::Pipe(Ok(made))) => {
                self.release(session, planned.capacity_bytes, PIPE_MAPPINGS, made);
            }
            (None, After::Register(planned), Done::Region(Ok(made))) => {
                self.release(session, planned.region.size_bytes, REGION_MAPPINGS, made);
            }
            (None, _, Done::Sealed(unmapped, _) | Done::Canceled(Some(unmapped))) => {
                self.forgo(*unmapped);
            }
            // No client waits for it, and it produced nothing.
            _ => {}
        }
        if let Some(record) = self.sessions.get_mut(&session) {
            record.errands -= 1;
            record.quota.give_mappings(frees);
        }
        self.end_if_over(session);
    }

    fn hand_over_pipe(
        &mut self,
        client: u64,
        session: u64,
        planned: PlannedPipe,
        memory: PipeMemory,
        [fds, kept]: [Vec<OwnedFd>; 2],
    ) {
        let Some(record) = self.sessions.get_mut(&session) else {
            return;
        };
        let PlannedPipe {
            lane,
            number,
            kind,
            port,
            partner,
            capacity_bytes,
            frame_bytes_max,
            link_ethertype,
        } = planned;
        let (page_bytes, nic) = (memory.page_bytes(), NicPipe::new(memory));
        let number = number.unwrap_or_else(|| record.free_number());
        record.add_pipe(
            number,
            PipeRecord {
                kind,
                port,
                capacity_bytes,
                packet_bytes_max: match frame_bytes_max {
                    0 => nic.packet_bytes_max() as u64,
                    max => max.into(),
                },
                bindings: 0,
                partner,
            },
        );
        let wanted = self.config.dataplane.huge_pages;
        if let Some(advice) = small_pages::advice(wanted, kind, capacity_bytes, page_bytes) {
            tracing::info!(
                session,
                pipe = number,
                ?kind,
                capacity_bytes,
                page_bytes,
                "a pipe has small pages, which makes it slower: {advice}"
            );
        }
        let reply = Reply::Pipe {
            pipe: number,
            page_bytes,
            frame_bytes_max,
            link_ethertype,
        };
        let unmapped = Unmapped {
            session,
            bytes: capacity_bytes,
            mappings: PIPE_MAPPINGS,
            lane,
            command: Command::OpenPipe(Box::new(NewPipe {
                session,
                pipe: number,
                kind,
                port,
                partner,
                capacity_bytes,
                page_bytes,
                nic,
            })),
            change: Change::Opened { session, number },
            memory: kept,
        };
        self.hand_over(client, &reply, fds, unmapped);
    }

    fn hand_over_region(
        &mut self,
        client: u64,
        session: u64,
        planned: PlannedRegion,
        memory: RegionMemory,
        [fd, kept]: [OwnedFd; 2],
    ) {
        let PlannedRegion {
            lane,
            region,
            rights,
            durable,
        } = planned;
        let (rkey, size_bytes) = (region.rkey, region.size_bytes);
        let seal = self.tokens.seal(rkey, self.uid_of(client), &region.name);
        let unmapped = Unmapped {
            session,
            bytes: size_bytes,
            mappings: REGION_MAPPINGS,
            lane,
            command: Command::Register(Box::new(NewRegion {
                session,
                name: region.name.clone(),
                rkey,
                rights,
                durable,
                memory,
            })),
            change: Change::Registered {
                session,
                region,
                durable,
            },
            memory: vec![kept],
        };
        let reply = Reply::Region {
            rkey,
            size_bytes,
            seal,
        };
        self.hand_over(client, &reply, vec![fd], unmapped);
    }
}
