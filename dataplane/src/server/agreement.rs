//! The exchange with control about the configuration in force, on the host thread.
//!
//! [`Joint`] decides, and this module carries out its orders. Once an offer has arrived, no step
//! waits for control.

use std::{collections::BTreeMap, sync::Arc};

use covalent_api::{
    agreement::{HeldBrief, LaneHeld, Objection, PIECE_BYTES_MAX, RefusalBrief, VerdictBrief},
    config::{CONFIG_BYTES_MAX, Config},
    event::EventKind,
    hex64::Hex64,
    request::Reply,
    status::ConfigStatus,
};
use covalent_protocol::agreement::{
    Held, Joint, Phase, Proposal, Refusal, Verdict,
    joint::{Input, Order, Step},
};

use super::{
    Server,
    answers::Pending,
    opener::{Done, Job, Opener},
    port_exchange::PortExchange,
    preparation::{Draft, Preparation, Prepared},
};
use crate::{
    fault_injection::FaultInjection,
    lane::{
        agreement::{LaneTuning, LaneWant},
        command::{Answer, Command, LaneObjection},
        policy::Policy,
    },
};

/// Objections in one verdict: the rest is usually their echo.
const OBJECTIONS_MAX: usize = 32;

/// The host thread's state of agreements.
#[derive(Debug)]
pub struct Agreements {
    joint: Joint,
    opener: Opener,
    /// The configuration in force, as text.
    text: String,
    policy: Arc<Policy>,
    /// The pieces that clients have sent of their next offer.
    drafts: BTreeMap<u64, String>,
    pub(super) exchange: Exchange,
    /// Whether ports may damage their own frames.
    faults: FaultInjection,
}

/// The state of the open exchange, or of the last one.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// The offered text, until the opener has it.
    draft: String,
    proposal: Option<Proposal>,
    /// Names of ports that are closed and opened again, until the opener has them.
    reopen: Vec<String>,
    pub(super) prepared: Option<Prepared>,
    pub(super) ports: PortExchange,
    /// The configuration that each lane is to hold.
    wants: Vec<Arc<LaneWant>>,
    pub(super) objections: Vec<Objection>,
    lanes: BTreeMap<u32, LaneHeld>,
    /// Parties that are affected and may not know it.
    beware: Vec<String>,
}

impl Agreements {
    /// All of `lanes` lanes hold `held`, which is `config`, as `text`.
    #[must_use]
    pub fn new(
        config: &Config,
        text: String,
        held: Held,
        lanes: u32,
        opener: Opener,
        faults: FaultInjection,
    ) -> Self {
        Self {
            joint: Joint::new(held, lanes),
            opener,
            text,
            policy: Arc::new(Policy::new(config)),
            drafts: BTreeMap::new(),
            exchange: Exchange::default(),
            faults,
        }
    }

    /// The opener. Its doorbell rings when it has finished a job.
    pub const fn opener(&self) -> &Opener {
        &self.opener
    }

    /// The client that last queried the held configuration, if it is still connected.
    pub const fn partner(&self) -> Option<u64> {
        self.joint.partner()
    }

    /// Where the open exchange is.
    pub(super) fn phase(&self) -> Option<Phase> {
        self.joint.phase()
    }

    /// For people.
    pub fn status(&self) -> ConfigStatus {
        let doing = |phase| match phase {
            Phase::Preparing => "another configuration is compared with the one in force",
            Phase::Judging => "lanes check whether they can take another configuration",
            Phase::DetachingPorts | Phase::Opening => "ports are opened for another configuration",
            Phase::Taking | Phase::Settling => "lanes take another configuration over",
            Phase::Undoing | Phase::Restoring | Phase::PuttingBack => {
                "another configuration was refused, and its changes are reverted"
            }
        };
        ConfigStatus {
            held: brief(&self.joint.held()),
            under_way: self.joint.phase().map(|phase| doing(phase).to_owned()),
        }
    }
}

impl Server {
    /// A client queries the held configuration. It gets the reply when no exchange is open.
    pub(super) fn query_agreement(&mut self, client: u64) {
        self.is_answered_later(client);
        self.agree(Input::Queried { from: client });
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
            held: brief(&self.agreements.joint.held()),
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
        let draft = self.agreements.drafts.remove(&client).unwrap_or_default();
        if self.agreements.joint.phase().is_none() {
            self.agreements.exchange = Exchange {
                draft,
                proposal: Some(proposal),
                reopen,
                ..Exchange::default()
            };
        }
        self.agree(Input::Proposed {
            from: client,
            proposal,
        });
    }

    /// A client is gone. The exchange that it offered continues.
    pub(super) fn agreement_without(&mut self, client: u64) {
        self.agreements.drafts.remove(&client);
        self.agree(Input::Gone { from: client });
    }

    /// Looks whether the opener is done.
    pub(super) fn take_done(&mut self) {
        let input = match self.agreements.opener.next_done() {
            None => None,
            Some(Done::Prepared(preparation)) => Some(self.prepared(preparation)),
            Some(done) => self.ports_opened(done),
        };
        if let Some(input) = input {
            self.agree(input);
        }
    }

    fn prepared(&mut self, preparation: Preparation) -> Input {
        let lanes = 0..self.lanes.len() as u32;
        let exchange = &mut self.agreements.exchange;
        let (mut prepared, proposal) = match (preparation, exchange.proposal) {
            (Ok(prepared), Some(proposal)) => (prepared, proposal),
            (preparation, _) => {
                exchange.objections = preparation.err().unwrap_or_default();
                return Input::Unprepared;
            }
        };
        let name = |at: usize| self.config.port[at].name.clone();
        let (ports, objections) = PortExchange::new(&self.ports, name, &mut prepared);
        exchange.ports = ports;
        if !objections.is_empty() {
            exchange.objections = objections;
            return Input::Unprepared;
        }
        let ports = &exchange.ports;
        let config = &prepared.config;
        let policy = Arc::new(Policy::new(config));
        let changed = self.agreements.policy.differing(&policy);
        let faults = |lane| {
            let of_lane = config.port.iter().enumerate();
            of_lane
                .filter(|(_, port)| port.lane == lane)
                .filter_map(|(at, port)| Some((ports.number(at)?, port.faults?)))
                .collect()
        };
        exchange.wants = lanes
            .map(|lane| {
                Arc::new(LaneWant {
                    proposal,
                    tuning: LaneTuning::new(config, lane),
                    policy: Arc::clone(&policy),
                    changed: changed.clone(),
                    faults: faults(lane),
                    removed: ports.removed_from(lane),
                })
            })
            .collect();
        let detaches_ports = ports.detaches_ports();
        exchange.prepared = Some(prepared);
        Input::Prepared { detaches_ports }
    }

    /// A lane answered a step.
    pub(super) fn lane_stepped(&mut self, lane: u32, result: Result<Answer, String>) {
        let went = match result {
            Ok(Answer::Stepped(mut stepped)) => {
                self.take_ports_of(&mut stepped);
                stepped.went
            }
            // No lane answers a step with anything else.
            Ok(_) => return,
            Err(reason) => Err(LaneObjection {
                matches: None,
                port: None,
                reason,
            }),
        };
        let exchange = &mut self.agreements.exchange;
        let succeeded = went.is_ok();
        match went {
            Ok(held) => {
                exchange.lanes.insert(lane, held);
            }
            Err(objection) => {
                let objection = exchange.objection(objection);
                exchange.objections.push(objection);
            }
        }
        self.agree(Input::Answered { lane, succeeded });
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

    fn agree(&mut self, input: Input) {
        let mut orders = Vec::new();
        self.agreements.joint.on(input, &mut orders);
        for order in orders {
            self.execute(order);
        }
    }

    fn execute(&mut self, order: Order) {
        match order {
            Order::Prepare => {
                let exchange = &mut self.agreements.exchange;
                let job = Job::Prepare(Draft {
                    text: std::mem::take(&mut exchange.draft),
                    digest: exchange.proposal.map_or(0, |proposal| proposal.wants),
                    now: Arc::clone(&self.config),
                    faults: self.agreements.faults,
                    reopen: std::mem::take(&mut exchange.reopen),
                });
                self.agreements.opener.give(job);
            }
            Order::Lane { lane, step } => self.step(lane, step),
            Order::Open => self.open_detached(),
            Order::Restore => {
                if let Some(input) = self.restore_detached() {
                    self.agree(input);
                }
            }
            Order::Pause => self.lanes.iter_mut().for_each(|lane| lane.pause(true)),
            Order::Resume => self.lanes.iter_mut().for_each(|lane| lane.pause(false)),
            Order::Enter(held) => self.enter(held),
            Order::DropUnused => self.drop_unused(),
            Order::Report { to, held } => {
                let held = brief(&held);
                self.reply_to(to, &Reply::Agreement { held }, Vec::new());
            }
            Order::Reply { to, verdict, held } => self.report_verdict(to, verdict, &held),
        }
    }

    fn step(&mut self, lane: u32, step: Step) {
        let exchange = &mut self.agreements.exchange;
        let (Some(want), Some(prepared)) = (
            exchange.wants.get(lane as usize).cloned(),
            &exchange.prepared,
        ) else {
            return;
        };
        let ports = &mut exchange.ports;
        let command = match step {
            Step::Judge(_) => Command::Judge(want),
            Step::DetachPorts(proposal) => Command::DetachPorts {
                proposal,
                ports: ports.to_detach_from(lane),
            },
            Step::Take(_) => Command::Take(want, ports.come_to(lane, prepared)),
            Step::Settle(epoch) => Command::Settle { epoch },
            Step::Undo(epoch) => Command::Undo { epoch },
            Step::PutBack(epoch) => Command::PutBack {
                epoch,
                ports: ports.return_to(lane),
            },
        };
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.pending.insert(ticket, Pending::Agreement { lane });
        self.lanes[lane as usize].push_at_once(ticket, command);
    }

    fn enter(&mut self, held: Held) {
        let exchange = &mut self.agreements.exchange;
        let Some(prepared) = &exchange.prepared else {
            return;
        };
        self.config = Arc::clone(&prepared.config);
        let changed = prepared.changed.clone();
        self.agreements.text = self.config.to_toml().unwrap_or_default();
        if let Some(want) = exchange.wants.first() {
            self.agreements.policy = Arc::clone(&want.policy);
        }
        let epoch = held.epoch;
        let beware = self.enter_ports();
        self.agreements.exchange.beware = beware;
        self.raise(EventKind::Configured { epoch, changed });
    }

    /// Drops the unused parts of a finished exchange. The rest is for the verdict.
    fn drop_unused(&mut self) {
        self.close_unused();
        let exchange = &mut self.agreements.exchange;
        exchange.wants.clear();
        if let Some(first) = exchange.objections.first() {
            let key = &first.key;
            let of_key = if key.is_empty() {
                String::new()
            } else {
                format!("`{key}`: ")
            };
            let reason = format!("{of_key}{}", first.message);
            self.raise(EventKind::NotConfigured { reason });
        }
    }

    fn report_verdict(&mut self, to: u64, verdict: Verdict, held: &Held) {
        let is_over = self.agreements.joint.phase().is_none();
        // An offer that was refused at once opens no exchange: the stored state belongs to another
        // one.
        let exchange = match verdict {
            Verdict::Refused(Refusal::Busy | Refusal::Stale | Refusal::NotLater) => {
                Exchange::default()
            }
            _ if is_over => std::mem::take(&mut self.agreements.exchange),
            _ => Exchange::default(),
        };
        let mut objections = exchange.objections;
        objections.truncate(OBJECTIONS_MAX);
        let changed = exchange.prepared.map(|prepared| prepared.changed);
        let refused = match verdict {
            Verdict::Taken => None,
            Verdict::Refused(refusal) => Some(refusal_brief(refusal)),
        };
        let verdict = VerdictBrief {
            held: brief(held),
            lanes: exchange.lanes.into_values().collect(),
            objections,
            changed: changed.filter(|_| refused.is_none()).unwrap_or_default(),
            beware: exchange.beware,
            refused,
        };
        self.reply_to(to, &Reply::Verdict(Box::new(verdict)), Vec::new());
    }
}

impl Exchange {
    /// A lane's objection, with the key in the offered text.
    fn objection(&self, objection: LaneObjection) -> Objection {
        let rules = self.prepared.iter().flat_map(|it| &it.config.steer);
        let of_rule = objection.matches.as_ref().and_then(|matches| {
            let mut rules = (0_usize..).zip(rules);
            rules.find(|(_, rule)| rule.matches == *matches)
        });
        let of_port = objection.port.and_then(|number| self.ports.place(number));
        let key = match (of_rule, of_port) {
            (Some((at, _)), _) => format!("steer[{at}]"),
            (None, Some(at)) => format!("port[{at}]"),
            (None, None) => String::new(),
        };
        Objection {
            key,
            message: objection.reason,
        }
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
