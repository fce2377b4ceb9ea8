//! The application of a node: a member of the group that multicasts numbered messages and writes down what it is told. It is a process, this
//! test program again, told to run one of its ignored tests.

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

use covalent_sim::group::application::{self, Application};
use covalent_verbs::{
    Device, Error, Group, GroupEvent, GroupOptions, Life, STATE_BYTES_MAX, Stop, Verbs,
};

use super::{
    Running,
    diary::{Counted, Diary, Note, Why, last_life, made},
};
use crate::{nodes::PATIENCE, noise::Noise};

const SOCKET: &str = "COVALENT_TEST_SOCKET";
const DIARY: &str = "COVALENT_TEST_DIARY";
const SEED: &str = "COVALENT_TEST_SEED";

const GROUP: &str = "rack";

/// All: where fewer found, two groups can come to be.
const FOUNDERS: u8 = super::NODES as u8;

const MESSAGE_BYTES: usize = 64;

/// Own messages that were not delivered yet.
const UNDER_WAY: u64 = 8;

/// Milliseconds between two own messages, at most.
const PAUSE_MS: u64 = 20;

/// Bytes that the state has besides what is needed, so that it is given in pieces.
const STATE_MORE_BYTES: usize = 2 * STATE_BYTES_MAX + 100;

/// What the test wants of it: it says so on its standard input, whose end is the last order.
const GOES_ON: u8 = 0;
const SAYS_NO_MORE: u8 = 1;
const STANDS_STILL: u8 = 2;
const ENDS: u8 = 3;

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
    pub fn say_no_more(&mut self) {
        self.order(SAYS_NO_MORE);
    }

    /// It writes down what it counted, and does nothing more: it is neither there nor gone.
    pub fn stand_still(&mut self) {
        self.order(STANDS_STILL);
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
    let orders = Arc::new(AtomicU8::new(GOES_ON));
    let heard = Arc::clone(&orders);
    thread::spawn(move || {
        let mut byte = [0];
        while stdin().read_exact(&mut byte).is_ok() {
            heard.store(byte[0], Ordering::SeqCst);
        }
        heard.store(ENDS, Ordering::SeqCst);
    });
    let mut life = Living {
        former: last_life(&path),
        diary: Diary::open(&path),
        noise: Noise::new(seed.expect("a seed")),
        orders,
    };
    while life.orders.load(Ordering::SeqCst) != ENDS {
        let Some(device) = life.attach(Path::new(&socket)) else {
            return;
        };
        match life.stays(&device) {
            Ok(()) => return,
            Err(Error::DaemonGone { .. }) => life.diary.write(Note::Died),
            Err(error) => panic!("{error}"),
        }
    }
}

/// What outlives a stay.
struct Living {
    diary: Diary,
    former: Option<u64>,
    noise: Noise,
    orders: Arc<AtomicU8>,
}

/// What a stay has.
#[derive(Default)]
struct Stay {
    application: Application,
    asked: u64,
    /// Own messages that were delivered, here or to those who gave the state.
    heard: u64,
    /// It was left out, or met another group.
    is_over: bool,
}

impl Living {
    /// Attaches as soon as there is a daemon. `None` if it is to end before.
    fn attach(&self, socket: &Path) -> Option<Device> {
        while self.orders.load(Ordering::SeqCst) != ENDS {
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

    /// Stays in the group until the test says that it is enough, and joins anew when it was left out.
    fn stays(&mut self, device: &Device) -> Result<(), Error> {
        let mut verbs = device.verbs()?;
        let mut options = GroupOptions::new().founders(FOUNDERS);
        if let Some(former) = self.former {
            options = options.former(Life(former));
        }
        let mut group = join(device, options)?;
        let mut founders = FOUNDERS;
        loop {
            self.began(device, &group, founders);
            let mut stay = Stay::default();
            let is_left_out = self.stay(&mut group, &mut verbs, &mut stay)?;
            self.diary.write(Note::Ended {
                counted: Counted::from(group.counters()),
                made: made(stay.application.digest),
            });
            if !is_left_out {
                while self.orders.load(Ordering::SeqCst) != ENDS {
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
        let former = self.former.replace(group.life().0);
        self.diary.write(Note::Began {
            guid: device.address().bits(),
            life: group.life().0,
            founders,
            former,
        });
    }

    /// One stay. Gives whether it is over because it was left out.
    fn stay(
        &mut self,
        group: &mut Group<'_>,
        verbs: &mut Verbs<'_>,
        stay: &mut Stay,
    ) -> Result<bool, Error> {
        let own = group.life();
        let mut next = Instant::now();
        while !stay.is_over {
            match self.orders.load(Ordering::SeqCst) {
                STANDS_STILL | ENDS => return Ok(false),
                GOES_ON if Instant::now() >= next => {
                    next = Instant::now() + Duration::from_millis(self.noise.below(PAUSE_MS));
                    self.multicast(group, stay);
                }
                _ => {}
            }
            stay.give(group);
            // Woken by the clock, it looks at its orders.
            let until = next.max(Instant::now() + Duration::from_millis(1));
            match group.next_deadline(verbs, until) {
                Ok(event) => self.note(&event, own, stay),
                Err(Error::Deadline { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn multicast(&mut self, group: &mut Group<'_>, stay: &mut Stay) {
        if stay.asked - stay.heard >= UNDER_WAY {
            return;
        }
        // Lives are random, so no two messages have one number.
        let number = group.life().0.wrapping_add(stay.asked + 1);
        let mut bytes = Vec::new();
        application::write(number, MESSAGE_BYTES, &mut bytes);
        match group.multicast(&bytes) {
            Ok(sequence) => {
                stay.asked += 1;
                self.diary.write(Note::Asked {
                    number,
                    sequence,
                    bytes: bytes.len(),
                });
            }
            // It will be told why.
            Err(Error::GroupFull { .. } | Error::GroupStopped { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn note(&mut self, event: &GroupEvent<'_>, own: Life, stay: &mut Stay) {
        let application = &mut stay.application;
        let note = match *event {
            GroupEvent::View(view) => {
                let members = view.members.iter();
                Note::View {
                    group: view.group,
                    number: view.number,
                    members: members
                        .map(|one| (one.guid, one.life.0, one.rkey))
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
                stay.heard += u64::from(sender.life == own);
                Note::Delivered {
                    number,
                    bytes: data.len(),
                    whole,
                    sender: sender.life.0,
                    sequence,
                    view,
                    position,
                }
            }
            GroupEvent::Stable { view, position } => Note::Stable { view, position },
            GroupEvent::StateWanted { to } => {
                application.giving.retain(|(life, _)| *life != to.life);
                let state = application.state(STATE_MORE_BYTES);
                application.giving.push((to.life, state));
                Note::StateWanted {
                    to: to.life.0,
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
                // What is in the state is not delivered here any more.
                stay.heard = stay.heard.max(delivered_to);
                Note::State {
                    last,
                    made: digest.map(made),
                    delivered_to,
                }
            }
            GroupEvent::StateVoid => {
                application.getting.clear();
                Note::StateVoid
            }
            GroupEvent::Stopped { why, undelivered } => {
                stay.is_over = !matches!(why, Stop::Minority { .. });
                Note::Stopped {
                    why: Why::from(why),
                    undelivered,
                }
            }
            GroupEvent::Fate { delivered_to } => Note::Fate { delivered_to },
            GroupEvent::Left => panic!("it did not leave"),
        };
        self.diary.write(note);
    }
}

impl Stay {
    /// Gives what it has to give, as far as there is room.
    fn give(&mut self, group: &mut Group<'_>) {
        self.application.giving.retain_mut(|(to, state)| {
            loop {
                let piece = state.len().min(STATE_BYTES_MAX);
                let last = piece == state.len();
                match group.give_state(*to, &state[..piece], last) {
                    Ok(()) => drop(state.drain(..piece)),
                    Err(Error::GroupFull { .. }) => return true,
                    // It is wanted anew, or never.
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

/// Begins a stay, as soon as the daemon has taken back what a member that was killed had.
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
