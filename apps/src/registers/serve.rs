//! A server: a member of the group, and a queue for requests.

use std::time::{Duration, Instant};

use anyhow::Result;
use covalent::{
    Completion, Device, Error, Group, GroupEvent, GroupOptions, Guid, Incarnation, Mode,
    ReceiveQueue, RemoteRegion, Rights, STATE_BYTES_MAX, Stop as Stopped, Verb, Verbs,
};
use serde::Serialize;

use super::{
    QUEUE_PREFIX,
    machine::Machine,
    wire::{self, ReplyTo},
};
use crate::stop::{POLL_INTERVAL, Stop};

/// Size of the request queue in bytes.
const REQUESTS_BYTES: u64 = 1 << 20;

/// Requests taken in a row before anything else is looked at.
const REQUESTS_AT_A_TIME: usize = 64;

/// How long a server that shuts down waits until the other members have released it.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);

/// Events that a running server reports.
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

/// Counters of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests multicast.
    pub requests: u64,
    /// Messages that were no request, or that came when nothing could be multicast.
    pub requests_dropped: u64,
    /// Commands delivered.
    pub delivered: u64,
    /// Clients answered.
    pub answers: u64,
    /// Replies dropped because the queue was full.
    pub answers_dropped: u64,
    /// Times that it gave its registers to a joining member.
    pub states_given: u64,
    /// Views.
    pub views: u64,
}

/// A state that is being given.
struct OutgoingSnapshot {
    to: Incarnation,
    bytes: Vec<u8>,
    sent: usize,
}

struct Server {
    machine: Machine,
    /// It has the registers.
    serves: bool,
    /// It has reported that it serves.
    has_reported: bool,
    outgoing: Vec<OutgoingSnapshot>,
    incoming: Vec<u8>,
    counts: Counts,
}

/// Serves until `stop` is requested. Passes each event to `report`.
///
/// # Errors
/// The daemon refuses the group or is gone, or `report` fails.
pub fn serve(
    device: &Device,
    group: &str,
    options: GroupOptions,
    stop: &Stop,
    report: &mut dyn FnMut(News) -> Result<()>,
) -> Result<Counts> {
    let mut verbs = device.verbs()?;
    let mut requests = device.receive_queue(&format!("{QUEUE_PREFIX}{group}"), REQUESTS_BYTES)?;
    let mut member = device.group(group, options)?;
    let mut server = Server {
        machine: Machine::default(),
        serves: false,
        has_reported: false,
        outgoing: Vec::new(),
        incoming: Vec::new(),
        counts: Counts::default(),
    };
    // A request for which the group had no space, or that came while the server waited for the
    // group.
    let mut waiting: Option<Vec<u8>> = None;
    let mut leaves_until: Option<Instant> = None;
    loop {
        let now = Instant::now();
        if stop.is_requested() && leaves_until.is_none() {
            leaves_until = Some(now + LEAVE_PATIENCE);
            member.leave();
        }
        if leaves_until.is_some_and(|until| now >= until) {
            return Ok(server.counts);
        }
        server.take_requests(&mut requests, &mut member, &mut waiting)?;
        server.send_snapshots(&mut member);
        drain(&mut verbs)?;
        let is_full = waiting.is_some();
        let has_outgoing = !server.outgoing.is_empty();
        let own = member.incarnation();
        let event = member.next_unless(now + POLL_INTERVAL, || {
            if !is_full && waiting.is_none() {
                waiting = server.counts.next_request(&mut requests)?;
            }
            Ok(has_outgoing || (!is_full && waiting.is_some()))
        });
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) | Err(Error::Deadline { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let (next, answer) = server.on_event(&event, own);
        if let Some((to, bytes)) = answer {
            server.answer(&mut verbs, to, &bytes)?;
        }
        match next {
            Next::Nothing => {}
            Next::Report(news) => report(news)?,
            Next::Rejoin(news) => {
                report(news)?;
                if leaves_until.is_some() {
                    return Ok(server.counts);
                }
                report(News::Rejoins)?;
                // The other members continued without this server, so its registers are obsolete.
                server.forget();
                member = member.rejoin()?;
            }
            Next::End => return Ok(server.counts),
        }
        if server.serves && !server.has_reported {
            server.has_reported = true;
            report(News::Serving {
                registers: server.machine.len(),
            })?;
        }
    }
}

/// The consequence of an event.
enum Next {
    Nothing,
    Report(News),
    Rejoin(News),
    End,
}

impl Server {
    fn forget(&mut self) {
        self.machine = Machine::default();
        (self.serves, self.has_reported) = (false, false);
        self.outgoing.clear();
        self.incoming.clear();
    }

    /// Processes an event. Returns the consequence, and a reply with its destination.
    fn on_event(
        &mut self,
        event: &GroupEvent<'_>,
        own: Incarnation,
    ) -> (Next, Option<(ReplyTo, Vec<u8>)>) {
        let next = match *event {
            GroupEvent::Delivered { sender, data, .. } => {
                self.counts.delivered += 1;
                let Ok((to, command)) = wire::read_multicast(data) else {
                    return (Next::Nothing, None);
                };
                let answer = self.machine.apply(&command);
                let answers = sender.incarnation == own;
                let bytes = answers.then(|| (to, wire::answer(&command, &answer)));
                return (Next::Nothing, bytes);
            }
            GroupEvent::View(view) => {
                self.counts.views += 1;
                let votes = view
                    .rank_of(own)
                    .is_some_and(|own| view.voters.contains(own));
                self.serves |= votes;
                Next::Report(News::View {
                    number: view.number,
                    members: view.members.len(),
                    voters: view.voters.len(),
                })
            }
            GroupEvent::StateWanted { to } => {
                self.outgoing
                    .retain(|outgoing| outgoing.to != to.incarnation);
                self.outgoing.push(OutgoingSnapshot {
                    to: to.incarnation,
                    bytes: self.machine.snapshot(),
                    sent: 0,
                });
                Next::Nothing
            }
            GroupEvent::State { data, last, .. } => {
                self.incoming.extend_from_slice(data);
                if !last {
                    return (Next::Nothing, None);
                }
                let bytes = std::mem::take(&mut self.incoming);
                match Machine::restore(&bytes) {
                    Ok(machine) => self.machine = machine,
                    Err(_) => {
                        return (
                            Next::Rejoin(News::Stopped {
                                why: "the received registers cannot be decoded".to_owned(),
                            }),
                            None,
                        );
                    }
                }
                self.serves = true;
                Next::Nothing
            }
            GroupEvent::StateVoid => {
                self.incoming.clear();
                Next::Nothing
            }
            GroupEvent::Stopped { why, .. } => {
                let news = News::Stopped { why: reason(&why) };
                match why {
                    Stopped::Minority { .. } => Next::Report(news),
                    _ => Next::Rejoin(news),
                }
            }
            GroupEvent::Left => Next::End,
            _ => Next::Nothing,
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
                // The client tries another server.
                Err(_) => self.counts.requests_dropped += 1,
            }
        }
        Ok(())
    }

    fn send_snapshots(&mut self, member: &mut Group<'_>) {
        let sent = &mut self.counts.states_given;
        self.outgoing.retain_mut(|outgoing| {
            loop {
                let end = outgoing.bytes.len().min(outgoing.sent + STATE_BYTES_MAX);
                let last = end == outgoing.bytes.len();
                let piece = &outgoing.bytes[outgoing.sent..end];
                match member.send_snapshot(outgoing.to, piece, last) {
                    Ok(()) => outgoing.sent = end,
                    Err(Error::GroupFull { .. }) => return true,
                    // The joining member requests the state again, or never.
                    Err(_) => return false,
                }
                if last {
                    *sent += 1;
                    return false;
                }
            }
        });
    }

    fn answer(&mut self, verbs: &mut Verbs<'_>, to: ReplyTo, bytes: &[u8]) -> Result<()> {
        let queue = RemoteRegion::from_key(Guid::new(to.node), to.rkey, 0, Rights::SEND);
        match verbs.post(&queue, Verb::Send { data: bytes }, Mode::OnePhase, 0) {
            Ok(_) => self.counts.answers += 1,
            // The client sends the request again.
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
    ) -> covalent::Result<Option<Vec<u8>>> {
        while let Some(message) = requests.try_recv()? {
            match wire::read_request(message.sender.bits(), message.data) {
                Ok((to, command)) => return Ok(Some(wire::multicast(to, &command))),
                Err(_) => self.requests_dropped += 1,
            }
        }
        Ok(None)
    }
}

/// Drains the completions of replies. Their outcome does not matter: a client without a reply sends
/// again.
fn drain(verbs: &mut Verbs<'_>) -> Result<()> {
    let mut completions = [(); 16].map(|()| Completion::default());
    while verbs.try_poll(&mut completions)? == completions.len() {}
    Ok(())
}

fn reason(why: &Stopped) -> String {
    match why {
        Stopped::Minority { reached, voters } => format!(
            "{} of {} voters are reached, and it takes more",
            reached.and(*voters).len(),
            voters.len()
        ),
        Stopped::OtherGroup { .. } => "there is another group of this name".to_owned(),
        _ => "the others went on without this member".to_owned(),
    }
}
