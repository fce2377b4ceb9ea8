//! A member, as a process of its own.

use std::{
    collections::hash_map::DefaultHasher,
    hash::Hasher,
    io::{self, BufRead, Write},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use covalent::{Device, Group, GroupEvent, GroupOptions, Incarnation};
use nix::time::{ClockId, clock_gettime};
use serde::{Serialize, de::DeserializeOwned};

use super::task::{Begin, Mode, Reached, Report, Task};

const GROUP: &str = "bench";

/// How long a member that has not received all messages waits for the next event.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a finished member checks whether it may exit.
const RECHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Messages sent between two polls for events.
const MESSAGES_AT_A_TIME: usize = 64;

/// The last word of each sender has this many bytes more than its messages.
const LAST_IS_LONGER_BYTES: usize = 1;

/// Runs one member: reads its task from standard input and writes its results to standard output.
///
/// # Errors
/// The group stopped, a message was lost or changed, or the measurement exited.
pub fn member() -> Result<()> {
    let task: Task = read_message()?;
    let device = Device::attach(&task.socket, "bench-member").context("attaching to covalentd")?;
    let options = GroupOptions::new().members_max(task.members);
    let builder = device
        .group_builder(GROUP, options)
        .context("taking a seat in the group")?;
    print(&Reached::from(builder.contact()))?;
    let begin: Begin = read_message()?;
    let contacts: Vec<_> = begin
        .contacts
        .iter()
        .map(|&contact| contact.into())
        .collect();
    let group = builder.begin(&contacts).context("beginning the group")?;
    let mut member = Member::new(&task, &begin, group);
    member.run()?;
    print(&member.report())?;
    // The other members deliver their last messages only when this one acknowledges them. So keep
    // polling until the measurement ends this member.
    let let_go = thread::spawn(|| io::stdin().lock().read_line(&mut String::new()));
    while !let_go.is_finished() {
        let deadline = Instant::now() + RECHECK_INTERVAL;
        match member.group.next(deadline) {
            Ok(_) | Err(covalent::Error::Deadline { .. }) => {}
            Err(error) => return Err(error).context("staying in the group"),
        }
    }
    Ok(())
}

struct Member<'d> {
    group: Group<'d>,
    sends: bool,
    lone: bool,
    senders: u8,
    window_ns: [u64; 2],
    /// The message that is sent next; its first word is its number.
    message: Vec<u8>,
    sent: u64,
    sent_last: bool,
    delivered: u64,
    counted: u64,
    last_words: u8,
    hasher: DefaultHasher,
    /// When the message in flight was sent.
    in_flight_since_ns: Option<u64>,
    round_trips_ns: Vec<u64>,
}

impl<'d> Member<'d> {
    fn new(task: &Task, begin: &Begin, group: Group<'d>) -> Self {
        Self {
            group,
            sends: task.way == Mode::All || task.member == 0,
            lone: task.way == Mode::Lone,
            senders: if task.way == Mode::All {
                task.members
            } else {
                1
            },
            window_ns: begin.window_ns,
            message: vec![0x5a; task.bytes as usize],
            sent: 0,
            sent_last: false,
            delivered: 0,
            counted: 0,
            last_words: 0,
            hasher: DefaultHasher::new(),
            in_flight_since_ns: None,
            round_trips_ns: Vec::new(),
        }
    }

    /// Until every sender's last word is delivered.
    fn run(&mut self) -> Result<()> {
        let mut now_ns = now_ns()?;
        while self.last_words < self.senders {
            let mut idle = !self.send(now_ns)?;
            for _ in 0..MESSAGES_AT_A_TIME * usize::from(self.senders) {
                if !self.take(now_ns, false)? {
                    break;
                }
                idle = false;
            }
            if idle && self.last_words < self.senders {
                self.take(now_ns, true)?;
            }
            now_ns = self::now_ns()?;
        }
        Ok(())
    }

    /// Whether something was sent.
    fn send(&mut self, now_ns: u64) -> Result<bool> {
        if !self.sends || self.sent_last || (self.lone && self.in_flight_since_ns.is_some()) {
            return Ok(false);
        }
        if now_ns >= self.window_ns[1] {
            let last = vec![0xa5; self.message.len() + LAST_IS_LONGER_BYTES];
            self.sent_last = self.multicast(&last)?;
            return Ok(self.sent_last);
        }
        let at_a_time = if self.lone { 1 } else { MESSAGES_AT_A_TIME };
        let before = self.sent;
        for _ in 0..at_a_time {
            let mut message = std::mem::take(&mut self.message);
            message[..8].copy_from_slice(&(self.sent + 1).to_le_bytes());
            let taken = self.multicast(&message);
            self.message = message;
            if !taken? {
                break;
            }
            self.sent += 1;
            self.in_flight_since_ns = Some(now_ns);
        }
        Ok(self.sent > before)
    }

    /// Returns whether there was space.
    fn multicast(&mut self, message: &[u8]) -> Result<bool> {
        match self.group.multicast(message) {
            Ok(_) => Ok(true),
            Err(covalent::Error::GroupFull { .. }) => Ok(false),
            Err(error) => Err(error).context("multicasting"),
        }
    }

    /// Takes an event, waiting for it if `patient`; whether there was one.
    fn take(&mut self, now_ns: u64, patient: bool) -> Result<bool> {
        let own = self.group.incarnation();
        let event = if patient {
            // For the complaint.
            let slow = self.group.laggard();
            let counters = *self.group.counters();
            let deadline = Instant::now() + PATIENCE;
            let event = self.group.next(deadline);
            Some(event.with_context(|| {
                format!(
                    "{} messages sent, {} delivered, {} last words; {slow:?} holds the group up; \
                     {counters:?}",
                    self.sent, self.delivered, self.last_words
                )
            })?)
        } else {
            self.group.try_next().context("asking the group")?
        };
        match event {
            None => return Ok(false),
            Some(GroupEvent::Delivered {
                sender,
                sequence,
                data,
                ..
            }) => {
                hash_message(&mut self.hasher, sender.incarnation, sequence, data);
                if data.len() > self.message.len() {
                    self.last_words += 1;
                    return Ok(true);
                }
                let number = data.first_chunk().copied().map(u64::from_le_bytes);
                ensure!(
                    number == Some(sequence) && data.len() == self.message.len(),
                    "message {sequence} of {:?} arrived altered",
                    sender.incarnation
                );
                self.delivered += 1;
                let [begin, end] = self.window_ns;
                let counts = (begin..end).contains(&now_ns);
                self.counted += u64::from(counts);
                if sender.incarnation == own && self.lone {
                    let since = self.in_flight_since_ns.take().unwrap_or(now_ns);
                    if counts {
                        self.round_trips_ns
                            .push(self::now_ns()?.saturating_sub(since));
                    }
                }
            }
            Some(GroupEvent::Stopped { why, .. }) => bail!("the group stopped: {why:?}"),
            Some(GroupEvent::Left) => bail!("this member left"),
            Some(_) => {}
        }
        Ok(true)
    }

    fn report(&mut self) -> Report {
        Report {
            counted: self.counted,
            delivered: self.delivered,
            hash: self.hasher.finish(),
            batches: self.group.counters().batches,
            sent: self.sent,
            round_trips_ns: std::mem::take(&mut self.round_trips_ns),
        }
    }
}

/// Hashes what all members must agree on: the order, and the beginning of each message, which holds
/// its number.
fn hash_message(hasher: &mut DefaultHasher, sender: Incarnation, sequence: u64, data: &[u8]) {
    hasher.write_u64(sender.0);
    hasher.write_u64(sequence);
    hasher.write(&data[..8]);
}

/// The machine's monotonic clock, which is the same for all processes.
pub fn now_ns() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).context("asking for the time")?;
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec()).unwrap_or(0);
    Ok(seconds * 1_000_000_000 + rest)
}

fn read_message<T: DeserializeOwned>() -> Result<T> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .context("reading the next task")?;
    serde_json::from_str(&line).context("this is started by `covalent-bench multicast`")
}

fn print(what: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(what).context("writing JSON")?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").context("cannot report")?;
    out.flush().context("cannot report")
}
