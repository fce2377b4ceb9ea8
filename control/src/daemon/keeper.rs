//! The task that owns the connection.

use std::{future::Future, pin::pin, sync::Arc};

use covalent_api::request::{Reply, Request};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tracing::{info, warn};

use super::{
    Asker, DaemonAt, Unreachable,
    comeback::Comeback,
    events::Events,
    greeting::{Greeted, SessionError, greet},
    witness::Witness,
};
use crate::{
    channel::{Channel, ChannelError},
    metrics::{Evidence, OwnMetrics},
    neighbours::Neighbours,
};

/// Nobody is left who could ask: the process is ending.
struct Ending;

pub(super) struct Keeper {
    at: DaemonAt,
    asked: mpsc::Receiver<Asker>,
    table: watch::Sender<Neighbours>,
    own: OwnMetrics,
    events: Events,
    /// Those who wait for the status that is under way.
    waiting: Vec<Asker>,
    /// Whether a status was asked for and has not come.
    under_way: bool,
    /// Whether an event was missed while it was.
    missed: bool,
}

impl Keeper {
    pub(super) fn new(
        at: DaemonAt,
        asked: mpsc::Receiver<Asker>,
        table: watch::Sender<Neighbours>,
        events: Events,
        own: OwnMetrics,
    ) -> Self {
        Self {
            at,
            asked,
            table,
            own,
            events,
            waiting: Vec::new(),
            under_way: false,
            missed: false,
        }
    }

    /// Until nobody is left who could ask.
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
                            let told = self.tell_loss(&error, &witness).await;
                            let Ok(problem) = told else { return };
                            problem
                        }
                    }
                }
                Err(problem) => problem,
            };
            if problem != complaint {
                warn!(socket = %self.at.socket.display(), "no daemon: {problem}; trying again until it is there");
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

    /// Connects and greets. Who asks meanwhile is told `complaint`.
    async fn connect(
        &mut self,
        complaint: &str,
    ) -> Result<Result<(Channel, Greeted), String>, Ending> {
        let socket = self.at.socket.clone();
        let attempt = async move { greet(&socket).await.map_err(|error| error.to_string()) };
        self.refuse_during(attempt, complaint).await
    }

    /// Waits for `work`, and tells everyone who asks meanwhile why there is no status.
    async fn refuse_during<R>(
        &mut self,
        work: impl Future<Output = R>,
        reason: &str,
    ) -> Result<R, Ending> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return Ok(result),
                asker = self.asked.recv() => {
                    // An asker that no longer waits is nobody to tell.
                    let _ = asker.ok_or(Ending)?.send(Err(Unreachable::new(reason)));
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
        self.table.send_modify(Neighbours::disconnected);
        self.under_way = false;
        self.missed = false;
        let reason: Arc<str> = match &result {
            Ok(Ending) => "control is ending".into(),
            Err(error) => error.to_string().into(),
        };
        for asker in self.waiting.drain(..) {
            let _ = asker.send(Err(Unreachable::new(Arc::clone(&reason))));
        }
        result
    }

    /// Counts a connection that was lost, and says what it was lost by: what the daemon's process did tells a crash from a daemon that turned away.
    async fn tell_loss(
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
        self.ask(channel).await?;
        loop {
            tokio::select! {
                reply = channel.recv() => self.on_reply(reply?, channel).await?,
                asker = self.asked.recv() => {
                    let Some(asker) = asker else { return Ok(Ending) };
                    // Those who lost patience make room, so that a silent daemon cannot pile them up.
                    self.waiting.retain(|asker| !asker.is_closed());
                    self.waiting.push(asker);
                    self.ask(channel).await?;
                }
            }
        }
    }

    /// Asks for a status, unless one is under way already.
    async fn ask(&mut self, channel: &Channel) -> Result<(), ChannelError> {
        if !self.under_way {
            self.under_way = true;
            self.own.status_requests.inc();
            // Nothing that anybody sees changes by it.
            self.table.send_if_modified(|table| {
                table.asked();
                false
            });
            channel.send(&Request::Status).await?;
        }
        Ok(())
    }

    async fn on_reply(&mut self, reply: Reply, channel: &Channel) -> Result<(), SessionError> {
        match reply {
            Reply::Event(event) => Ok(self.on_event(&event, channel).await?),
            Reply::Status(status) if self.under_way => {
                self.under_way = false;
                self.table.send_modify(|table| table.refresh(&status));
                let status: Arc<_> = Arc::from(status);
                for asker in self.waiting.drain(..) {
                    let _ = asker.send(Ok(Arc::clone(&status)));
                }
                if std::mem::take(&mut self.missed) {
                    self.ask(channel).await?;
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
        let missed = self.events.note(event);
        self.table.send_modify(|table| table.apply(event));
        // What was missed may have been about links; one look tells.
        if missed {
            // The answer that is under way may be older than what was missed.
            self.missed |= self.under_way;
            self.ask(channel).await
        } else {
            Ok(())
        }
    }
}
