//! The exchange with control about the configuration in force, on the host thread.
//!
//! [`Acceptor`] decides which offer is accepted. The opener's thread then puts it in force
//! ([`super::reconfigure`]), and this module passes commands to lanes and answers between them. No
//! step waits for control.

use std::{collections::BTreeMap, sync::Arc};

use covalent_api::{
    agreement::{HeldBrief, PIECE_BYTES_MAX, RefusalBrief, VerdictBrief},
    event::EventKind,
    hex64::Hex64,
    request::Reply,
    status::ConfigStatus,
};
use covalent_config::{CONFIG_BYTES_MAX, Config};
use covalent_protocol::agreement::{Acceptor, Held, Proposal, Refusal};

use super::{
    PortTable, Server,
    answers::Pending,
    opener::{Answers, Job, Message, Opener},
    preparation::Draft,
    reconfigure::{Entered, Outcome},
};
use crate::{
    fault_injection::FaultInjection,
    lane::{
        command::{Answer, Command, LaneObjection, Stepped},
        policy::Policy,
    },
};

/// Objections in one verdict: the rest is usually their echo.
const OBJECTIONS_MAX: usize = 32;

/// The host thread's state of agreements.
#[derive(Debug)]
pub struct Agreements {
    acceptor: Acceptor,
    opener: Opener,
    /// The configuration in force, as text.
    text: String,
    policy: Arc<Policy>,
    /// The pieces that clients have sent of their next offer.
    drafts: BTreeMap<u64, String>,
    /// Whether ports may damage their own frames.
    faults: FaultInjection,
    barrier: Barrier,
}

/// The commands of the opener that lanes execute now.
#[derive(Debug, Default)]
struct Barrier {
    /// Lanes that have not answered.
    waits_for: usize,
    answers: Answers,
    /// Other commands to lanes wait.
    holds: bool,
    /// The daemon shuts down: no further change of lanes begins.
    is_closed: bool,
}

impl Agreements {
    /// All lanes hold `held`, which is `config`, as `text`.
    #[must_use]
    pub fn new(
        config: &Config,
        text: String,
        held: Held,
        opener: Opener,
        faults: FaultInjection,
    ) -> Self {
        Self {
            acceptor: Acceptor::new(held),
            opener,
            text,
            policy: Arc::new(Policy::new(config)),
            drafts: BTreeMap::new(),
            faults,
            barrier: Barrier::default(),
        }
    }

    /// The opener. Its doorbell rings when it has a message.
    pub const fn opener(&self) -> &Opener {
        &self.opener
    }

    /// The client that last queried the held configuration, if it is still connected.
    pub const fn partner(&self) -> Option<u64> {
        self.acceptor.partner()
    }

    /// For people.
    pub fn status(&self) -> ConfigStatus {
        let is_open = self.acceptor.is_open();
        ConfigStatus {
            held: brief(&self.acceptor.held()),
            under_way: is_open.then(|| "another configuration is being put in force".to_owned()),
        }
    }
}

impl Server {
    /// A client queries the held configuration. It gets the reply when no exchange is open.
    pub(super) fn query_agreement(&mut self, client: u64) {
        self.is_answered_later(client);
        if self.agreements.acceptor.queried(client).is_some() {
            self.report_held(client);
        }
    }

    /// A piece of the text in force.
    pub(super) fn agreed_text(&mut self, client: u64, from_bytes: u64) -> Result<(), String> {
        let text = &self.agreements.text;
        let rest = usize::try_from(from_bytes)
            .ok()
            .and_then(|from| text.get(from..))
            .ok_or_else(|| {
                format!(
                    "no character of the text begins at byte {from_bytes}: it has {} bytes",
                    text.len()
                )
            })?;
        let piece = &rest[..rest.floor_char_boundary(PIECE_BYTES_MAX)];
        let next = from_bytes + piece.len() as u64;
        let reply = Reply::AgreedText {
            held: brief(&self.agreements.acceptor.held()),
            next_bytes: (piece.len() < rest.len()).then_some(next),
            text: piece.to_owned(),
        };
        self.reply_to(client, &reply, Vec::new());
        Ok(())
    }

    /// Stores a piece of the text that a client is about to offer.
    pub(super) fn draft(&mut self, client: u64, from_bytes: u64, text: &str) -> Result<(), String> {
        let draft = self.agreements.drafts.entry(client).or_default();
        if from_bytes == 0 {
            draft.clear();
        }
        if from_bytes != draft.len() as u64 {
            return Err(format!(
                "the draft has {} bytes so far, and this piece begins at byte {from_bytes}: begin \
                 again at 0",
                draft.len()
            ));
        }
        if text.len() > PIECE_BYTES_MAX {
            return Err(format!("a piece has {PIECE_BYTES_MAX} bytes at most"));
        }
        if (draft.len() + text.len()) as u64 > CONFIG_BYTES_MAX {
            self.agreements.drafts.remove(&client);
            return Err(format!(
                "longer than {CONFIG_BYTES_MAX} bytes, so it is not a configuration"
            ));
        }
        draft.push_str(text);
        self.reply_to(client, &Reply::Done, Vec::new());
        Ok(())
    }

    /// A client offers its draft.
    pub(super) fn proposed(&mut self, client: u64, proposal: Proposal, reopen: Vec<String>) {
        self.is_answered_later(client);
        let agreements = &mut self.agreements;
        let text = agreements.drafts.remove(&client).unwrap_or_default();
        if let Err(refusal) = agreements.acceptor.offered(client, proposal) {
            let held = brief(&agreements.acceptor.held());
            let verdict = VerdictBrief {
                held,
                refused: Some(refusal_brief(refusal)),
                lanes: Vec::new(),
                objections: Vec::new(),
                changed: Vec::new(),
                beware: Vec::new(),
            };
            return self.reply_to(client, &Reply::Verdict(Box::new(verdict)), Vec::new());
        }
        let draft = Draft {
            text,
            digest: proposal.wants,
            epoch: proposal.epoch,
            now: Arc::clone(&self.config),
            epoch_now: agreements.acceptor.held().epoch,
            policy: Arc::clone(&agreements.policy),
            ports: self.ports.clone(),
            lanes: self.lanes.len() as u32,
            faults: agreements.faults,
            reopen,
        };
        agreements.opener.give(Job::Reconfigure(Box::new(draft)));
    }

    /// A client is gone. The exchange that it offered continues.
    pub(super) fn agreement_without(&mut self, client: u64) {
        self.agreements.drafts.remove(&client);
        self.agreements.acceptor.gone(client);
    }

    /// Processes a message of the opener, if there is one.
    pub(super) fn take_message(&mut self) {
        match self.agreements.opener.next_message() {
            None => {}
            Some(Message::Lanes { commands, holds }) => self.order_step(commands, holds),
            Some(Message::Ended(outcome)) => self.ended(*outcome),
        }
    }

    /// Has lanes execute commands of the opener.
    fn order_step(&mut self, commands: Vec<(u32, Command)>, holds: bool) {
        let barrier = &mut self.agreements.barrier;
        if barrier.is_closed && !barrier.holds {
            return;
        }
        barrier.waits_for = commands.len();
        if holds {
            self.hold_commands(true);
        }
        for (lane, command) in commands {
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.pending.insert(ticket, Pending::Agreement { lane });
            self.lanes[lane as usize].push_at_once(ticket, command);
        }
        if !holds {
            // Behind these in each lane.
            self.hold_commands(false);
        }
    }

    /// Holds other commands to lanes back, or releases them.
    fn hold_commands(&mut self, holds: bool) {
        self.agreements.barrier.holds = holds;
        for lane in &mut self.lanes {
            lane.pause(holds);
        }
    }

    /// No change of lanes begins any more. One that holds commands back goes on to its end.
    pub(super) const fn close_barrier(&mut self) {
        self.agreements.barrier.is_closed = true;
    }

    /// A lane answered a command of the opener.
    pub(super) fn lane_stepped(&mut self, lane: u32, result: Result<Answer, String>) {
        let stepped = match result {
            Ok(Answer::Stepped(stepped)) => *stepped,
            // No lane answers such a command with anything else.
            Ok(_) => return,
            Err(reason) => Stepped {
                went: Err(LaneObjection {
                    matches: None,
                    port: None,
                    reason,
                }),
                ports: Vec::new(),
            },
        };
        let barrier = &mut self.agreements.barrier;
        barrier.answers.push((lane, stepped));
        barrier.waits_for -= 1;
        if barrier.waits_for == 0 {
            let mut answers = std::mem::take(&mut barrier.answers);
            answers.sort_by_key(|(lane, _)| *lane);
            self.agreements.opener.answer(answers);
        }
    }

    /// Notifies subscribers, the partner and applications that the daemon shuts down gracefully.
    pub(super) fn take_leave(&mut self) {
        let bytes = self.raise(EventKind::Stopping);
        let partner = self.agreements.partner();
        let client = partner.and_then(|number| self.clients.get_mut(&number));
        let Some(bytes) = bytes else { return };
        if let Some(client) = client.filter(|it| !it.subscribed) {
            client.event(&bytes);
        }
        self.send_stopping(&bytes);
    }

    fn is_answered_later(&mut self, client: u64) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.busy = true;
        }
    }

    /// An exchange has ended.
    fn ended(&mut self, outcome: Outcome) {
        let waiting = self.agreements.acceptor.ended(outcome.result.is_ok());
        let held = brief(&self.agreements.acceptor.held());
        let mut verdict = VerdictBrief {
            held,
            refused: None,
            lanes: outcome.lanes.into_values().collect(),
            objections: outcome.objections,
            changed: Vec::new(),
            beware: Vec::new(),
        };
        let before = std::mem::replace(&mut self.ports, outcome.ports);
        match outcome.result {
            Ok(entered) => {
                verdict.changed.clone_from(&entered.changed);
                verdict.beware = self.enter(held.epoch, entered, &before, &outcome.opened);
            }
            Err(refusal) => {
                verdict.refused = Some(refusal_brief(refusal));
                self.restored(&outcome.opened, outcome.absent);
                self.refused(&verdict);
            }
        }
        self.hold_commands(false);
        self.close(outcome.unused);
        if let Some(client) = waiting.verdict {
            verdict.objections.truncate(OBJECTIONS_MAX);
            self.reply_to(client, &Reply::Verdict(Box::new(verdict)), Vec::new());
        }
        for client in waiting.reports {
            self.report_held(client);
        }
    }

    /// Returns the affected parties that may not know.
    fn enter(
        &mut self,
        epoch: u64,
        entered: Entered,
        before: &PortTable,
        opened: &[u16],
    ) -> Vec<String> {
        self.config = entered.config;
        self.agreements.text = entered.text;
        self.agreements.policy = entered.policy;
        let beware = self.enter_ports(before, &entered.removed, opened);
        let changed = entered.changed;
        self.raise(EventKind::Configured { epoch, changed });
        beware
    }

    fn refused(&mut self, verdict: &VerdictBrief) {
        let Some(first) = verdict.objections.first() else {
            return;
        };
        let reason = match first.key.as_str() {
            "" => first.message.clone(),
            key => format!("`{key}`: {}", first.message),
        };
        self.raise(EventKind::NotConfigured { reason });
    }

    fn report_held(&mut self, client: u64) {
        let held = brief(&self.agreements.acceptor.held());
        self.reply_to(client, &Reply::Agreement { held }, Vec::new());
    }
}

/// Converts to the form sent on the socket.
fn brief(held: &Held) -> HeldBrief {
    HeldBrief {
        incarnation: Hex64(held.incarnation),
        epoch: held.epoch,
        digest: Hex64(held.digest),
    }
}

/// Converts a client's belief and request into an offer.
pub fn proposal(epoch: u64, believes: HeldBrief, digest: Hex64) -> Proposal {
    Proposal {
        epoch,
        believes: Held {
            incarnation: believes.incarnation.0,
            epoch: believes.epoch,
            digest: believes.digest.0,
        },
        wants: digest.0,
    }
}

const fn refusal_brief(refusal: Refusal) -> RefusalBrief {
    match refusal {
        Refusal::Stale => RefusalBrief::Stale,
        Refusal::NotLater => RefusalBrief::NotLater,
        Refusal::Busy => RefusalBrief::Busy,
        Refusal::Unready => RefusalBrief::Unready,
        Refusal::Lane(lane) => RefusalBrief::Lane { lane },
    }
}
