//! The task that owns the connection.

use std::{future::Future, pin::pin, sync::Arc};

use covalent_api::request::{Reply, Request};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tracing::{info, warn};

use super::{
    DaemonAt, Requester, Unreachable,
    comeback::Comeback,
    events::Events,
    greeting::{Greeted, SessionError, greet},
    witness::Witness,
};
use crate::{
    channel::{Channel, ChannelError},
    metrics::{Evidence, OwnMetrics},
    neighbors::Neighbors,
};

/// No client is left that could request a status: the process is exiting.
struct Ending;

pub(super) struct Keeper {
    at: DaemonAt,
    requested: mpsc::Receiver<Requester>,
    table: watch::Sender<Neighbors>,
    own: OwnMetrics,
    events: Events,
    /// Requesters that wait for the status in flight.
    waiting: Vec<Requester>,
    /// Whether a status request is in flight.
    in_flight: bool,
    /// Whether an event was missed while it was.
    missed: bool,
}

impl Keeper {
    pub(super) fn new(
        at: DaemonAt,
        requested: mpsc::Receiver<Requester>,
        table: watch::Sender<Neighbors>,
        events: Events,
        own: OwnMetrics,
    ) -> Self {
        Self {
            at,
            requested,
            table,
            own,
            events,
            waiting: Vec::new(),
            in_flight: false,
            missed: false,
        }
    }

    /// Runs until no client is left that could request a status.
    pub(super) async fn run(mut self) {
        // Each reason is written once, not once for each attempt.
        let mut complaint = String::from("not connected yet");
        let mut comeback = Comeback::of(&self.at.socket);
        loop {
            let Ok(connected) = self.connect(&complaint).await else {
                return;
            };
            let problem = match connected {
                Ok((channel, greeted)) => {
                    complaint.clear();
                    comeback.reached();
                    let since = Instant::now();
                    let witness = Witness::of(&channel);
                    let ended = self.follow(channel, greeted, &witness).await;
                    comeback.connected_for(since.elapsed());
                    match ended {
                        Ok(Ending) => return,
                        Err(error) => {
                            let loss = self.count_loss(&error, &witness).await;
                            let Ok(problem) = loss else { return };
                            problem
                        }
                    }
                }
                Err(problem) => problem,
            };
            if problem != complaint {
                warn!(socket = %self.at.socket.display(), "no daemon: {problem}; trying again \
                    until it is there");
                complaint = problem;
            }
            if self
                .refuse_during(comeback.next_attempt(), &complaint)
                .await
                .is_err()
            {
                return;
            }
        }
    }

    /// Connects and greets. Meanwhile answers requesters with `complaint`.
    async fn connect(
        &mut self,
        complaint: &str,
    ) -> Result<Result<(Channel, Greeted), String>, Ending> {
        let socket = self.at.socket.clone();
        let attempt = async move { greet(&socket).await.map_err(|error| error.to_string()) };
        self.refuse_during(attempt, complaint).await
    }

    /// Waits for `work`. Meanwhile answers every requester with the reason why there is no status.
    async fn refuse_during<R>(
        &mut self,
        work: impl Future<Output = R>,
        reason: &str,
    ) -> Result<R, Ending> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return Ok(result),
                requester = self.requested.recv() => {
                    // The requester may have stopped waiting.
                    let _ = requester.ok_or(Ending)?.send(Err(Unreachable::new(reason)));
                }
            }
        }
    }

    /// Follows one connection until it or this process ends.
    async fn follow(
        &mut self,
        mut channel: Channel,
        greeted: Greeted,
        witness: &Witness,
    ) -> Result<Ending, SessionError> {
        self.begin(&greeted);
        let result = tokio::select! {
            result = self.converse(&mut channel, greeted) => result,
            () = witness.ended() => Err(SessionError::Ended),
        };
        self.table.send_modify(Neighbors::disconnected);
        self.in_flight = false;
        self.missed = false;
        let reason: Arc<str> = match &result {
            Ok(Ending) => "control is ending".into(),
            Err(error) => error.to_string().into(),
        };
        for requester in self.waiting.drain(..) {
            let _ = requester.send(Err(Unreachable::new(Arc::clone(&reason))));
        }
        result
    }

    /// Counts a lost connection and returns the cause. The state of the daemon's process
    /// distinguishes a crash from a daemon that closed the connection.
    async fn count_loss(
        &mut self,
        error: &SessionError,
        witness: &Witness,
    ) -> Result<String, Ending> {
        let (evidence, problem) = match error {
            SessionError::Ended => (Evidence::Pidfd, error.to_string()),
            error => {
                let reason = error.to_string();
                let last_word = self.refuse_during(witness.last_word(), &reason).await?;
                (Evidence::Socket, format!("{reason}; {last_word}"))
            }
        };
        self.own.daemon_lost(evidence);
        Ok(problem)
    }

    fn begin(&mut self, greeted: &Greeted) {
        self.own.connects.inc();
        self.events.restart();
        self.table
            .send_modify(|table| table.connected(greeted.guid));
        info!(guid = %greeted.guid, node = greeted.node, "connected to the daemon");
        if greeted.node != self.at.node {
            warn!(
                daemon = greeted.node,
                configured = self.at.node,
                "the daemon runs under another name; the configuration has changed since it started"
            );
        }
    }

    async fn converse(
        &mut self,
        channel: &mut Channel,
        greeted: Greeted,
    ) -> Result<Ending, SessionError> {
        for event in greeted.early {
            self.on_event(&event, channel).await?;
        }
        self.request_status(channel).await?;
        loop {
            tokio::select! {
                reply = channel.recv() => self.on_reply(reply?, channel).await?,
                requester = self.requested.recv() => {
                    let Some(requester) = requester else { return Ok(Ending) };
                    // Remove requesters that timed out, so they cannot accumulate behind an
                    // unresponsive daemon.
                    self.waiting.retain(|requester| !requester.is_closed());
                    self.waiting.push(requester);
                    self.request_status(channel).await?;
                }
            }
        }
    }

    /// Requests a status, unless a request is in flight.
    async fn request_status(&mut self, channel: &Channel) -> Result<(), ChannelError> {
        if !self.in_flight {
            self.in_flight = true;
            self.own.status_requests.inc();
            // The change is not visible to watchers.
            self.table.send_if_modified(|table| {
                table.requested();
                false
            });
            channel.send(&Request::Status).await?;
        }
        Ok(())
    }

    async fn on_reply(&mut self, reply: Reply, channel: &Channel) -> Result<(), SessionError> {
        match reply {
            Reply::Event(event) => Ok(self.on_event(&event, channel).await?),
            Reply::Status(status) if self.in_flight => {
                self.in_flight = false;
                self.table.send_modify(|table| table.refresh(&status));
                let status: Arc<_> = Arc::from(status);
                for requester in self.waiting.drain(..) {
                    let _ = requester.send(Ok(Arc::clone(&status)));
                }
                if std::mem::take(&mut self.missed) {
                    self.request_status(channel).await?;
                }
                Ok(())
            }
            Reply::Refused { reason, .. } => Err(SessionError::Refused(reason)),
            _ => Err(SessionError::Unexpected("the request for its status")),
        }
    }

    async fn on_event(
        &mut self,
        event: &covalent_api::event::Event,
        channel: &Channel,
    ) -> Result<(), ChannelError> {
        let missed = self.events.record(event);
        self.table.send_modify(|table| table.apply(event));
        // The missed events may concern links. A new status covers them.
        if missed {
            // The status in flight may be older than the missed events.
            self.missed |= self.in_flight;
            self.request_status(channel).await
        } else {
            Ok(())
        }
    }
}
