//! The task that owns the agreement.

use std::collections::VecDeque;

use covalent_api::agreement::{Objection, VerdictBrief};
use covalent_config::{KeyChange, changes};
use covalent_protocol::agreement::{
    Held, Proposal, Proposer, Refusal,
    proposer::{Input, Output, Record, Why},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep},
};
use tracing::{error, info, warn};

use super::{
    Agreed, Between, Reloaded, Reopened, Reopening, Report, Rules, Wish, brief,
    draft::{self, Draft, Source},
    held,
    own::{Own, Ready},
    rules,
    talk::{Talk, TalkError, verdict},
};
use crate::{daemon::backoff::Backoff, metrics::OwnMetrics, neighbors::Neighbors};

pub(super) struct Keeper {
    between: Between,
    own: Own,
    wished: mpsc::Receiver<Wish>,
    report: Report,
    metrics: OwnMetrics,
    proposer: Proposer,
    /// The agreed configuration, as text.
    agreed: Option<Draft>,
    /// The configuration that could not be reinstated, as text: [`Proposer::owed`].
    owed: Option<Draft>,
    wish: Option<Wished>,
    reopening: Option<Reopening>,
    /// Objections of the last verdict.
    objections: Vec<Objection>,
    /// Side effects of the last accepted offer.
    beware: Vec<String>,
    complaint: String,
}

/// A configuration that a client wants in force.
struct Wished {
    requester: oneshot::Sender<Reloaded>,
    draft: Draft,
    source: Source,
    changed: Vec<KeyChange>,
    ready: Option<Ready>,
}

/// No client is left that could send a wish: the process is exiting.
struct Ending;

impl Keeper {
    pub(super) fn new(
        between: Between,
        own: Own,
        wished: mpsc::Receiver<Wish>,
        report: Report,
        metrics: OwnMetrics,
    ) -> Self {
        Self {
            between,
            own,
            wished,
            report,
            metrics,
            proposer: Proposer::default(),
            agreed: None,
            owed: None,
            wish: None,
            reopening: None,
            objections: Vec::new(),
            beware: Vec::new(),
            complaint: String::new(),
        }
    }

    /// Runs until no client is left that could send a wish.
    pub(super) async fn run(mut self, mut neighbors: watch::Receiver<Neighbors>) {
        let mut backoff = Backoff::new();
        loop {
            if self.await_daemon(&mut neighbors).await.is_err() {
                return;
            }
            let since = Instant::now();
            match self.follow().await {
                Ok(Ending) => return,
                Err(error) => self.complain(&error),
            }
            backoff.connected_for(since.elapsed());
            if self.while_away(sleep(backoff.take())).await.is_err() {
                return;
            }
        }
    }

    /// The other connection knows when there is a daemon.
    async fn await_daemon(
        &mut self,
        neighbors: &mut watch::Receiver<Neighbors>,
    ) -> Result<(), Ending> {
        let there = async {
            let found = neighbors.wait_for(|table| table.daemon().is_some()).await;
            found.is_ok()
        };
        match self.while_away(there).await? {
            true => Ok(()),
            false => Err(Ending),
        }
    }

    /// Waits for `work`. Meanwhile answers every wish with the fact that there is no daemon.
    async fn while_away<R>(&mut self, work: impl Future<Output = R>) -> Result<R, Ending> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return Ok(result),
                wish = self.wished.recv() => self.answer_alone(wish.ok_or(Ending)?),
            }
        }
    }

    /// Answers a wish as far as possible without a daemon.
    fn answer_alone(&self, wish: Wish) {
        match wish {
            Wish::Reload(requester) => {
                // A file that is wrong is wrong without a daemon too.
                let problems = match draft::read(&self.between.file) {
                    Err(problems) => problems,
                    Ok(_) => vec![format!(
                        "no covalentd answers at {}: the file is valid, and covalentd reads it \
                         when it starts",
                        self.between.socket.display()
                    )],
                };
                self.refuse(requester, problems);
            }
            Wish::Steer(_, requester) => {
                let socket = self.between.socket.display();
                let problem = format!(
                    "no covalentd answers at {socket}, and only a running covalentd has rules in \
                     force"
                );
                self.refuse(requester, vec![problem]);
            }
            // The requester may have stopped waiting.
            Wish::Rules(requester) => drop(requester.send(None)),
            Wish::Reopen(reopening) => drop(reopening.requester.send(Reopened::NotNow)),
            Wish::Appeared(requester) => drop(requester.send(false)),
        }
    }

    fn complain(&mut self, error: &TalkError) {
        let complaint = error.to_string();
        if complaint != self.complaint {
            warn!(socket = %self.between.socket.display(), "nothing is agreed on with the daemon: \
                {complaint}");
            self.complaint = complaint;
        }
    }

    /// Follows one connection until it or this process ends.
    async fn follow(&mut self) -> Result<Ending, TalkError> {
        let mut talk = Talk::connect(&self.between.socket).await?;
        let ended = self.converse(&mut talk).await;
        if talk.took_leave() {
            self.feed(Input::TookLeave);
        }
        for output in self.feed(Input::Lost) {
            if let Output::Record(record) = output {
                self.record_absence(record);
            }
        }
        self.show();
        ended
    }

    async fn converse(&mut self, talk: &mut Talk) -> Result<Ending, TalkError> {
        self.exchange(talk, Input::Connected).await?;
        self.complaint.clear();
        loop {
            tokio::select! {
                received = talk.listen() => received?,
                wish = self.wished.recv() => {
                    let Some(wish) = wish else { return Ok(Ending) };
                    self.fulfill(talk, wish).await?;
                }
            }
        }
    }

    async fn fulfill(&mut self, talk: &mut Talk, wish: Wish) -> Result<(), TalkError> {
        match wish {
            Wish::Reload(requester) => {
                let read = draft::read(&self.between.file);
                self.begin(talk, requester, read).await?;
            }
            Wish::Steer(edit, requester) => {
                let no_dataplane =
                    || vec!["nothing is agreed on with covalentd yet; try again".to_owned()];
                let agreed = self.agreed.as_ref().ok_or_else(no_dataplane);
                let edited = agreed.and_then(|agreed| edit.of(&agreed.config));
                let drafted = edited.map(|draft| (draft, Source::Rules));
                self.begin(talk, requester, drafted).await?;
            }
            Wish::Rules(requester) => drop(requester.send(self.rules())),
            Wish::Reopen(reopening) if self.proposer.agreed() == Some(reopening.under) => {
                self.reopening = Some(reopening);
                self.exchange(talk, Input::Reopen).await?;
            }
            Wish::Reopen(reopening) => drop(reopening.requester.send(Reopened::NotNow)),
            Wish::Appeared(requester) => {
                self.exchange(talk, Input::Appeared).await?;
                let _ = requester.send(true);
            }
        }
        Ok(())
    }

    fn feed(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.proposer.on(input, &mut outputs);
        outputs
    }

    fn show(&self) {
        let agreed = Agreed {
            held: self.proposer.agreed(),
            is_shared: self.proposer.is_agreed(),
        };
        let revision = agreed.held.map_or(0, |held| held.epoch);
        self.metrics.agreed(revision, agreed.is_shared);
        self.report.table.send_replace(agreed);
    }

    /// The rules in force, as reported to clients.
    fn rules(&self) -> Option<Rules> {
        let agreed = self.agreed.as_ref()?;
        let file = draft::read(&self.between.file).ok();
        let file = file.as_ref().map(|(draft, _)| &draft.config);
        Some(Rules {
            held: brief(&self.proposer.agreed()?),
            rules: rules::briefs(&agreed.config, file),
        })
    }

    /// Prepares control's own part of a draft and offers the draft, unless the draft is refused.
    async fn begin(
        &mut self,
        talk: &mut Talk,
        requester: oneshot::Sender<Reloaded>,
        drafted: Result<(Draft, Source), Vec<String>>,
    ) -> Result<(), TalkError> {
        let problems = match drafted {
            Err(problems) => problems,
            Ok((draft, source)) => match self.own.prepare(&draft.config).await {
                Ok(ready) => {
                    let now = self.agreed.as_ref().map(|agreed| &agreed.config);
                    let wants = draft.digest;
                    self.wish = Some(Wished {
                        requester,
                        changed: now.map_or_else(Vec::new, |now| changes(now, &draft.config)),
                        draft,
                        source,
                        ready: Some(ready),
                    });
                    return self.exchange(talk, Input::Wished { wants }).await;
                }
                Err(objection) => vec![source.problem(&objection)],
            },
        };
        self.refuse(requester, problems);
        Ok(())
    }

    fn refuse(&self, requester: oneshot::Sender<Reloaded>, problems: Vec<String>) {
        self.report.ended.send_modify(|count| *count += 1);
        self.metrics.agreement("refused");
        for problem in &problems {
            warn!(
                "the requested configuration is not in force, and nothing has changed: {problem}"
            );
        }
        // The requester may have stopped waiting.
        let _ = requester.send(Reloaded::Refused { problems });
    }

    /// Feeds the state machine and processes its outputs until there are none.
    async fn exchange(&mut self, talk: &mut Talk, input: Input) -> Result<(), TalkError> {
        let mut outputs: VecDeque<Output> = self.feed(input).into();
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Query => {
                    let report = held(&talk.held().await?);
                    outputs.extend(self.feed(Input::Report(report)));
                }
                Output::Send(proposal) => {
                    let answered = self.proposal(talk, &proposal).await?;
                    let input = Input::Answered {
                        verdict: verdict(&answered),
                        held: held(&answered.held),
                    };
                    self.objections = answered.objections;
                    self.beware = answered.beware;
                    for beware in &self.beware {
                        warn!("{beware}");
                    }
                    outputs.extend(self.feed(input));
                }
                Output::Record(record) => self.record(talk, record).await?,
            }
        }
        self.show();
        Ok(())
    }

    async fn proposal(
        &mut self,
        talk: &mut Talk,
        proposal: &Proposal,
    ) -> Result<VerdictBrief, TalkError> {
        self.show();
        let wished = self.wish.as_ref().map(|wish| &wish.draft);
        let reopen = match (self.proposer.unanswered(), &self.reopening) {
            (Some((_, Why::Reopen)), Some(reopening)) => reopening.ports.clone(),
            _ => Vec::new(),
        };
        let draft = [wished, self.agreed.as_ref(), self.owed.as_ref()]
            .into_iter()
            .flatten()
            .find(|draft| draft.digest == proposal.wants);
        match draft {
            Some(draft) => {
                let text = draft.text.clone();
                talk.propose(proposal, &text, reopen).await
            }
            None => Err(TalkError::Unexpected(
                "an offer whose text no longer exists",
            )),
        }
    }

    async fn record(&mut self, talk: &mut Talk, record: Record) -> Result<(), TalkError> {
        match record {
            Record::Adopted(held) => {
                self.metrics.agreement("adopted");
                info!(
                    revision = held.epoch,
                    "control adopted the dataplane's configuration"
                );
                self.take_text(talk, &held).await?;
                self.owed = None;
                self.refuse_wish("another client agreed with the dataplane meanwhile");
                self.reopened(Reopened::NotNow);
            }
            Record::Taken(held, Why::Reopen) => {
                self.metrics.agreement("reopened");
                self.reopened(Reopened::Taken { epoch: held.epoch });
            }
            Record::Taken(held, Why::Reload) => self.taken(talk, &held).await?,
            Record::Taken(held, Why::Reinstate) => {
                self.metrics.agreement("reinstated");
                info!(
                    revision = held.epoch,
                    "the dataplane holds the agreed configuration again"
                );
                let owed = self.owed.take();
                if let Some(owed) = owed.filter(|owed| owed.digest == held.digest) {
                    self.own.adopt(&owed.config).await;
                    self.agreed = Some(owed);
                }
                self.warn_of_another_file();
            }
            Record::Refused(refusal, Why::Reload) => self.refused(refusal),
            Record::Refused(refusal, Why::Reopen) => self.not_reopened(refusal),
            Record::Refused(refusal, Why::Reinstate) => {
                self.metrics.agreement("refused");
                let objections = std::mem::take(&mut self.objections);
                error!(
                    ?refusal,
                    ?objections,
                    "the agreed configuration cannot be put in force again; the dataplane runs on \
                     its file, and control retries when an interface appears"
                );
                if let Some(held) = self.proposer.agreed().filter(|_| self.proposer.is_agreed()) {
                    let is_owed = |draft: &Draft| Some(draft.digest) == self.proposer.owed();
                    if self.agreed.as_ref().is_some_and(is_owed) {
                        self.owed = self.agreed.take();
                    }
                    self.take_text(talk, &held).await?;
                    if let Some(owed) = &self.owed {
                        self.own.follow_too(&owed.config.port);
                    }
                }
            }
            Record::NotTaken(Why::Reload) => {
                self.refuse_wish(
                    "the connection to covalentd broke, and it does not hold the \
                    file's configuration",
                );
            }
            Record::NotTaken(Why::Reopen) => self.reopened(Reopened::NotNow),
            Record::NotTaken(Why::Reinstate) => {}
            Record::NoDataplane | Record::Lost => self.record_absence(record),
        }
        Ok(())
    }

    fn record_absence(&mut self, record: Record) {
        match record {
            Record::Lost => {
                warn!(
                    "the dataplane is lost; control offers it the agreed configuration when it \
                     returns"
                )
            }
            _ => {
                self.refuse_wish("no covalentd answers");
                self.reopened(Reopened::NotNow);
            }
        }
    }

    /// Fetches the text of the configuration that the dataplane holds.
    async fn take_text(&mut self, talk: &mut Talk, held: &Held) -> Result<(), TalkError> {
        if self
            .agreed
            .as_ref()
            .is_some_and(|agreed| agreed.digest == held.digest)
        {
            return Ok(());
        }
        let text = talk.text().await?;
        let draft = Draft::agreed(text).filter(|draft| draft.digest == held.digest);
        let draft = draft.ok_or(TalkError::Unexpected("the query for its text"))?;
        self.own.adopt(&draft.config).await;
        self.agreed = Some(draft);
        self.warn_of_another_file();
        Ok(())
    }

    fn warn_of_another_file(&self) {
        let file = &self.between.file;
        let digest = self.agreed.as_ref().map(|agreed| agreed.digest);
        let is_another = draft::read(file).is_ok_and(|(draft, _)| Some(draft.digest) != digest);
        if is_another {
            warn!(
                file = %file.display(),
                "the file differs from the configuration in force: `covalent reload` applies it"
            );
        }
    }

    async fn taken(&mut self, talk: &mut Talk, held: &Held) -> Result<(), TalkError> {
        self.metrics.agreement("reloaded");
        let Some(mut wish) = self
            .wish
            .take()
            .filter(|wish| wish.draft.digest == held.digest)
        else {
            return self.take_text(talk, held).await;
        };
        if let Some(ready) = wish.ready.take() {
            self.own.apply(ready).await;
        }
        let keys: Vec<_> = wish.changed.iter().map(|change| &change.key).collect();
        info!(revision = held.epoch, changed = ?keys, "{}", wish.source.in_force());
        self.agreed = Some(wish.draft);
        self.owed = None;
        self.report.ended.send_modify(|count| *count += 1);
        let _ = wish.requester.send(Reloaded::Taken {
            epoch: held.epoch,
            changed: wish.changed,
            beware: std::mem::take(&mut self.beware),
        });
        Ok(())
    }

    fn refused(&mut self, refusal: Refusal) {
        let objections = std::mem::take(&mut self.objections);
        let Some(wish) = self.wish.take() else { return };
        let problems = if objections.is_empty() {
            let why = match refusal {
                Refusal::Stale | Refusal::NotLater => "another client agreed with it meanwhile",
                Refusal::Busy => "another configuration is being put in force",
                Refusal::Unready | Refusal::Lane(_) => "it gave no reason",
            };
            vec![format!(
                "covalentd refused: {why}; {}",
                wish.source.retry_advice()
            )]
        } else {
            objections
                .iter()
                .map(|it| wish.source.problem(it))
                .collect()
        };
        self.refuse(wish.requester, problems);
    }

    /// Notifies the requester that waits for ports to be reopened.
    fn reopened(&mut self, reopened: Reopened) {
        if let Some(reopening) = self.reopening.take() {
            let _ = reopening.requester.send(reopened);
        }
    }

    fn not_reopened(&mut self, refusal: Refusal) {
        let objections = std::mem::take(&mut self.objections);
        let reopened = match refusal {
            Refusal::Unready | Refusal::Lane(_) => {
                self.metrics.agreement("refused");
                let problems = objections.into_iter().map(|it| it.message);
                Reopened::Refused {
                    problems: problems.collect(),
                }
            }
            Refusal::Stale | Refusal::NotLater | Refusal::Busy => Reopened::NotNow,
        };
        self.reopened(reopened);
    }

    /// Notifies the requester of a reload that it failed.
    fn refuse_wish(&mut self, why: &str) {
        if let Some(wish) = self.wish.take() {
            let problem = format!("{why}: {}", wish.source.retry_advice());
            self.refuse(wish.requester, vec![problem]);
        }
    }
}
