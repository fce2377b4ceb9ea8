//! The exchange with control: what the host thread does about the configuration in force.
//!
//! [`Joint`] decides; here is what it orders. Nothing of it waits for control once an offer is there.

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
    Held, Joint, Offer, Phase, Refusal, Verdict,
    joint::{Input, Order, Step},
};

use super::{
    Server,
    answers::Pending,
    opener::{Draft, Opener, Preparation, Prepared},
};
use crate::lane::{
    agreement::{LaneTuning, LaneWant},
    command::{Answer, Command},
    policy::Policy,
};

/// Objections in one verdict: the rest is usually their echo.
const OBJECTIONS_MAX: usize = 32;

/// What the host thread keeps for agreements.
#[derive(Debug)]
pub struct Agreements {
    joint: Joint,
    opener: Opener,
    /// What is in force, as text.
    text: String,
    policy: Arc<Policy>,
    /// What clients have sent of what they are about to offer.
    drafts: BTreeMap<u64, String>,
    exchange: Exchange,
}

/// What belongs to the exchange that is open, or was last.
#[derive(Debug, Default)]
struct Exchange {
    /// The offered text, until the opener has it.
    draft: String,
    offer: Option<Offer>,
    prepared: Option<Prepared>,
    /// What each lane is to hold.
    wants: Vec<Arc<LaneWant>>,
    objections: Vec<Objection>,
    lanes: BTreeMap<u32, LaneHeld>,
}

impl Agreements {
    /// All of `lanes` lanes hold `held`, which is `config`, as `text`.
    #[must_use]
    pub fn new(config: &Config, text: String, held: Held, lanes: u32, opener: Opener) -> Self {
        Self {
            joint: Joint::new(held, lanes),
            opener,
            text,
            policy: Arc::new(Policy::new(config)),
            drafts: BTreeMap::new(),
            exchange: Exchange::default(),
        }
    }

    /// Rings when the opener has done what it was asked for.
    pub const fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Who asked last what is held, if it is still there.
    pub const fn partner(&self) -> Option<u64> {
        self.joint.partner()
    }

    /// For people.
    pub fn status(&self) -> ConfigStatus {
        let doing = |phase| match phase {
            Phase::Preparing => "another configuration is compared with the one in force",
            Phase::Judging => "lanes say whether they could take another configuration",
            Phase::Vacating | Phase::Opening => "ports are opened for another configuration",
            Phase::Taking | Phase::Settling => "lanes take another configuration over",
            Phase::Undoing | Phase::Restoring | Phase::PuttingBack => {
                "another configuration was refused, and what was changed is changed back"
            }
        };
        ConfigStatus {
            held: brief(&self.joint.held()),
            under_way: self.joint.phase().map(|phase| doing(phase).to_owned()),
        }
    }
}

impl Server {
    /// A client asks what is held: it is told when no exchange is open.
    pub(super) fn ask_agreement(&mut self, client: u64) {
        self.is_answered_later(client);
        self.agree(Input::Asked { from: client });
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

    /// A piece of what a client is about to offer.
    pub(super) fn draft(&mut self, client: u64, from_bytes: u64, text: &str) -> Result<(), String> {
        let draft = self.agreements.drafts.entry(client).or_default();
        if from_bytes == 0 {
            draft.clear();
        }
        if from_bytes != draft.len() as u64 {
            return Err(format!(
                "the draft has {} bytes so far, and this piece is to begin at byte {from_bytes}: begin anew at 0",
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
    pub(super) fn offered(&mut self, client: u64, offer: Offer) {
        self.is_answered_later(client);
        let draft = self.agreements.drafts.remove(&client).unwrap_or_default();
        if self.agreements.joint.phase().is_none() {
            self.agreements.exchange = Exchange {
                draft,
                offer: Some(offer),
                ..Exchange::default()
            };
        }
        self.agree(Input::Offered {
            from: client,
            offer,
        });
    }

    /// A client is gone: what it offered goes on.
    pub(super) fn agreement_without(&mut self, client: u64) {
        self.agreements.drafts.remove(&client);
        self.agree(Input::Gone { from: client });
    }

    /// Looks whether the opener is done.
    pub(super) fn take_preparation(&mut self) {
        let Some(preparation) = self.agreements.opener.next_done() else {
            return;
        };
        let input = self.prepared(preparation);
        self.agree(input);
    }

    fn prepared(&mut self, preparation: Preparation) -> Input {
        let lanes = 0..self.lanes.len() as u32;
        let exchange = &mut self.agreements.exchange;
        let (Ok(prepared), Some(offer)) = (&preparation, exchange.offer) else {
            exchange.objections = preparation.err().unwrap_or_default();
            return Input::Unprepared;
        };
        let config = &prepared.config;
        let policy = Arc::new(Policy::new(config));
        let changed = self.agreements.policy.differing(&policy);
        let faults = |lane| {
            (0..)
                .zip(&config.port)
                .filter(move |(_, port)| port.lane == lane)
                .filter_map(|(number, port)| Some((number, port.faults?)))
                .collect()
        };
        exchange.wants = lanes
            .map(|lane| {
                Arc::new(LaneWant {
                    offer,
                    tuning: LaneTuning::new(config, lane),
                    policy: Arc::clone(&policy),
                    changed: changed.clone(),
                    faults: faults(lane),
                })
            })
            .collect();
        exchange.prepared = preparation.ok();
        // Every change of a port is read at the start only, so none is given back.
        Input::Prepared { vacates: false }
    }

    /// A lane answered a step.
    pub(super) fn lane_stepped(&mut self, lane: u32, result: Result<Answer, String>) {
        let exchange = &mut self.agreements.exchange;
        let went_well = match result {
            Ok(Answer::Held(held)) => {
                exchange.lanes.insert(lane, *held);
                true
            }
            Ok(Answer::Objection { matches, reason }) => {
                let rules = exchange.prepared.iter().flat_map(|it| &it.config.steer);
                let rule = (0..)
                    .zip(rules)
                    .find(|(_, rule)| Some(&rule.matches) == matches.as_ref());
                exchange.objections.push(Objection {
                    key: rule
                        .map_or_else(String::new, |(at, _): (usize, _)| format!("steer[{at}]")),
                    message: reason,
                });
                false
            }
            Ok(_) => true,
            Err(message) => {
                let key = String::new();
                exchange.objections.push(Objection { key, message });
                false
            }
        };
        self.agree(Input::Answered { lane, went_well });
    }

    /// The daemon ends in order, and says so to whoever relies on it.
    pub(super) fn take_leave(&mut self) {
        let bytes = self.raise(EventKind::Stopping);
        let partner = self.agreements.partner();
        let client = partner.and_then(|number| self.clients.get_mut(&number));
        if let (Some(client), Some(bytes)) = (client.filter(|it| !it.subscribed), bytes) {
            client.event(&bytes);
        }
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
            self.carry_out(order);
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Prepare => {
                let exchange = &mut self.agreements.exchange;
                let draft = Draft {
                    text: std::mem::take(&mut exchange.draft),
                    digest: exchange.offer.map_or(0, |offer| offer.wants),
                    now: Arc::clone(&self.config),
                    admission: self.admission.clone(),
                };
                self.agreements.opener.prepare(draft);
            }
            Order::Lane { lane, step } => self.step(lane, step),
            // Nothing was given back, so there is nothing to open or to put back.
            Order::Open => self.agree(Input::Opened),
            Order::Restore => self.agree(Input::Restored),
            Order::Pause => self.lanes.iter_mut().for_each(|lane| lane.pause(true)),
            Order::Resume => self.lanes.iter_mut().for_each(|lane| lane.pause(false)),
            Order::Enter(held) => self.enter(held),
            Order::DropUnused => self.drop_unused(),
            Order::Tell { to, held } => {
                let held = brief(&held);
                self.reply_to(to, &Reply::Agreement { held }, Vec::new());
            }
            Order::Reply { to, verdict, held } => self.tell_verdict(to, verdict, &held),
        }
    }

    fn step(&mut self, lane: u32, step: Step) {
        let want = self.agreements.exchange.wants.get(lane as usize).cloned();
        let command = match (step, want) {
            (Step::Judge(_), Some(want)) => Command::Judge(want),
            (Step::Take(_), Some(want)) => Command::Take(want),
            (Step::Settle(epoch), _) => Command::Settle { epoch },
            (Step::Undo(epoch), _) => Command::Undo { epoch },
            // No port is given back, so no lane is asked for it.
            (Step::Vacate(_) | Step::PutBack(_) | Step::Judge(_) | Step::Take(_), _) => return,
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
        self.admission = prepared.admission.clone();
        let changed = prepared.changed.clone();
        self.agreements.text = self.config.to_toml().unwrap_or_default();
        if let Some(want) = exchange.wants.first() {
            self.agreements.policy = Arc::clone(&want.policy);
        }
        let epoch = held.epoch;
        self.raise(EventKind::Configured { epoch, changed });
    }

    /// The exchange is over. What it leaves is for the verdict.
    fn drop_unused(&mut self) {
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

    fn tell_verdict(&mut self, to: u64, verdict: Verdict, held: &Held) {
        let is_over = self.agreements.joint.phase().is_none();
        // An offer that was refused at once is no exchange: what it is not told is of another one.
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
            refused,
        };
        self.reply_to(to, &Reply::Verdict(Box::new(verdict)), Vec::new());
    }
}

/// As it is said on the socket.
fn brief(held: &Held) -> HeldBrief {
    HeldBrief {
        incarnation: Hex64(held.incarnation),
        epoch: held.epoch,
        digest: Hex64(held.digest),
    }
}

/// What a client says that it believes, and wants.
pub fn offer(epoch: u64, believes: HeldBrief, digest: Hex64) -> Offer {
    Offer {
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
