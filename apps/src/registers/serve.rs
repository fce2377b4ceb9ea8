//! A server: a member of the group, and a queue for requests.

use std::time::{Duration, Instant};

use anyhow::Result;
use covalent_verbs::{
    Completion, Device, Error, Group, GroupEvent, GroupOptions, Guid, Life, Mode, ReceiveQueue,
    RemoteRegion, Rights, STATE_BYTES_MAX, Stop as Stopped, Verb, Verbs,
};
use serde::Serialize;

use super::{
    QUEUE_PREFIX,
    machine::Machine,
    wire::{self, ReplyTo},
};
use crate::stop::{ASK_EVERY, Stop};

/// Room for requests, in bytes.
const REQUESTS_BYTES: u64 = 1 << 20;

/// Requests taken in a row before anything else is looked at.
const REQUESTS_AT_A_TIME: usize = 64;

/// How long a server that ends waits until the others have let it go.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);

/// What a server tells while it is at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum News {
    /// It belongs to this view.
    View {
        /// Its number.
        number: u64,
        /// How many members it has.
        members: usize,
        /// How many of them have the registers and count towards a quorum.
        voters: usize,
    },
    /// It has the registers, and answers.
    Serving {
        /// How many there are.
        registers: usize,
    },
    /// It answers nothing any more.
    Stopped {
        /// Why.
        why: String,
    },
    /// It was left out, and joins again as another member.
    Rejoins,
}

/// What a server did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests multicast.
    pub requests: u64,
    /// What was no request, or came when nothing could be multicast.
    pub requests_dropped: u64,
    /// Commands delivered.
    pub delivered: u64,
    /// Clients answered.
    pub answers: u64,
    /// Answers for which there was no room.
    pub answers_dropped: u64,
    /// Times that it gave its registers to somebody who joined.
    pub states_given: u64,
    /// Views.
    pub views: u64,
}

/// A state that is being given.
struct Giving {
    to: Life,
    bytes: Vec<u8>,
    given: usize,
}

struct Server {
    machine: Machine,
    /// It has the registers.
    serves: bool,
    /// It told so.
    has_told: bool,
    giving: Vec<Giving>,
    getting: Vec<u8>,
    counts: Counts,
}

/// Serves until `stop` is asked. `tell` hears what happens meanwhile.
///
/// # Errors
/// The daemon refuses the group, or is gone; `tell` fails.
pub fn serve(
    device: &Device,
    group: &str,
    options: GroupOptions,
    stop: &Stop,
    tell: &mut dyn FnMut(News) -> Result<()>,
) -> Result<Counts> {
    let mut verbs = device.verbs()?;
    let mut requests = device.receive_queue(&format!("{QUEUE_PREFIX}{group}"), REQUESTS_BYTES)?;
    let mut member = device.group(group, options)?;
    let mut server = Server {
        machine: Machine::default(),
        serves: false,
        has_told: false,
        giving: Vec::new(),
        getting: Vec::new(),
        counts: Counts::default(),
    };
    // One request that found no room in the group, or came while the group was waited for.
    let mut waiting: Option<Vec<u8>> = None;
    let mut leaves_until: Option<Instant> = None;
    loop {
        let now = Instant::now();
        if stop.is_asked() && leaves_until.is_none() {
            leaves_until = Some(now + LEAVE_PATIENCE);
            member.leave();
        }
        if leaves_until.is_some_and(|until| now >= until) {
            return Ok(server.counts);
        }
        server.take_requests(&mut requests, &mut member, &mut waiting)?;
        server.give(&mut member);
        drain(&mut verbs)?;
        let is_full = waiting.is_some();
        let gives = !server.giving.is_empty();
        let own = member.life();
        let event = member.next_unless(&mut verbs, Some(now + ASK_EVERY), || {
            if !is_full && waiting.is_none() {
                waiting = server.counts.next_request(&mut requests)?;
            }
            Ok(gives || (!is_full && waiting.is_some()))
        });
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) | Err(Error::Deadline { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let (next, answer) = server.hear(&event, own);
        if let Some((to, bytes)) = answer {
            server.answer(&mut verbs, to, &bytes)?;
        }
        match next {
            Next::Nothing => {}
            Next::Tell(news) => tell(news)?,
            Next::Rejoin(news) => {
                tell(news)?;
                if leaves_until.is_some() {
                    return Ok(server.counts);
                }
                tell(News::Rejoins)?;
                // What it had is of a past that the others went on from.
                server.forget();
                member = member.rejoin()?;
            }
            Next::End => return Ok(server.counts),
        }
        if server.serves && !server.has_told {
            server.has_told = true;
            tell(News::Serving {
                registers: server.machine.len(),
            })?;
        }
    }
}

/// What follows from an event.
enum Next {
    Nothing,
    Tell(News),
    Rejoin(News),
    End,
}

impl Server {
    fn forget(&mut self) {
        self.machine = Machine::default();
        (self.serves, self.has_told) = (false, false);
        self.giving.clear();
        self.getting.clear();
    }

    /// An event, and whom it has answered what.
    fn hear(&mut self, event: &GroupEvent<'_>, own: Life) -> (Next, Option<(ReplyTo, Vec<u8>)>) {
        let next = match *event {
            GroupEvent::Delivered { sender, data, .. } => {
                self.counts.delivered += 1;
                let Ok((to, command)) = wire::read_multicast(data) else {
                    return (Next::Nothing, None);
                };
                let answer = self.machine.apply(&command);
                let answers = sender.life == own;
                let bytes = answers.then(|| (to, wire::answer(&command, &answer)));
                return (Next::Nothing, bytes);
            }
            GroupEvent::View(view) => {
                self.counts.views += 1;
                let votes = view
                    .rank_of(own)
                    .is_some_and(|own| view.voters.contains(own));
                self.serves |= votes;
                Next::Tell(News::View {
                    number: view.number,
                    members: view.members.len(),
                    voters: view.voters.len(),
                })
            }
            GroupEvent::StateWanted { to } => {
                self.giving.retain(|giving| giving.to != to.life);
                self.giving.push(Giving {
                    to: to.life,
                    bytes: self.machine.snapshot(),
                    given: 0,
                });
                Next::Nothing
            }
            GroupEvent::State { data, last, .. } => {
                self.getting.extend_from_slice(data);
                if !last {
                    return (Next::Nothing, None);
                }
                let bytes = std::mem::take(&mut self.getting);
                match Machine::restore(&bytes) {
                    Ok(machine) => self.machine = machine,
                    Err(_) => {
                        return (
                            Next::Rejoin(News::Stopped {
                                why: "the registers that came cannot be read".to_owned(),
                            }),
                            None,
                        );
                    }
                }
                self.serves = true;
                Next::Nothing
            }
            GroupEvent::StateVoid => {
                self.getting.clear();
                Next::Nothing
            }
            GroupEvent::Stopped { why, .. } => {
                let news = News::Stopped { why: reason(&why) };
                match why {
                    Stopped::Minority { .. } => Next::Tell(news),
                    Stopped::Excluded | Stopped::OtherGroup { .. } => Next::Rejoin(news),
                }
            }
            GroupEvent::Left => Next::End,
            GroupEvent::Stable { .. } | GroupEvent::Fate { .. } => Next::Nothing,
        };
        (next, None)
    }

    fn take_requests(
        &mut self,
        requests: &mut ReceiveQueue<'_>,
        member: &mut Group<'_>,
        waiting: &mut Option<Vec<u8>>,
    ) -> Result<()> {
        for _ in 0..REQUESTS_AT_A_TIME {
            let bytes = match waiting.take() {
                Some(bytes) => bytes,
                None => match self.counts.next_request(requests)? {
                    Some(bytes) => bytes,
                    None => return Ok(()),
                },
            };
            match member.multicast(&bytes) {
                Ok(_) => self.counts.requests += 1,
                Err(Error::GroupFull { .. }) => {
                    *waiting = Some(bytes);
                    return Ok(());
                }
                // The client asks another server.
                Err(_) => self.counts.requests_dropped += 1,
            }
        }
        Ok(())
    }

    fn give(&mut self, member: &mut Group<'_>) {
        let given = &mut self.counts.states_given;
        self.giving.retain_mut(|giving| {
            loop {
                let end = giving.bytes.len().min(giving.given + STATE_BYTES_MAX);
                let last = end == giving.bytes.len();
                let piece = &giving.bytes[giving.given..end];
                match member.give_state(giving.to, piece, last) {
                    Ok(()) => giving.given = end,
                    Err(Error::GroupFull { .. }) => return true,
                    // It is wanted anew, or never.
                    Err(_) => return false,
                }
                if last {
                    *given += 1;
                    return false;
                }
            }
        });
    }

    fn answer(&mut self, verbs: &mut Verbs<'_>, to: ReplyTo, bytes: &[u8]) -> Result<()> {
        let queue = RemoteRegion::from_key(Guid::new(to.node), to.rkey, 0, Rights::SEND);
        match verbs.post(&queue, Verb::Send { data: bytes }, Mode::OnePhase, 0) {
            Ok(_) => self.counts.answers += 1,
            // The client asks again.
            Err(Error::QueueFull { .. }) => self.counts.answers_dropped += 1,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Counts {
    /// The next request, as it is multicast.
    fn next_request(
        &mut self,
        requests: &mut ReceiveQueue<'_>,
    ) -> covalent_verbs::Result<Option<Vec<u8>>> {
        while let Some(message) = requests.recv()? {
            match wire::read_request(message.sender.bits(), message.data) {
                Ok((to, command)) => return Ok(Some(wire::multicast(to, &command))),
                Err(_) => self.requests_dropped += 1,
            }
        }
        Ok(None)
    }
}

/// How answers ended does not matter: who got none asks again.
fn drain(verbs: &mut Verbs<'_>) -> Result<()> {
    let mut ends = [(); 16].map(|()| Completion::default());
    while verbs.poll(&mut ends)? == ends.len() {}
    Ok(())
}

fn reason(why: &Stopped) -> String {
    match why {
        Stopped::Minority { reached, voters } => format!(
            "{} of {} voters are reached, and it takes more",
            reached.and(*voters).len(),
            voters.len()
        ),
        Stopped::Excluded => "the others went on without this member".to_owned(),
        Stopped::OtherGroup { .. } => "there is another group of this name".to_owned(),
    }
}
