//! The application of a node: a group member that multicasts numbered messages and writes its calls
//! and events to a diary. It is a process of this test program that runs one of its ignored tests.

use std::{
    env,
    io::{Read, Write, stdin},
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use covalent::{
    Device, Error, Group, GroupEvent, GroupOptions, Incarnation, STATE_BYTES_MAX, Stop,
};
use covalent_sim::group::application::{self, Application};

use super::{
    Running,
    diary::{Counted, Diary, Record, Why, last_incarnation, made},
};
use crate::{nodes::PATIENCE, noise::Noise};

const SOCKET: &str = "COVALENT_TEST_SOCKET";
const DIARY: &str = "COVALENT_TEST_DIARY";
const SEED: &str = "COVALENT_TEST_SEED";

const GROUP: &str = "rack";

/// All nodes: with fewer founders, two groups can form.
const FOUNDERS: u8 = super::NODES as u8;

const MESSAGE_BYTES: usize = 64;

/// Own messages that were not delivered yet.
const IN_FLIGHT_MAX: u64 = 8;

/// Milliseconds between two own messages, at most.
const PAUSE_MS: u64 = 20;

/// Additional bytes of the state, so that it takes several pieces.
const STATE_MORE_BYTES: usize = 2 * STATE_BYTES_MAX + 100;

/// Orders of the test, which writes them to the member's stdin. End of file is the last order.
const RUN: u8 = 0;
const STOP_SENDING: u8 = 1;
const STALL: u8 = 2;
const EXIT: u8 = 3;

/// A member, killed when this goes.
pub struct Member {
    orders: Option<ChildStdin>,
    process: Running,
}

impl Member {
    pub fn start(socket: &Path, diary: &Path, seed: u64) -> Self {
        let mut child = Command::new(env::current_exe().expect("this test"))
            .args(["--exact", "rack::member::is_a_member"])
            .args(["--ignored", "--nocapture", "--test-threads=1"])
            .env(SOCKET, socket)
            .env(DIARY, diary)
            .env(SEED, seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this test runs");
        Self {
            orders: child.stdin.take(),
            process: Running(child),
        }
    }

    /// Kills it, before it can take the end of its orders for the last of them.
    pub fn kill(self) {
        let Self { orders, process } = self;
        drop(process);
        drop(orders);
    }

    /// It multicasts nothing more.
    pub fn stop_sending(&mut self) {
        self.order(STOP_SENDING);
    }

    /// The member writes its counters and does nothing more: it is neither active nor gone.
    pub fn stall(&mut self) {
        self.order(STALL);
    }

    fn order(&mut self, order: u8) {
        let orders = self.orders.as_mut().expect("it did not end");
        orders.write_all(&[order]).expect("it lives");
    }

    /// It ends.
    pub fn end(mut self) {
        drop(self.orders.take());
        let status = self.process.0.wait().expect("a child");
        assert!(status.success(), "a member failed: {status}");
    }
}

#[test]
#[ignore = "a process of `rack::groups`"]
fn is_a_member() {
    let (Some(socket), Some(path)) = (env::var_os(SOCKET), env::var_os(DIARY)) else {
        return;
    };
    let path = PathBuf::from(path);
    let seed = env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let orders = Arc::new(AtomicU8::new(RUN));
    let received = Arc::clone(&orders);
    thread::spawn(move || {
        let mut byte = [0];
        while stdin().read_exact(&mut byte).is_ok() {
            received.store(byte[0], Ordering::SeqCst);
        }
        received.store(EXIT, Ordering::SeqCst);
    });
    let mut incarnation = Living {
        former: last_incarnation(&path),
        diary: Diary::open(&path),
        noise: Noise::new(seed.expect("a seed")),
        orders,
    };
    while incarnation.orders.load(Ordering::SeqCst) != EXIT {
        let Some(device) = incarnation.attach(Path::new(&socket)) else {
            return;
        };
        match incarnation.run_memberships(&device) {
            Ok(()) => return,
            Err(Error::DaemonGone { .. }) => incarnation.diary.write(Record::Died),
            Err(error) => panic!("{error}"),
        }
    }
}

/// State that outlives an incarnation.
struct Living {
    diary: Diary,
    former: Option<u64>,
    noise: Noise,
    orders: Arc<AtomicU8>,
}

/// State of one incarnation.
#[derive(Default)]
struct Membership {
    application: Application,
    sent: u64,
    /// Own messages that were delivered, here or to the members that gave the state.
    received: u64,
    /// It was left out, or met another group.
    is_over: bool,
}

impl Living {
    /// Attaches as soon as there is a daemon. `None` if it is to end before.
    fn attach(&self, socket: &Path) -> Option<Device> {
        while self.orders.load(Ordering::SeqCst) != EXIT {
            match Device::attach(socket, "member") {
                Ok(device) => return Some(device),
                Err(Error::Unreachable { .. } | Error::DaemonGone { .. }) => {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{error}"),
            }
        }
        None
    }

    /// Stays in the group until the test ends it, and rejoins after an exclusion.
    fn run_memberships(&mut self, device: &Device) -> Result<(), Error> {
        let mut options = GroupOptions::new().founders(FOUNDERS);
        if let Some(former) = self.former {
            options = options.former(Incarnation(former));
        }
        let mut group = join(device, options)?;
        let mut founders = FOUNDERS;
        loop {
            self.began(device, &group, founders);
            let mut membership = Membership::default();
            let is_left_out = self.membership(&mut group, &mut membership)?;
            self.diary.write(Record::Ended {
                counted: Counted::from(group.counters()),
                made: made(membership.application.digest),
            });
            if !is_left_out {
                while self.orders.load(Ordering::SeqCst) != EXIT {
                    thread::sleep(Duration::from_millis(1));
                }
                return Ok(());
            }
            if group.view().is_some() {
                founders = 0;
            }
            group = group.rejoin()?;
        }
    }

    fn began(&mut self, device: &Device, group: &Group<'_>, founders: u8) {
        let former = self.former.replace(group.incarnation().0);
        self.diary.write(Record::Began {
            guid: device.address().bits(),
            incarnation: group.incarnation().0,
            founders,
            former,
        });
    }

    /// Runs one incarnation. Returns whether it ended by exclusion.
    fn membership(
        &mut self,
        group: &mut Group<'_>,
        membership: &mut Membership,
    ) -> Result<bool, Error> {
        let own = group.incarnation();
        let mut next = Instant::now();
        while !membership.is_over {
            match self.orders.load(Ordering::SeqCst) {
                STALL | EXIT => return Ok(false),
                RUN if Instant::now() >= next => {
                    next = Instant::now() + Duration::from_millis(self.noise.below(PAUSE_MS));
                    self.multicast(group, membership);
                }
                _ => {}
            }
            membership.give(group);
            // Woken by the clock, it looks at its orders.
            let until = next.max(Instant::now() + Duration::from_millis(1));
            match group.next(until) {
                Ok(event) => self.record(&event, own, membership),
                Err(Error::Deadline { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn multicast(&mut self, group: &mut Group<'_>, membership: &mut Membership) {
        if membership.sent - membership.received >= IN_FLIGHT_MAX {
            return;
        }
        // Incarnations are random, so no two messages have the same number.
        let number = group.incarnation().0.wrapping_add(membership.sent + 1);
        let mut bytes = Vec::new();
        application::write(number, MESSAGE_BYTES, &mut bytes);
        match group.multicast(&bytes) {
            Ok(sequence) => {
                membership.sent += 1;
                self.diary.write(Record::Requested {
                    number,
                    sequence,
                    bytes: bytes.len(),
                });
            }
            // The group reports the reason later.
            Err(Error::GroupFull { .. } | Error::GroupStopped { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn record(&mut self, event: &GroupEvent<'_>, own: Incarnation, membership: &mut Membership) {
        let application = &mut membership.application;
        let record = match *event {
            GroupEvent::View(view) => {
                let members = view.members.iter();
                Record::View {
                    group: view.group,
                    number: view.number,
                    members: members
                        .map(|one| (one.guid, one.incarnation.0, one.rkey))
                        .collect(),
                    voters: view.voters.bits(),
                }
            }
            GroupEvent::Delivered {
                sender,
                sequence,
                view,
                position,
                data,
            } => {
                let (number, whole) = application::read(data);
                application.digest.take(number);
                membership.received += u64::from(sender.incarnation == own);
                Record::Delivered {
                    number,
                    bytes: data.len(),
                    whole,
                    sender: sender.incarnation.0,
                    sequence,
                    view,
                    position,
                }
            }
            GroupEvent::Stable { view, position } => Record::Stable { view, position },
            GroupEvent::StateWanted { to } => {
                application
                    .giving
                    .retain(|(incarnation, _)| *incarnation != to.incarnation);
                let state = application.state(STATE_MORE_BYTES);
                application.giving.push((to.incarnation, state));
                Record::StateWanted {
                    to: to.incarnation.0,
                    made: made(application.digest),
                }
            }
            GroupEvent::State {
                data,
                last,
                delivered_to,
            } => {
                application.getting.extend_from_slice(data);
                let digest = last.then(|| application.take_over()).flatten();
                // Messages in the state are not delivered here again.
                membership.received = membership.received.max(delivered_to);
                Record::State {
                    last,
                    made: digest.map(made),
                    delivered_to,
                }
            }
            GroupEvent::StateVoid => {
                application.getting.clear();
                Record::StateVoid
            }
            GroupEvent::Stopped { why, undelivered } => {
                membership.is_over = !matches!(why, Stop::Minority { .. });
                Record::Stopped {
                    why: Why::from(why),
                    undelivered,
                }
            }
            GroupEvent::Outcome { delivered_to } => Record::Outcome { delivered_to },
            GroupEvent::Left => panic!("it did not leave"),
        };
        self.diary.write(record);
    }
}

impl Membership {
    /// Gives the pending states, as far as there is space.
    fn give(&mut self, group: &mut Group<'_>) {
        self.application.giving.retain_mut(|(to, state)| {
            loop {
                let piece = state.len().min(STATE_BYTES_MAX);
                let last = piece == state.len();
                match group.send_snapshot(*to, &state[..piece], last) {
                    Ok(()) => drop(state.drain(..piece)),
                    Err(Error::GroupFull { .. }) => return true,
                    // The joining member requests the state again, or never.
                    Err(Error::StateUnwanted { .. }) => return false,
                    Err(error) => panic!("{error}"),
                }
                if last {
                    return false;
                }
            }
        });
    }
}

impl From<Stop> for Why {
    fn from(why: Stop) -> Self {
        match why {
            Stop::Minority { reached, voters } => Self::Minority {
                reached: reached.bits(),
                voters: voters.bits(),
            },
            Stop::Excluded => Self::Excluded,
            Stop::OtherGroup { group, members } => Self::OtherGroup { group, members },
        }
    }
}

/// Begins an incarnation, as soon as the daemon has released the resources of a killed member.
fn join(device: &Device, options: GroupOptions) -> Result<Group<'_>, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match device.group(GROUP, options) {
            Err(Error::Refused { .. }) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            joined => return joined,
        }
    }
}
