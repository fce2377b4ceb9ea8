//! Memory of applications in the hands of the workers: what is asked of them, and what comes after.
//!
//! A client has one request under way, so it waits for one job at most. What it forgoes or leaves behind is freed by further ones; the
//! session stays charged for all of it until that is done, so nobody gets more by being quick.

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

/// A job and what comes after it.
#[derive(Debug)]
pub struct Errand {
    /// The session whose memory it is.
    session: u64,
    /// The user who waits his turn for it.
    uid: u32,
    /// The client that waits for its end; none does for memory that nobody wants any more.
    client: Option<u64>,
    /// Mappings that are there no more when it has ended.
    frees: u32,
    after: After,
}

/// What comes after a job.
#[derive(Debug)]
pub enum After {
    /// The memory of a pipe is handed over.
    OpenPipe(PlannedPipe),
    /// A region is handed over.
    Register(PlannedRegion),
    /// A lane begins to serve what is sealed now.
    Serve,
    /// The client is told.
    Tell(Box<Reply>),
    /// Nothing.
    Nothing,
}

/// A pipe whose memory is being made. Its quota is taken.
#[derive(Debug)]
pub struct PlannedPipe {
    /// The lane of its session.
    pub lane: u32,
    /// Its number, if it had one before.
    pub number: Option<u32>,
    /// What it is for.
    pub kind: PipeKind,
    /// Its port.
    pub port: Option<u16>,
    /// Ring size in bytes.
    pub capacity_bytes: u64,
    /// Longest frame of a port that it sends on; else 0.
    pub frame_bytes_max: u32,
}

/// A region whose memory is being made. Its quota, its name and its key are taken.
#[derive(Debug)]
pub struct PlannedRegion {
    /// The lane of its session.
    pub lane: u32,
    /// What it is to be.
    pub region: RegionStatus,
    /// What verbs may do with it.
    pub rights: Rights,
    /// Whether it is durable.
    pub durable: bool,
}

impl Server {
    /// Has a job done on `bytes` bytes of memory of `session`; `client`, if one is named, makes no request until its end.
    pub(super) fn send_on_errand(
        &mut self,
        session: u64,
        client: Option<u64>,
        bytes: u64,
        job: Job,
        after: After,
    ) {
        let Some(record) = self.sessions.get_mut(&session) else {
            // Without a session there is no job but to drop what it left, which is too small to wait for.
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

    /// Frees what nobody uses any more.
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

    /// Frees what no session has, and nobody waits for.
    pub(super) fn discard(&mut self, uid: u32, bytes: u64, thing: impl Send + 'static) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let job = Job::Release(Released::new(0, thing));
        self.memory.push(uid, bytes, ticket, job);
    }

    /// A client is going: what it waits for is not begun any more, if it has not been.
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
        // Who has hung up or was turned away has no session any more, or will have none.
        let waits = |number: &u64| {
            self.clients
                .get(number)
                .is_some_and(|client| client.session == Some(session) && !client.closing)
        };
        let client = client.filter(|client| !matches!(done, Done::Cancelled(_)) && waits(client));
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
            (Some(client), After::Tell(reply), _) => self.reply_to(client, &reply, Vec::new()),
            (None, After::OpenPipe(planned), Done::Pipe(Ok(made))) => {
                self.release(session, planned.capacity_bytes, PIPE_MAPPINGS, made);
            }
            (None, After::Register(planned), Done::Region(Ok(made))) => {
                self.release(session, planned.region.size_bytes, REGION_MAPPINGS, made);
            }
            (None, _, Done::Sealed(unmapped, _) | Done::Cancelled(Some(unmapped))) => {
                self.forgo(*unmapped);
            }
            // Nobody waits for it, and nothing came of it.
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
            capacity_bytes,
            frame_bytes_max,
        } = planned;
        let (page_bytes, nic) = (memory.page_bytes(), NicPipe::new(memory));
        let number = number.unwrap_or_else(|| record.free_number());
        record.pipes.insert(
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
        let seal = self.seals.seal(rkey, self.uid_of(client), &region.name);
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
