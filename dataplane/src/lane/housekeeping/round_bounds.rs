//! Checks the work of one round for any command: changes of rules on ports, and bytes copied of
//! registered memory.
//!
//! The test gives each kind of command to a lane in its hardest form, beside the leftovers of other
//! commands. It measures every round until the answer. A new kind needs limits in [`limits`], which
//! does not compile without them. The test requires each kind with limits.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    mem::{Discriminant, discriminant},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use covalent_api::{
    request::{PipeKind, Rights},
    rule::{Action, Match, Rule},
    tap::TapFrames,
    tuning::PipeTuning,
};
use covalent_config::{Config, FaultRates};
use covalent_ipc::event::EventFd;
use covalent_pipe::{
    Direction, PagePolicy, PipeMemory, PipeSpec,
    app::TxPipe,
    nic::NicPipe,
    region::RegionMemory,
    session::{NicSession, SessionMemory},
};
use tempfile::TempDir;

use super::super::{
    Lane,
    command::{Answer, Command, NewPipe, NewRegion, NewSession, Order, Report},
    copying::COPY_BYTES_PER_ROUND,
    new_port::NewPort,
    played_port::{Part, PlayedPort},
    policy::Policy,
    reconfigure::{LaneTuning, LaneWant},
};
use crate::{
    identity::Identity,
    journal::{Journal, JournalOptions},
    mailbox::Mailbox,
    port::{PortError, PortInfo, SteerChange},
};

const PORTS: usize = 2;
const PIPE_BYTES: u64 = 1 << 16;
/// A region that takes many rounds.
const REGION_BYTES: u64 = 1 << 20;
/// Bindings of one pipe, and rules of a configuration: many rounds too.
const RULES: u16 = 200;
/// How long a command may take: some wait for the disk, which counts no rounds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most that one round may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// Changes of rules, on all ports together.
    changes: usize,
    /// Bytes copied.
    bytes: usize,
}

const NOTHING: Limits = Limits {
    changes: 0,
    bytes: 0,
};
const ONE_RULE: Limits = Limits {
    changes: PORTS,
    bytes: 0,
};
/// Steps of 64, the last of which may be one on all ports.
const STEPS: Limits = Limits {
    changes: 64 + PORTS,
    bytes: 0,
};

/// A new kind of command gets its limits here, and its hardest form in the test below.
const fn limits(command: &Command) -> Limits {
    match command {
        Command::Attach(_)
        | Command::OpenPipe(_)
        | Command::TunePipe { .. }
        | Command::Tap { .. }
        | Command::Withdraw { .. }
        | Command::DeleteRegion { .. }
        | Command::EndJournal { .. }
        | Command::SetPort { .. }
        | Command::SetFaults { .. }
        | Command::SetCarrier { .. }
        | Command::LosePort { .. }
        | Command::Check(_)
        | Command::DetachPorts { .. }
        | Command::Commit
        | Command::Snapshot
        | Command::SnapshotPipes { .. }
        | Command::Leave
        | Command::Stop => NOTHING,
        Command::Bind { .. } | Command::Unbind { .. } => ONE_RULE,
        Command::ClosePipe { .. } | Command::Prepare(..) | Command::RollBack => STEPS,
        Command::Register(_) => Limits {
            changes: 0,
            bytes: COPY_BYTES_PER_ROUND,
        },
        Command::Detach { .. } => Limits {
            changes: STEPS.changes,
            bytes: COPY_BYTES_PER_ROUND,
        },
    }
}

/// How many kinds [`limits`] knows.
const KINDS: usize = 25;

/// Counts the rule changes of its port.
struct Counting(Arc<AtomicUsize>);

impl Part for Counting {
    fn steer(&mut self, _: &PortInfo, _: &SteerChange) -> Result<(), PortError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The result of a command.
struct Outcome {
    result: Result<Answer, String>,
    rounds: usize,
    /// Bytes that were handed out to be freed elsewhere, beside the answer.
    let_go_bytes: u64,
}

struct Stage {
    lane: Lane,
    orders: Arc<Mailbox<Order>>,
    reports: Arc<Mailbox<Report>>,
    changes: Arc<AtomicUsize>,
    config: Config,
    /// The application's view of a region: as many bytes of it must not change in one round.
    watched: Option<RegionMemory>,
    met: Vec<Discriminant<Command>>,
    /// The ends of applications that are woken.
    applications: Vec<EventFd>,
    _dir: TempDir,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = "[node]\nname = \"a\"\n[dataplane]\nidle = \"poll\"\n\
             [[port]]\nname = \"p\"\nkind = \"pcap\"\n[[port]]\nname = \"q\"\nkind = \"pcap\"\n";
        let config = Config::parse(text, "test").unwrap();
        let changes = Arc::default();
        let options = JournalOptions {
            file_bytes: 16 << 20,
            ..JournalOptions::new(dir.path().join("journal"))
        };
        let identity = Identity::take(dir.path()).unwrap();
        let ports = (0..PORTS).map(|at| port(&config, at, &changes)).collect();
        let orders = Arc::new(Mailbox::new(8).unwrap());
        let reports = Arc::new(Mailbox::new(64).unwrap());
        let ends = (Arc::clone(&orders), Arc::clone(&reports));
        let journal = Some(Journal::open(&options).unwrap());
        let lane = Lane::new(&config, 0, &identity, ports, journal, ends).unwrap();
        Self {
            lane,
            orders,
            reports,
            changes,
            config,
            watched: None,
            met: Vec::new(),
            applications: Vec::new(),
            _dir: dir,
        }
    }

    /// Words of the watched region that are not zero.
    fn filled_bytes(&self) -> usize {
        let words = |memory: &RegionMemory| {
            let offsets = (0..memory.size_bytes()).step_by(8);
            8 * offsets.filter(|&at| memory.load(at) != Some(0)).count()
        };
        self.watched.as_ref().map_or(0, words)
    }

    /// Has the lane do it, and looks at each round.
    fn run(&mut self, command: Command) -> Outcome {
        let limits = limits(&command);
        let command_name = format!("{command:?}");
        let command_name = command_name
            .split(['(', ' '])
            .next()
            .unwrap_or_default()
            .to_owned();
        self.met.push(discriminant(&command));
        assert!(self.orders.push(Order { ticket: 7, command }).is_ok());
        let mut let_go_bytes = 0;
        let began = Instant::now();
        let mut round = 0;
        loop {
            round += 1;
            assert!(began.elapsed() < PATIENCE, "{command_name} is not answered");
            let filled = self.filled_bytes();
            let copied = self.lane.journal.copied_bytes;
            self.changes.store(0, Ordering::Relaxed);
            self.lane.round();
            let changes = self.changes.load(Ordering::Relaxed);
            let copied = (self.lane.journal.copied_bytes - copied) as usize;
            let filled = self.filled_bytes().abs_diff(filled);
            assert!(
                changes <= limits.changes && copied <= limits.bytes && filled <= limits.bytes,
                "{command_name}: {changes} changes of rules, {copied} bytes copied and {filled} \
                 written in one round, of {limits:?}"
            );
            let mut answer = None;
            while let Some(report) = self.reports.pop() {
                match report {
                    Report::Answer { ticket: 7, result } => answer = Some(result),
                    Report::LetGo { bytes, .. } => let_go_bytes += bytes,
                    _ => {}
                }
            }
            if let Some(result) = answer {
                return Outcome {
                    result,
                    rounds: round,
                    let_go_bytes,
                };
            }
        }
    }

    fn done(&mut self, command: Command) -> Outcome {
        let outcome = self.run(command);
        assert!(outcome.result.is_ok(), "{:?}", outcome.result);
        outcome
    }

    fn attach(&mut self, session: u64) {
        self.attach_with(session, 8);
    }

    fn attach_with(&mut self, session: u64, slots: u32) {
        let (to_application, application) = EventFd::one_way().unwrap();
        self.applications.push(application);
        self.done(Command::Attach(Box::new(NewSession {
            session,
            uid: 0,
            program: "".into(),
            commands: true,
            rings: NicSession::new(SessionMemory::create(slots).unwrap()),
            to_application,
            to_lane: EventFd::new().unwrap(),
        })));
    }

    fn pipe(session: u64, pipe: u32, port: Option<u16>) -> Command {
        Command::OpenPipe(Box::new(NewPipe {
            session,
            pipe,
            kind: PipeKind::Rx,
            port,
            partner: None,
            capacity_bytes: PIPE_BYTES,
            page_bytes: 4096,
            nic: NicPipe::new(memory(Direction::Rx)),
        }))
    }

    /// Opens a verb queue: the pipe `pipe` for completions and the next one for verbs. Returns the
    /// application's end of the latter.
    fn open_queue(&mut self, session: u64, pipe: u32) -> TxPipe {
        let open = |pipe, kind, partner, memory| {
            Command::OpenPipe(Box::new(NewPipe {
                session,
                pipe,
                kind,
                port: None,
                partner,
                capacity_bytes: PIPE_BYTES,
                page_bytes: 4096,
                nic: NicPipe::new(memory),
            }))
        };
        let completions = memory(Direction::Rx);
        self.done(open(pipe, PipeKind::VerbComplete, None, completions));
        let submissions = memory(Direction::Tx);
        let fds = submissions.fds().map(|fd| fd.try_clone_to_owned().unwrap());
        let application = PipeMemory::open(fds, Direction::Tx, PIPE_BYTES).unwrap();
        let submit = open(pipe + 1, PipeKind::VerbSubmit, Some(pipe), submissions);
        self.done(submit);
        TxPipe::new(application).unwrap()
    }

    fn bind_all(&mut self, pipe: u32) {
        for ethertype in 0x2000..0x2000 + RULES {
            self.done(Command::Bind {
                session: 1,
                pipe,
                matches: Match::EtherType { ethertype },
                spread: None,
            });
        }
    }

    /// Registers a durable region under this name, which is watched meanwhile.
    fn register(&mut self, session: u64, rkey: u32, durable: bool) -> Outcome {
        let (memory, fd) = RegionMemory::create(REGION_BYTES).unwrap();
        self.watched = Some(RegionMemory::open(fd, REGION_BYTES).unwrap());
        self.run(Command::Register(Box::new(NewRegion {
            session,
            name: if durable { "bank" } else { "plain" }.into(),
            rkey,
            rights: Rights::ALL,
            durable,
            memory,
        })))
    }

    fn want(&self, epoch: u64, wanted: &Config) -> Arc<LaneWant> {
        let policy = Arc::new(Policy::new(wanted));
        Arc::new(LaneWant {
            epoch,
            tuning: LaneTuning::new(wanted, 0),
            changed: Policy::new(&self.config).differing(&policy),
            policy,
            faults: Vec::new(),
            removed: Vec::new(),
        })
    }
}

fn memory(direction: Direction) -> PipeMemory {
    let spec = PipeSpec {
        direction,
        capacity_bytes: PIPE_BYTES,
        pages: PagePolicy::Never,
    };
    PipeMemory::create(&spec).unwrap()
}

fn port(config: &Config, at: usize, changes: &Arc<AtomicUsize>) -> NewPort {
    let counting = PlayedPort::new(&config.port[at].name, Counting(Arc::clone(changes)));
    NewPort::new(at as u16, &config.port[at], counting)
}

#[test]
fn no_command_holds_a_lane_longer_than_a_bounded_part_of_it_takes() {
    let mut stage = Stage::new();
    stage.attach(1);
    stage.done(Stage::pipe(1, 0, None));
    stage.done(Stage::pipe(1, 1, Some(0)));
    stage.bind_all(0);
    stage.done(Command::Unbind {
        session: 1,
        pipe: 0,
        matches: Match::EtherType { ethertype: 0x2000 },
    });
    stage.done(Command::TunePipe {
        session: 1,
        pipe: 1,
        tuning: PipeTuning::default(),
    });
    stage.done(Command::Tap {
        session: 1,
        pipe: 1,
        frames: TapFrames::All,
        snap_bytes: 64,
    });
    let closed = stage.done(Command::ClosePipe {
        session: 1,
        pipe: 0,
    });
    assert!(closed.rounds > usize::from(RULES) / 64);
    stage.done(Stage::pipe(1, 0, None));
    stage.bind_all(0);
    durable_regions(&mut stage);
    configurations(&mut stage);
    stage.done(Command::Snapshot);
    stage.done(Command::SnapshotPipes { from: 0 });
    stage.done(Command::SetPort {
        port: 0,
        enabled: false,
    });
    let (rx, tx) = (FaultRates::default(), FaultRates::default());
    // The port supports no fault injection and returns an error.
    let _ = stage.run(Command::SetFaults { port: 0, rx, tx }).result;
    stage.done(Command::SetCarrier { port: 0, up: true });
    stage.done(Command::LosePort {
        port: 1,
        reason: "it was taken out".into(),
    });
    stage.done(Command::EndJournal {
        path: "/none".into(),
        what: "was removed".into(),
    });
    stage.done(Command::Leave);
    stage.done(Command::Stop);
    let met: Vec<_> = stage.met;
    let mut kinds = Vec::new();
    for kind in met {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    assert_eq!(kinds.len(), KINDS, "each kind of command is in this test");
}

/// A region is kept when its owner detaches and returns with it. Another thread frees unused
/// memory.
fn durable_regions(stage: &mut Stage) {
    let many_rounds = REGION_BYTES as usize / COPY_BYTES_PER_ROUND;
    assert!(stage.register(1, 5, true).result.is_ok());
    let memory = stage.watched.take().unwrap();
    for at in (0..REGION_BYTES).step_by(8) {
        memory.store(at, at + 1).unwrap();
    }
    let gone = stage.done(Command::Detach { session: 1 });
    assert!(gone.rounds >= many_rounds, "{}", gone.rounds);
    let Ok(Answer::Released(released)) = gone.result else {
        panic!("{:?}", gone.result)
    };
    assert_eq!(released.regions.len(), 1, "to be unmapped elsewhere");
    stage.attach(2);
    let back = stage.register(2, 6, true);
    assert!(back.result.is_ok() && back.rounds >= many_rounds);
    let words: BTreeSet<_> = (0..REGION_BYTES)
        .step_by(8)
        .filter(|&at| stage.watched.as_ref().unwrap().load(at) != Some(at + 1))
        .collect();
    assert_eq!(words, BTreeSet::new(), "words that were not restored");
    stage.lane.round();
    let let_go = std::iter::from_fn(|| stage.reports.pop())
        .map(|report| match report {
            Report::LetGo { bytes, .. } => bytes,
            _ => 0,
        })
        .sum::<u64>();
    assert_eq!(
        back.let_go_bytes + let_go,
        REGION_BYTES,
        "the bytes that were kept"
    );
    // A refused region is not unmapped on the lane either.
    let refused = stage.register(99, 7, false);
    assert!(refused.result.is_err());
    assert_eq!(refused.let_go_bytes, REGION_BYTES);
    assert!(stage.register(2, 8, false).result.is_ok());
    let withdrawn = stage.done(Command::Withdraw {
        session: 2,
        rkey: 8,
    });
    assert!(matches!(withdrawn.result, Ok(Answer::Released(_))));
    stage.watched = None;
    // A region that is deleted while it is being kept.
    let name = "bank".to_owned();
    stage.done(Command::Detach { session: 2 });
    stage.done(Command::DeleteRegion { name });
    assert!(stage.lane.journal.copying.is_idle());
}

/// Rules, and ports in others' places.
fn configurations(stage: &mut Stage) {
    let rule = |ethertype| Rule {
        matches: Match::EtherType { ethertype },
        action: Action::Drop,
    };
    let mut wanted = stage.config.clone();
    wanted.steer = (0x3000..0x3000 + RULES).map(rule).collect();
    let want = stage.want(1, &wanted);
    stage.done(Command::Check(Arc::clone(&want)));
    let prepared = stage.done(Command::Prepare(want, Vec::new()));
    assert!(prepared.rounds > PORTS * usize::from(RULES) / 64);
    stage.done(Command::RollBack);
    let want = stage.want(1, &wanted);
    stage.done(Command::Prepare(want, Vec::new()));
    stage.done(Command::Commit);
    stage.config = wanted;
    let want = stage.want(2, &stage.config.clone());
    stage.done(Command::DetachPorts { ports: vec![0] });
    let reopened = port(&stage.config, 0, &stage.changes);
    let back = stage.done(Command::Prepare(want, vec![reopened]));
    stage.done(Command::Commit);
    assert!(back.rounds > usize::from(RULES) / 64, "{}", back.rounds);
}

/// An application gets no more of a round with many queues than with one.
#[test]
fn the_queues_of_a_session_share_the_quota_of_one() {
    const QUEUES: u32 = 16;
    const VERBS: u64 = 64;
    let mut stage = Stage::new();
    stage.attach_with(1, (2 * QUEUES + 1).next_power_of_two());
    let mut queues: Vec<_> = (0..QUEUES)
        .map(|queue| stage.open_queue(1, 2 * queue))
        .collect();
    for queue in &mut queues {
        for _ in 0..VERBS {
            // Too short for a verb, and so its end is certain.
            queue.send(&[1; 20]).unwrap();
        }
        queue.publish();
    }
    for queue in 0..QUEUES {
        let slot = stage.lane.pipes.pipe_slot(1, 2 * queue + 1).unwrap();
        stage.lane.pipes.queue_source(slot);
    }
    let burst = stage.lane.settings.burst as u64;
    let before = stage.lane.verbs.counts().0;
    let mut rounds = 0;
    while stage.lane.verbs.counts().0 < before + u64::from(QUEUES) * VERBS {
        let then = stage.lane.verbs.counts().0;
        stage.lane.round();
        let taken = stage.lane.verbs.counts().0 - then;
        assert!(taken <= burst, "{taken} verbs in one round");
        rounds += 1;
        assert!(rounds < 1000, "the verbs are not taken");
    }
}

/// Other commands wait until a session is released.
#[test]
fn a_session_of_many_idle_queues_is_released_in_few_rounds() {
    const QUEUES: u32 = 100;
    let mut stage = Stage::new();
    stage.attach_with(1, (2 * QUEUES + 1).next_power_of_two());
    let queues: Vec<_> = (0..QUEUES)
        .map(|queue| stage.open_queue(1, 2 * queue))
        .collect();
    let released = stage.done(Command::Detach { session: 1 });
    assert!(released.rounds < 10, "{} rounds", released.rounds);
    drop(queues);
}
