//! Our side: a verb, or a message of the size, of an application.
//!
//! ```text
//!   application ◄─► covalentd a's lane (near core) ◄══ veth ══► covalentd b's lane (far core) ─► region             [cas]
//!   application ◄─► covalentd a's lane (near core) ◄══ veth ══► covalentd b's lane (far core) ◄─► application       [message]
//!   application (near core) ◄─► covalentd's lane (far core) ─► region                                              [local]
//! ```
//! A compare-and-swap ends when the other node has executed it; nobody else takes part there. A message is answered by a message from an application at the
//! other node, as a datagram is by its server: two exchanges. Where there are two cores each application shares one with its lane.

use std::{
    collections::VecDeque,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use covalent_verbs::{
    Completion, Device, Error, Mode, Outcome, ReceiveQueue, Refusal, RemoteRegion, Rights,
    SEND_BYTES_MAX, Target, Verb, Verbs,
};

use super::{
    drive::{Client, Clock, Repeat, UNDER_WAY_MAX},
    peer::{Load, Medium, Peer, Scene},
};
use crate::{
    beside::join,
    cores::pin,
    node::{Node, Plan},
    stage::Namespace,
    streams::{Description, without_places},
};

/// Name of the region whose words are swapped.
const REGION: &str = "bench";

/// Names of the queues of messages there and back.
const QUEUES: [&str; 2] = ["bench-requests", "bench-answers"];

/// Bytes that may wait in each.
const QUEUE_BYTES: u64 = 8 << 20;

/// How long a region may take to be found.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of the words: one for each request that may be under way, so that none waits for another's word.
const REGION_BYTES: u64 = UNDER_WAY_MAX as u64 * 8;

/// Completions taken at a time.
const COMPLETIONS: usize = 64;

/// What is asked of the other node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Swap(Mode),
    Message,
    /// A swap in a region of the own node.
    LocalSwap,
}

/// One side.
struct Side {
    name: &'static str,
    asked: Asked,
}

/// All of ours.
pub fn sides() -> Vec<Box<dyn Peer>> {
    [
        ("covalent-cas", Asked::Swap(Mode::OnePhase)),
        ("covalent-cas-two-phase", Asked::Swap(Mode::TwoPhase)),
        ("covalent-message", Asked::Message),
        ("covalent-local-cas", Asked::LocalSwap),
    ]
    .into_iter()
    .map(|(name, asked)| Box::new(Side { name, asked }) as Box<dyn Peer>)
    .collect()
}

impl Peer for Side {
    fn name(&self) -> &'static str {
        self.name
    }

    fn medium(&self) -> Medium {
        match self.asked {
            Asked::Swap(_) | Asked::Message => Medium::Wire,
            Asked::LocalSwap => Medium::Memory,
        }
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &Scene<'_>) -> Result<Description> {
        let nodes = self.nodes(scene)?;
        let (core, shared) = scene.cores.application_beside(scene.cores.near);
        let what = match self.asked {
            Asked::Swap(Mode::OnePhase) => {
                "compare-and-swap of 8 bytes at another node, of an application, in one phase"
            }
            Asked::Swap(Mode::TwoPhase) => "the same in two phases",
            Asked::Message => {
                "message to an application at another node and one back, each exactly once"
            }
            Asked::LocalSwap => {
                "compare-and-swap of 8 bytes in a region of the own node, of an application"
            }
        };
        let place = match self.asked {
            Asked::LocalSwap => "the application alone on its core".to_owned(),
            _ if shared => format!(
                "applications on the cores of their lanes ({core}), which they share by yielding"
            ),
            _ => format!("the asking application on core {core}"),
        };
        let ports = nodes[0].status()?.ports;
        let port = ports.first().map_or_else(String::new, |port| {
            let mode = &port.mode;
            format!(
                "{} XDP, {}, need_wakeup {}, pages of {} bytes, rings of {}; ",
                mode.xdp,
                if mode.zero_copy { "zero-copy" } else { "copy" },
                mode.need_wakeup,
                mode.page_bytes,
                scene.ring_slots
            )
        });
        Ok(Description {
            what: what.to_owned(),
            version: concat!("covalent ", env!("CARGO_PKG_VERSION")).to_owned(),
            tuning: format!("lanes poll; {port}{place}"),
            commands: nodes
                .iter()
                .map(|node| without_places(&node.command().join(" ")))
                .collect(),
        })
    }

    fn refuses(&self, load: &Load) -> Option<String> {
        match self.asked {
            Asked::Swap(_) | Asked::LocalSwap if load.bytes != 8 => {
                Some("a compare-and-swap is of 8 bytes".to_owned())
            }
            Asked::Message if load.bytes > SEND_BYTES_MAX => {
                Some(format!("a message has at most {SEND_BYTES_MAX} bytes"))
            }
            _ => None,
        }
    }

    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
        let nodes = self.nodes(scene)?;
        match (self.asked, &nodes[..]) {
            (Asked::Swap(mode), [a, b]) => {
                swaps([a, b], mode, || Turn::beside(scene, scene.cores.near), load)
            }
            (Asked::Message, [a, b]) => messages([a, b], scene, load),
            (_, nodes) => swaps(
                [&nodes[0]; 2],
                Mode::OnePhase,
                || Turn::alone(scene.cores.near),
                load,
            ),
        }
    }
}

impl Side {
    /// Two linked daemons on the cable, or one by itself.
    fn nodes(&self, scene: &Scene<'_>) -> Result<Vec<Node>> {
        let plan = |name, core, interfaces| Plan {
            name,
            idle: "poll",
            core: Some(core),
            interfaces,
            cables: &[],
            link: true,
            ring_slots: scene.ring_slots,
            link_settings: &[],
            faulty: false,
        };
        let cores = scene.cores;
        if self.medium() == Medium::Memory {
            let plan = plan("a", cores.far, &[]);
            return Ok(vec![Node::start(
                scene.daemon,
                &Namespace::current()?,
                &plan,
            )?]);
        }
        let stage = scene.stage()?;
        let nodes = vec![
            Node::start(scene.daemon, &stage.a, &plan("a", cores.near, &["a0"]))?,
            Node::start(scene.daemon, &stage.b, &plan("b", cores.far, &["b0"]))?,
        ];
        nodes.iter().try_for_each(Node::wait_for_links)?;
        Ok(nodes)
    }
}

/// How the thread of an application waits.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// It shares its core with its lane.
    shared: bool,
}

impl Turn {
    /// Pins the calling thread beside the lane on `lane`.
    fn beside(scene: &Scene<'_>, lane: usize) -> Result<Self> {
        let (core, shared) = scene.cores.application_beside(lane);
        pin(core)?;
        Ok(Self { shared })
    }

    /// Pins the calling thread to a core on which no lane is.
    fn alone(core: usize) -> Result<Self> {
        pin(core)?;
        Ok(Self { shared: false })
    }

    fn pass(self) {
        if self.shared {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Swaps at the second of two nodes, asked for at the first, by a thread that takes its place with `turn`.
fn swaps(
    [a, b]: [&Node; 2],
    mode: Mode,
    turn: impl FnOnce() -> Result<Turn> + Send,
    load: &Load,
) -> Result<Repeat> {
    let owner = Device::attach(b.socket(), "bench-region").context("attaching to covalentd b")?;
    let _region = owner
        .register_region(REGION, REGION_BYTES, Rights::ALL)
        .context("registering a region")?;
    thread::scope(|scope| {
        join(scope.spawn(|| {
            let turn = turn()?;
            let device =
                Device::attach(a.socket(), "bench-latency").context("attaching to covalentd a")?;
            let mut verbs = device.verbs().context("opening a verb queue")?;
            let region = find(&mut verbs, b.name(), REGION)?;
            load.ask(&mut Swaps {
                verbs,
                region,
                mode,
                turn,
                words: vec![0; UNDER_WAY_MAX],
                completions: vec![Completion::default(); COMPLETIONS],
            })
        }))
    })
}

fn find(verbs: &mut Verbs<'_>, node: &str, region: &str) -> Result<RemoteRegion> {
    verbs
        .open_region_deadline(Target::Name(node), region, Instant::now() + PATIENCE)
        .with_context(|| format!("opening region {region} of node {node}"))
}

/// Swaps a word of its own for one that is larger by 1, for each request. It must be as the last of these swaps left it: each was executed, and once.
struct Swaps<'d> {
    verbs: Verbs<'d>,
    region: RemoteRegion,
    mode: Mode,
    turn: Turn,
    words: Vec<u64>,
    completions: Vec<Completion>,
}

impl Client for Swaps<'_> {
    fn send(&mut self, number: u64) -> Result<bool> {
        let at = number as usize % UNDER_WAY_MAX;
        let verb = Verb::CompareAndSwap {
            offset_bytes: at as u64 * 8,
            expected: self.words[at],
            new: self.words[at] + 1,
        };
        match self.verbs.post(&self.region, verb, self.mode, number) {
            Ok(_) => Ok(true),
            Err(Error::QueueFull { .. }) => Ok(false),
            Err(error) => Err(error).context("posting a verb"),
        }
    }

    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
        let count = self
            .verbs
            .poll(&mut self.completions)
            .context("polling for verbs")?;
        for completion in &self.completions[..count] {
            let at = completion.user_data as usize % UNDER_WAY_MAX;
            match completion.outcome {
                Outcome::Old(old) => {
                    ensure!(
                        old == self.words[at],
                        "word {at} was {old} and not {}, as it had been left",
                        self.words[at]
                    );
                    self.words[at] += 1;
                    answered(completion.user_data);
                }
                Outcome::InDoubt(_) => {}
                ref other => bail!("a compare-and-swap ended with {other:?}"),
            }
        }
        Ok(())
    }

    fn wait(&mut self, _until_ns: u64, _clock: &dyn Clock) -> Result<()> {
        self.turn.pass();
        Ok(())
    }

    fn pause(&mut self) {
        self.turn.pass();
    }
}

fn messages([a, b]: [&Node; 2], scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
    let over = AtomicBool::new(false);
    let (ready, is_ready) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let over = &over;
        let asking = scope.spawn(move || {
            let turn = Turn::beside(scene, scene.cores.near)?;
            let device =
                Device::attach(a.socket(), "bench-latency").context("attaching to covalentd a")?;
            let answers = queue(&device, QUEUES[1])?;
            let answering =
                scope.spawn(move || answer(b, scene.cores.far, over, load.bytes, ready));
            // One that failed drops its end too, and tells why when it is joined.
            let _ = is_ready.recv();
            let asked = Outbox::open(&device, "b", QUEUES[0], load.bytes)
                .and_then(|out| load.ask(&mut Messages { out, answers, turn }));
            over.store(true, Ordering::Relaxed);
            join(answering)?;
            asked
        });
        join(asking)
    })
}

fn queue<'d>(device: &'d Device, name: &str) -> Result<ReceiveQueue<'d>> {
    device
        .receive_queue(name, QUEUE_BYTES)
        .with_context(|| format!("opening receive queue {name}"))
}

/// Sends back each message that comes, until it is over. Shares the core of its lane, also where there are more: the client may have the third.
fn answer(
    node: &Node,
    core: usize,
    over: &AtomicBool,
    bytes: usize,
    ready: mpsc::Sender<()>,
) -> Result<()> {
    pin(core)?;
    let turn = Turn { shared: true };
    let device =
        Device::attach(node.socket(), "bench-answers").context("attaching to covalentd b")?;
    let mut requests = queue(&device, QUEUES[0])?;
    let mut out = Outbox::open(&device, "a", QUEUES[1], bytes)?;
    drop(ready);
    while !over.load(Ordering::Relaxed) {
        out.look()?;
        // What cannot be sent on waits where it lies.
        while out.has_room() {
            let Some(message) = requests.recv().context("receiving a request")? else {
                break;
            };
            let number = number_of(message.data);
            out.send(number)?;
        }
        turn.pass();
    }
    Ok(())
}

fn number_of(message: &[u8]) -> u64 {
    message
        .first_chunk()
        .map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

/// Sends messages that bear a number to one queue, those that were refused for lack of room again.
struct Outbox<'d> {
    verbs: Verbs<'d>,
    queue: RemoteRegion,
    message: Vec<u8>,
    /// Numbers whose messages were refused.
    refused: VecDeque<u64>,
    completions: Vec<Completion>,
}

impl<'d> Outbox<'d> {
    fn open(device: &'d Device, node: &str, queue: &str, bytes: usize) -> Result<Self> {
        let mut verbs = device.verbs().context("opening a verb queue")?;
        let queue = find(&mut verbs, node, queue)?;
        Ok(Self {
            verbs,
            queue,
            message: vec![0x5a; bytes],
            refused: VecDeque::new(),
            completions: vec![Completion::default(); COMPLETIONS],
        })
    }

    fn has_room(&self) -> bool {
        self.refused.is_empty() && self.verbs.outstanding() < self.verbs.depth()
    }

    /// Sends message `number`. Whether there was room.
    fn send(&mut self, number: u64) -> Result<bool> {
        if !self.has_room() {
            return Ok(false);
        }
        self.post(number)
    }

    fn post(&mut self, number: u64) -> Result<bool> {
        self.message[..8].copy_from_slice(&number.to_le_bytes());
        let verb = Verb::Send {
            data: &self.message,
        };
        match self.verbs.post(&self.queue, verb, Mode::OnePhase, number) {
            Ok(_) => Ok(true),
            Err(Error::QueueFull { .. }) => Ok(false),
            Err(error) => Err(error).context("posting a message"),
        }
    }

    /// Takes the ends of what was sent, and sends again what was refused.
    fn look(&mut self) -> Result<()> {
        let count = self
            .verbs
            .poll(&mut self.completions)
            .context("polling for verbs")?;
        for completion in &self.completions[..count] {
            match &completion.outcome {
                Outcome::Done | Outcome::InDoubt(_) => {}
                Outcome::Refused(Refusal::NoResources | Refusal::Busy | Refusal::QueueFull) => {
                    self.refused.push_back(completion.user_data)
                }
                other => bail!("a message ended with {other:?}"),
            }
        }
        while let Some(&number) = self.refused.front() {
            if !self.post(number)? {
                break;
            }
            self.refused.pop_front();
        }
        Ok(())
    }
}

/// An application that sends requests and receives answers.
struct Messages<'d> {
    out: Outbox<'d>,
    answers: ReceiveQueue<'d>,
    turn: Turn,
}

impl Client for Messages<'_> {
    fn send(&mut self, number: u64) -> Result<bool> {
        self.out.send(number)
    }

    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
        self.out.look()?;
        while let Some(message) = self.answers.recv().context("receiving an answer")? {
            ensure!(
                message.data.len() == self.out.message.len(),
                "an answer has {} bytes instead of {}",
                message.data.len(),
                self.out.message.len()
            );
            answered(number_of(message.data));
        }
        Ok(())
    }

    fn wait(&mut self, _until_ns: u64, _clock: &dyn Clock) -> Result<()> {
        self.turn.pass();
        Ok(())
    }

    fn pause(&mut self) {
        self.turn.pass();
    }
}
