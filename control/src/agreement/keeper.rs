//! The task that owns the agreement.

use std::collections::VecDeque;

use covalent_api::{
    agreement::{Objection, VerdictBrief},
    config::{KeyChange, changes},
};
use covalent_protocol::agreement::{
    Held, Offer, Offerer, Refusal,
    offerer::{Input, Note, Output, Why},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep},
};
use tracing::{error, info, warn};

use super::{
    Agreed, Between, Reloaded, Reopened, Reopening, Rules, Told, Wish, brief,
    draft::{self, Draft, Source},
    held,
    own::{Own, Ready},
    rules,
    talk::{Talk, TalkError, verdict},
};
use crate::{daemon::backoff::Backoff, metrics::OwnMetrics, neighbours::Neighbours};

pub(super) struct Keeper {
    between: Between,
    own: Own,
    wished: mpsc::Receiver<Wish>,
    told: Told,
    metrics: OwnMetrics,
    offerer: Offerer,
    /// What is agreed on, as text.
    agreed: Option<Draft>,
    /// What could not be reinstated, as text: [`Offerer::owed`].
    owed: Option<Draft>,
    wish: Option<Wished>,
    reopening: Option<Reopening>,
    /// What the last verdict said stands in the way.
    objections: Vec<Objection>,
    /// Who is affected by what it took.
    beware: Vec<String>,
    complaint: String,
}

/// What somebody wants in force.
struct Wished {
    who: oneshot::Sender<Reloaded>,
    draft: Draft,
    source: Source,
    changed: Vec<KeyChange>,
    ready: Option<Ready>,
}

/// Nobody is left who could wish for anything: the process is ending.
struct Ending;

impl Keeper {
    pub(super) fn new(
        between: Between,
        own: Own,
        wished: mpsc::Receiver<Wish>,
        told: Told,
        metrics: OwnMetrics,
    ) -> Self {
        Self {
            between,
            own,
            wished,
            told,
            metrics,
            offerer: Offerer::default(),
            agreed: None,
            owed: None,
            wish: None,
            reopening: None,
            objections: Vec::new(),
            beware: Vec::new(),
            complaint: String::new(),
        }
    }

    /// Until nobody is left who could wish for anything.
    pub(super) async fn run(mut self, mut neighbours: watch::Receiver<Neighbours>) {
        let mut backoff = Backoff::new();
        loop {
            if self.await_daemon(&mut neighbours).await.is_err() {
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
        neighbours: &mut watch::Receiver<Neighbours>,
    ) -> Result<(), Ending> {
        let there = async {
            let found = neighbours.wait_for(|table| table.daemon().is_some()).await;
            found.is_ok()
        };
        match self.while_away(there).await? {
            true => Ok(()),
            false => Err(Ending),
        }
    }

    /// Waits for `work`, and tells whoever wishes for something meanwhile that there is no daemon.
    async fn while_away<R>(&mut self, work: impl Future<Output = R>) -> Result<R, Ending> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return Ok(result),
                wish = self.wished.recv() => self.answer_alone(wish.ok_or(Ending)?),
            }
        }
    }

    /// Tells what can be told while there is no daemon.
    fn answer_alone(&self, wish: Wish) {
        match wish {
            Wish::Reload(who) => {
                // A file that is wrong is wrong without a daemon too.
                let problems = match draft::read(&self.between.file) {
                    Err(problems) => problems,
                    Ok(_) => vec![format!(
                        "no covalentd answers at {}: the file is right, and is what covalentd reads when it starts",
                        self.between.socket.display()
                    )],
                };
                self.refuse(who, problems);
            }
            Wish::Steer(_, who) => {
                let socket = self.between.socket.display();
                let problem = format!(
                    "no covalentd answers at {socket}, and only one that runs has rules in force"
                );
                self.refuse(who, vec![problem]);
            }
            // Whoever no longer waits is nobody to tell.
            Wish::Rules(who) => drop(who.send(None)),
            Wish::Reopen(reopening) => drop(reopening.who.send(Reopened::NotNow)),
            Wish::Appeared(who) => drop(who.send(false)),
        }
    }

    fn complain(&mut self, error: &TalkError) {
        let complaint = error.to_string();
        if complaint != self.complaint {
            warn!(socket = %self.between.socket.display(), "nothing is agreed on with the daemon: {complaint}");
            self.complaint = complaint;
        }
    }

    /// Follows one connection until it or this process ends.
    async fn follow(&mut self) -> Result<Ending, TalkError> {
        let mut talk = Talk::connect(&self.between.socket).await?;
        let ended = self.converse(&mut talk).await;
        if talk.took_leave() {
            self.hear(Input::TookLeave);
        }
        for output in self.hear(Input::Lost) {
            if let Output::Note(note) = output {
                self.note_away(note);
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
                heard = talk.listen() => heard?,
                wish = self.wished.recv() => {
                    let Some(wish) = wish else { return Ok(Ending) };
                    self.fulfil(talk, wish).await?;
                }
            }
        }
    }

    async fn fulfil(&mut self, talk: &mut Talk, wish: Wish) -> Result<(), TalkError> {
        match wish {
            Wish::Reload(who) => {
                let read = draft::read(&self.between.file);
                self.begin(talk, who, read).await?;
            }
            Wish::Steer(edit, who) => {
                let nobody =
                    || vec!["nothing is agreed on with covalentd yet; try again".to_owned()];
                let agreed = self.agreed.as_ref().ok_or_else(nobody);
                let edited = agreed.and_then(|agreed| edit.of(&agreed.config));
                let drafted = edited.map(|draft| (draft, Source::Rules));
                self.begin(talk, who, drafted).await?;
            }
            Wish::Rules(who) => drop(who.send(self.rules())),
            Wish::Reopen(reopening) if self.offerer.agreed() == Some(reopening.under) => {
                self.reopening = Some(reopening);
                self.exchange(talk, Input::Reopen).await?;
            }
            Wish::Reopen(reopening) => drop(reopening.who.send(Reopened::NotNow)),
            Wish::Appeared(who) => {
                self.exchange(talk, Input::Appeared).await?;
                let _ = who.send(true);
            }
        }
        Ok(())
    }

    fn hear(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.offerer.on(input, &mut outputs);
        outputs
    }

    fn show(&self) {
        let agreed = Agreed {
            held: self.offerer.agreed(),
            is_shared: self.offerer.is_agreed(),
        };
        self.metrics.agreed(&agreed);
        self.told.table.send_replace(agreed);
    }

    /// The rules in force, as whoever asks is told.
    fn rules(&self) -> Option<Rules> {
        let agreed = self.agreed.as_ref()?;
        let file = draft::read(&self.between.file).ok();
        let file = file.as_ref().map(|(draft, _)| &draft.config);
        Some(Rules {
            held: brief(&self.offerer.agreed()?),
            rules: rules::briefs(&agreed.config, file),
        })
    }

    /// Makes ready what control itself does of a draft, and offers it, unless it is refused.
    async fn begin(
        &mut self,
        talk: &mut Talk,
        who: oneshot::Sender<Reloaded>,
        drafted: Result<(Draft, Source), Vec<String>>,
    ) -> Result<(), TalkError> {
        let problems = match drafted {
            Err(problems) => problems,
            Ok((draft, source)) => match self.own.prepare(&draft.config).await {
                Ok(ready) => {
                    let now = self.agreed.as_ref().map(|agreed| &agreed.config);
                    let wants = draft.digest;
                    self.wish = Some(Wished {
                        who,
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
        self.refuse(who, problems);
        Ok(())
    }

    fn refuse(&self, who: oneshot::Sender<Reloaded>, problems: Vec<String>) {
        self.told.ended.send_modify(|count| *count += 1);
        self.metrics.agreement("refused");
        for problem in &problems {
            warn!("what was wanted is not in force, and nothing has changed: {problem}");
        }
        // Whoever no longer waits is nobody to tell.
        let _ = who.send(Reloaded::Refused { problems });
    }

    /// Does what comes out until nothing does.
    async fn exchange(&mut self, talk: &mut Talk, input: Input) -> Result<(), TalkError> {
        let mut outputs: VecDeque<Output> = self.hear(input).into();
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Ask => {
                    let told = held(&talk.held().await?);
                    outputs.extend(self.hear(Input::Told(told)));
                }
                Output::Send(offer) => {
                    let answered = self.offer(talk, &offer).await?;
                    let input = Input::Answered {
                        verdict: verdict(&answered),
                        held: held(&answered.held),
                    };
                    self.objections = answered.objections;
                    self.beware = answered.beware;
                    for beware in &self.beware {
                        warn!("{beware}");
                    }
                    outputs.extend(self.hear(input));
                }
                Output::Note(note) => self.note(talk, note).await?,
            }
        }
        self.show();
        Ok(())
    }

    async fn offer(&mut self, talk: &mut Talk, offer: &Offer) -> Result<VerdictBrief, TalkError> {
        self.show();
        let wished = self.wish.as_ref().map(|wish| &wish.draft);
        let reopen = match (self.offerer.unanswered(), &self.reopening) {
            (Some((_, Why::Reopen)), Some(reopening)) => reopening.ports.clone(),
            _ => Vec::new(),
        };
        let draft = [wished, self.agreed.as_ref(), self.owed.as_ref()]
            .into_iter()
            .flatten()
            .find(|draft| draft.digest == offer.wants);
        match draft {
            Some(draft) => {
                let text = draft.text.clone();
                talk.offer(offer, &text, reopen).await
            }
            None => Err(TalkError::Unexpected("an offer of a text that is gone")),
        }
    }

    async fn note(&mut self, talk: &mut Talk, note: Note) -> Result<(), TalkError> {
        match note {
            Note::Adopted(held) => {
                self.metrics.agreement("adopted");
                info!(epoch = held.epoch, "control holds what the dataplane holds");
                self.take_text(talk, &held).await?;
                self.owed = None;
                self.refuse_wish("somebody else agreed with the dataplane meanwhile");
                self.reopened(Reopened::NotNow);
            }
            Note::Taken(held, Why::Reopen) => {
                self.metrics.agreement("reopened");
                self.reopened(Reopened::Taken { epoch: held.epoch });
            }
            Note::Taken(held, Why::Reload) => self.taken(talk, &held).await?,
            Note::Taken(held, Why::Reinstate) => {
                self.metrics.agreement("reinstated");
                info!(
                    epoch = held.epoch,
                    "the dataplane holds again what was agreed on"
                );
                let owed = self.owed.take();
                if let Some(owed) = owed.filter(|owed| owed.digest == held.digest) {
                    self.own.adopt(&owed.config).await;
                    self.agreed = Some(owed);
                }
                self.warn_of_another_file();
            }
            Note::Refused(refusal, Why::Reload) => self.refused(refusal),
            Note::Refused(refusal, Why::Reopen) => self.not_reopened(refusal),
            Note::Refused(refusal, Why::Reinstate) => {
                self.metrics.agreement("refused");
                let objections = std::mem::take(&mut self.objections);
                error!(
                    ?refusal,
                    ?objections,
                    "what was agreed on cannot be put in force again; the dataplane runs on its file, and it is tried again when an interface appears"
                );
                if let Some(held) = self.offerer.agreed().filter(|_| self.offerer.is_agreed()) {
                    let is_owed = |draft: &Draft| Some(draft.digest) == self.offerer.owed();
                    if self.agreed.as_ref().is_some_and(is_owed) {
                        self.owed = self.agreed.take();
                    }
                    self.take_text(talk, &held).await?;
                    if let Some(owed) = &self.owed {
                        self.own.follow_too(&owed.config.port);
                    }
                }
            }
            Note::NotTaken(Why::Reload) => {
                self.refuse_wish("the connection to covalentd broke, and it does not hold the file's configuration");
            }
            Note::NotTaken(Why::Reopen) => self.reopened(Reopened::NotNow),
            Note::NotTaken(Why::Reinstate) => {}
            Note::NoDataplane | Note::Lost => self.note_away(note),
        }
        Ok(())
    }

    fn note_away(&mut self, note: Note) {
        match note {
            Note::Lost => {
                warn!("the dataplane is lost; what was agreed on is offered to it when it returns")
            }
            _ => {
                self.refuse_wish("no covalentd answers");
                self.reopened(Reopened::NotNow);
            }
        }
    }

    /// Has the text of what the dataplane holds.
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
        let draft = draft.ok_or(TalkError::Unexpected("the question for its text"))?;
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
            warn!(file = %file.display(), "the file says something else than what is in force: `covalent reload` applies it");
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
        info!(epoch = held.epoch, changed = ?keys, "{}", wish.source.in_force());
        self.agreed = Some(wish.draft);
        self.owed = None;
        self.told.ended.send_modify(|count| *count += 1);
        let _ = wish.who.send(Reloaded::Taken {
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
                Refusal::Stale | Refusal::NotLater => "somebody else agreed with it meanwhile",
                Refusal::Busy => "another configuration is being put in force",
                Refusal::Unready | Refusal::Lane(_) => "it gave no reason",
            };
            vec![format!("covalentd refused: {why}; {}", wish.source.again())]
        } else {
            objections
                .iter()
                .map(|it| wish.source.problem(it))
                .collect()
        };
        self.refuse(wish.who, problems);
    }

    /// Tells whoever waits for ports to be opened again.
    fn reopened(&mut self, reopened: Reopened) {
        if let Some(reopening) = self.reopening.take() {
            let _ = reopening.who.send(reopened);
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

    /// Tells whoever waits for a reload that it came to nothing.
    fn refuse_wish(&mut self, why: &str) {
        if let Some(wish) = self.wish.take() {
            let problem = format!("{why}: {}", wish.source.again());
            self.refuse(wish.who, vec![problem]);
        }
    }
}
