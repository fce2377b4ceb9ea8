//! Checks the share of a lane's rounds that one neighbor takes, in frames and verbs. Times would
//! depend on the machine.
//!
//! A round takes one burst of each port, and a neighbor has at most as many open verbs as the lane
//! has slots. So no neighbor takes anything that another one is due in the same round.
#![allow(clippy::unwrap_used)]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use covalent_api::request::Rights;
use covalent_config::Config;
use covalent_ipc::event::EventFd;
use covalent_pipe::{
    region::RegionMemory,
    session::{NicSession, SessionMemory},
};
use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent, LinkState, Mode, Name, Node,
    NodeConfig, Outcome, Refusal, Reply,
    verb::{Request, Verb},
};

use super::super::{
    Lane,
    command::{Command, NewRegion, NewSession, Order, Report},
    new_port::NewPort,
    played_port::{Part, PlayedPort},
};
use crate::{
    identity::Identity,
    mailbox::Mailbox,
    port::{PortError, PortInfo},
};

/// Frames that a lane takes of a port in one round.
const BURST: usize = 16;
/// Verbs that a neighbor has open at most.
const SLOTS: u8 = 8;
/// Frames that wait at the port of the neighbor that floods it, at the beginning of each round.
const FLOOD: usize = 8 * BURST;
const ROUNDS: u64 = 500;
const RKEY: u32 = 7;
/// How long the links may take to come up: their handshakes wait for ticks.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cable, and the frames that the lane took from it in this round.
#[derive(Default)]
struct Cable {
    to_lane: VecDeque<Vec<u8>>,
    from_lane: VecDeque<Vec<u8>>,
    taken: usize,
}

/// The lane's end.
struct End(Arc<Mutex<Cable>>);

impl Part for End {
    fn burst(
        &mut self,
        _: &PortInfo,
        max: usize,
        frames: &mut Vec<Vec<u8>>,
    ) -> Result<(), PortError> {
        let mut cable = self.0.lock().unwrap();
        let count = cable.to_lane.len().min(max);
        frames.extend(cable.to_lane.drain(..count));
        cable.taken += count;
        Ok(())
    }

    fn sent(&mut self, frame: &[u8]) {
        self.0.lock().unwrap().from_lane.push_back(frame.to_vec());
    }
}

/// The replies to a neighbor.
#[derive(Default)]
struct Answers {
    committed: u64,
}

impl Host for Answers {
    fn admit(&mut self, _: &ExchangeId, _: Mode, _: &[u8]) -> Result<(), Refusal> {
        Err(Refusal::NoResources)
    }

    fn execute(&mut self, _: &ExchangeId, _: &[u8], _: &mut Reply) -> Execution {
        Execution::Done
    }

    fn reverse(&mut self, _: &ExchangeId, _: &[u8]) {}

    fn complete(&mut self, _: u64, outcome: Outcome<'_>) {
        assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
        self.committed += 1;
    }

    fn in_doubt(&mut self, _: u64, _: &ExchangeId) {
        panic!("the link failed");
    }

    fn link_event(&mut self, _: LinkEvent) {}
}

/// A neighbor that submits as many verbs as the lane allows.
struct Neighbor {
    node: Node,
    answers: Answers,
    cable: Arc<Mutex<Cable>>,
    /// Sends the last frame again, until so many frames wait.
    flood: usize,
}

impl Neighbor {
    fn new(number: u64, flood: usize, cable: Arc<Mutex<Cable>>) -> Self {
        let name = Name::new(&format!("n{number}")).unwrap();
        let mut node = Node::new(NodeConfig::new(number << 8, 1, name));
        node.add_link(0, [2, 2, 0, 0, 0, number as u8]).unwrap();
        let mut answers = Answers::default();
        node.on_carrier(0, true, &mut answers);
        Self {
            node,
            answers,
            cable,
            flood,
        }
    }

    fn is_up(&self) -> bool {
        self.node.links().all(|link| link.state == LinkState::Up)
    }

    /// Takes the frames of the lane, and sends all pending frames.
    fn turn(&mut self, lane: Option<u64>) {
        let mut cable = self.cable.lock().unwrap();
        for frame in std::mem::take(&mut cable.from_lane) {
            self.node.on_frame(0, &frame, &mut self.answers);
        }
        if let Some(lane) = lane {
            let request = Request {
                rkey: RKEY,
                offset: 8 * u32::from(self.flood > 0),
                verb: Verb::FetchAdd { delta: 1 },
            };
            let mut buffer = [0; 64];
            let length = request.encode(&mut buffer).unwrap();
            while self
                .node
                .submit(lane, Mode::OnePhase, &buffer[..length], 1)
                .is_ok()
            {}
        }
        // The rest of a flood did not fit into the ring.
        cable.to_lane.clear();
        let mut buffer = [0; FRAME_BYTES_MAX];
        let mut last = None;
        while let Some(length) = self.node.poll_transmit(0, &mut buffer) {
            cable.to_lane.push_back(buffer[..length].to_vec());
            last = Some(buffer[..length].to_vec());
        }
        if let Some(last) = last {
            while cable.to_lane.len() < self.flood {
                cable.to_lane.push_back(last.clone());
            }
        }
    }
}

struct Stage {
    lane: Lane,
    orders: Arc<Mailbox<Order>>,
    reports: Arc<Mailbox<Report>>,
    neighbors: Vec<Neighbor>,
    region: RegionMemory,
    _application: EventFd,
    _dir: tempfile::TempDir,
}

impl Stage {
    /// A lane with a neighbor at each port, of which each keeps so many frames waiting.
    fn new(floods: &[usize]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut text = format!(
            "[node]\nname = \"a\"\nstate_dir = \"{}\"\n[dataplane]\nidle = \"poll\"\nburst = \
             {BURST}\n[link]\nslots = {SLOTS}\n",
            dir.path().display()
        );
        for at in 0..floods.len() {
            text += &format!("[[port]]\nname = \"p{at}\"\nkind = \"pcap\"\nlink = true\n");
        }
        let config = Config::parse(&text, "test").unwrap();
        let identity = Identity::take(dir.path()).unwrap();
        let (mut ports, mut neighbors) = (Vec::new(), Vec::new());
        for (at, &flood) in floods.iter().enumerate() {
            let cable: Arc<Mutex<Cable>> = Arc::default();
            let part = End(Arc::clone(&cable));
            let port = PlayedPort::new(&config.port[at].name, part);
            ports.push(NewPort::new(at as u16, &config.port[at], port));
            neighbors.push(Neighbor::new(1000 + at as u64, flood, cable));
        }
        let orders = Arc::new(Mailbox::new(8).unwrap());
        let reports = Arc::new(Mailbox::new(64).unwrap());
        let ends = (Arc::clone(&orders), Arc::clone(&reports));
        let lane = Lane::new(&config, 0, &identity, ports, None, ends).unwrap();
        let (to_application, application) = EventFd::one_way().unwrap();
        let (memory, fd) = RegionMemory::create(4096).unwrap();
        let mut stage = Self {
            lane,
            orders,
            reports,
            neighbors,
            region: RegionMemory::open(fd, 4096).unwrap(),
            _application: application,
            _dir: dir,
        };
        stage.order(Command::Attach(Box::new(NewSession {
            session: 1,
            uid: 0,
            program: "".into(),
            commands: true,
            rings: NicSession::new(SessionMemory::create(8).unwrap()),
            to_application,
            to_lane: EventFd::new().unwrap(),
        })));
        stage.order(Command::Register(Box::new(NewRegion {
            session: 1,
            name: "counts".into(),
            rkey: RKEY,
            rights: Rights::ALL,
            durable: false,
            memory,
        })));
        stage
    }

    fn order(&mut self, command: Command) {
        assert!(self.orders.push(Order { ticket: 1, command }).is_ok());
        self.lane.round();
        let answer = std::iter::from_fn(|| self.reports.pop()).find_map(|report| match report {
            Report::Answer { result, .. } => Some(result),
            _ => None,
        });
        assert!(matches!(answer, Some(Ok(_))), "{answer:?}");
    }

    fn come_up(&mut self) {
        let began = Instant::now();
        while !self.neighbors.iter().all(Neighbor::is_up) {
            assert!(began.elapsed() < PATIENCE, "a link does not come up");
            for neighbor in &mut self.neighbors {
                neighbor.turn(None);
            }
            self.lane.round();
        }
    }

    /// Runs rounds in which each neighbor submits verbs all the time. Returns the number of replies
    /// to each.
    fn run(&mut self) -> Vec<u64> {
        self.come_up();
        let address = self.lane.settings.address.bits();
        for round in 0..ROUNDS {
            let before: Vec<u64> = self.executed().collect();
            for neighbor in &mut self.neighbors {
                neighbor.turn(Some(address));
                neighbor.cable.lock().unwrap().taken = 0;
            }
            self.lane.round();
            let executed = self.executed();
            for ((neighbor, executed), before) in self.neighbors.iter().zip(executed).zip(before) {
                let cable = neighbor.cable.lock().unwrap();
                assert!(
                    cable.taken <= BURST,
                    "{} frames in round {round}",
                    cable.taken
                );
                assert!(
                    neighbor.flood > 0 || cable.to_lane.is_empty(),
                    "{} frames of an honest neighbor wait behind round {round}",
                    cable.to_lane.len()
                );
                let verbs = executed - before;
                assert!(verbs <= u64::from(SLOTS), "{verbs} verbs in round {round}");
            }
        }
        self.neighbors
            .iter()
            .map(|neighbor| neighbor.answers.committed)
            .collect()
    }

    /// Returns the executed verbs of each neighbor: honest ones count in one word, the others in
    /// the next.
    fn executed(&self) -> impl Iterator<Item = u64> {
        self.neighbors
            .iter()
            .map(|neighbor| self.region.load(8 * u64::from(neighbor.flood > 0)).unwrap())
    }
}

#[test]
fn a_busy_neighbor_takes_no_verb_or_frame_from_the_share_of_another() {
    let alone = Stage::new(&[0]).run()[0];
    // As many as there are slots, in each round but those in which links are still coming up.
    assert!(alone > ROUNDS * u64::from(SLOTS) * 9 / 10, "{alone} verbs");
    for (honest, floods) in [(1, [FLOOD, 0]), (0, [0, FLOOD])] {
        let beside = Stage::new(&floods).run();
        assert_eq!(
            beside[honest],
            alone,
            "beside a neighbor with {}",
            beside[1 - honest]
        );
    }
}
