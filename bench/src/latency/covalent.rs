//! Our side: a verb of an application, or a message of the given size.
//!
//! ```text
//!   [cas]     application ◄─► a's lane (near core) ◄═ veth ═► b's lane (far core) ─► region
//!   [message] application ◄─► a's lane (near core) ◄═ veth ═► b's lane (far core) ◄─► application
//!   [local]   application (near core) ◄─► covalentd's lane (far core) ─► region
//! ```
//! A compare-and-swap ends when the other node has executed it; no application takes part there. An
//! application at the other node answers each message with a message, as a server answers a
//! datagram: two exchanges. With only two cores, each application shares its core with its lane.

use std::{
    collections::VecDeque,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use covalent::{
    Completion, Device, Error, Mode, Outcome, ReceiveQueue, Refusal, RemoteRegion, Rights,
    SEND_BYTES_MAX, Target, Verb, Verbs,
};

use super::{
    drive::{Client, Clock, IN_FLIGHT_MAX, Repeat},
    peer::{Load, Medium, Peer, Scene},
};
use crate::{
    beside::join,
    cores::pin,
    node::{Node, Plan},
    report::{Description, without_places},
    stage::Namespace,
};

/// Name of the region that holds the words.
const REGION: &str = "bench";

/// Names of the queues of messages there and back.
const QUEUES: [&str; 2] = ["bench-requests", "bench-answers"];

/// Bytes that may wait in each.
const QUEUE_BYTES: u64 = 8 << 20;

/// How long a region may take to be found.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of the words. Each request in flight has its own word and waits for no other.
const REGION_BYTES: u64 = IN_FLIGHT_MAX as u64 * 8;

/// Completions taken at a time.
const COMPLETIONS: usize = 64;

/// The operation requested from the other node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requested {
    Swap(Mode),
    Message,
    /// A swap in a region of the own node.
    LocalSwap,
}

/// One side.
struct Side {
    name: &'static str,
    requested: Requested,
}

/// All of ours.
pub fn sides() -> Vec<Box<dyn Peer>> {
    [
        ("covalent-cas", Requested::Swap(Mode::OnePhase)),
        ("covalent-cas-two-phase", Requested::Swap(Mode::TwoPhase)),
        ("covalent-message", Requested::Message),
        ("covalent-local-cas", Requested::LocalSwap),
    ]
    .into_iter()
    .map(|(name, requested)| Box::new(Side { name, requested }) as Box<dyn Peer>)
    .collect()
}

impl Peer for Side {
    fn name(&self) -> &'static str {
        self.name
    }

    fn medium(&self) -> Medium {
        match self.requested {
            Requested::Swap(_) | Requested::Message => Medium::Wire,
            Requested::LocalSwap => Medium::Memory,
        }
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &Scene<'_>) -> Result<Description> {
        let nodes = self.nodes(scene)?;
        let (core, shared) = scene.cores.application_beside(scene.cores.near);
        let what = match self.requested {
            Requested::Swap(Mode::OnePhase) => {
                "compare-and-swap of 8 bytes at another node, of an application, in one phase"
            }
            Requested::Swap(Mode::TwoPhase) => "the same in two phases",
            Requested::Message => {
                "message to an application at another node and one back, each exactly once"
            }
            Requested::LocalSwap => {
                "compare-and-swap of 8 bytes in a region of the own node, of an application"
            }
        };
        let place = match self.requested {
            Requested::LocalSwap => "the application alone on its core".to_owned(),
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
        match self.requested {
            Requested::Swap(_) | Requested::LocalSwap if load.bytes != 8 => {
                Some("a compare-and-swap is of 8 bytes".to_owned())
            }
            Requested::Message if load.bytes > SEND_BYTES_MAX => {
                Some(format!("a message has at most {SEND_BYTES_MAX} bytes"))
            }
            _ => None,
        }
    }

    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
        let nodes = self.nodes(scene)?;
        match (self.requested, &nodes[..]) {
            (Requested::Swap(mode), [a, b]) => {
                swaps([a, b], mode, || Turn::beside(scene, scene.cores.near), load)
            }
            (Requested::Message, [a, b]) => messages([a, b], scene, load),
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

/// Measures swaps at the second node, initiated at the first by a thread that `turn` places on its
/// core.
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
            load.measure(&mut Swaps {
                verbs,
                region,
                mode,
                turn,
                words: vec![0; IN_FLIGHT_MAX],
                completions: vec![Completion::default(); COMPLETIONS],
            })
        }))
    })
}

fn find(verbs: &mut Verbs<'_>, node: &str, region: &str) -> Result<RemoteRegion> {
    verbs
        .open_region(Target::Name(node), region, PATIENCE)
        .with_context(|| format!("opening region {region} of node {node}"))
}

/// Replaces a request's own word by a value larger by 1. The old value must be that of the previous
/// swap: each swap was executed exactly once.
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
        let at = number as usize % IN_FLIGHT_MAX;
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
            .try_poll(&mut self.completions)
            .context("polling for verbs")?;
        for completion in &self.completions[..count] {
            let at = completion.user_data as usize % IN_FLIGHT_MAX;
            match completion.outcome {
                Outcome::Old(old) => {
                    ensure!(
                        old == self.words[at],
                        "word {at} was {old}, expected {} from the previous verb",
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
        let requester = scope.spawn(move || {
            let turn = Turn::beside(scene, scene.cores.near)?;
            let device =
                Device::attach(a.socket(), "bench-latency").context("attaching to covalentd a")?;
            let answers = queue(&device, QUEUES[1])?;
            let answering =
                scope.spawn(move || answer(b, scene.cores.far, over, load.bytes, ready));
            // A failed thread also drops its sender. Its error is returned when it is joined.
            let _ = is_ready.recv();
            let requested = Outbox::open(&device, "b", QUEUES[0], load.bytes)
                .and_then(|out| load.measure(&mut Messages { out, answers, turn }));
            over.store(true, Ordering::Relaxed);
            join(answering)?;
            requested
        });
        join(requester)
    })
}

fn queue<'d>(device: &'d Device, name: &str) -> Result<ReceiveQueue<'d>> {
    device
        .receive_queue(name, QUEUE_BYTES)
        .with_context(|| format!("opening receive queue {name}"))
}

/// Echoes each message until `over`. It always shares its lane's core: the client may have the
/// third one.
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
        out.take_completions()?;
        // A request that cannot be forwarded yet stays in the queue.
        while out.has_room() {
            let Some(message) = requests.try_recv().context("receiving a request")? else {
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

/// Sends numbered messages to one queue, and resends those refused for lack of space.
struct Outbox<'d> {
    verbs: Verbs<'d>,
    queue: RemoteRegion,
    message: Vec<u8>,
    /// Numbers of the refused messages.
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

    /// Sends message `number`. Returns whether there was space.
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

    /// Polls for completions and resends refused messages.
    fn take_completions(&mut self) -> Result<()> {
        let count = self
            .verbs
            .try_poll(&mut self.completions)
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
        self.out.take_completions()?;
        while let Some(message) = self.answers.try_recv().context("receiving an answer")? {
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
