//! Clients that execute random operations for a while and record the replies.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use covalent::Device;

use super::{
    history::{Clock, Operation},
    machine::{Answer, Op},
    requester::{Node, Requester},
};
use crate::{random::Random, stop::Stop};

/// Approximate number of operations per register. Then the clients move to another register,
/// because the search time grows with the square of a history's length.
const OPERATIONS_OF_A_REGISTER: u64 = 400;

/// How long a client tries to reach its daemon again before it looks whether it is time to end.
const ATTACH_PAUSE: Duration = Duration::from_millis(10);

/// The work of the clients.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The group.
    pub group: String,
    /// Where the clients attach: as many as there are sockets here.
    pub sockets: Vec<PathBuf>,
    /// The nodes whose servers the clients use.
    pub nodes: Vec<Node>,
    /// Registers at a time.
    pub registers: u64,
    /// How long.
    pub duration: Duration,
    /// How long one server may take.
    pub patience: Duration,
    /// How long a client waits for an answer before it gives up.
    pub give_up: Duration,
    /// Seed of the operations.
    pub seed: u64,
}

/// Runs each client in its own thread and returns the operations of all clients.
///
/// # Errors
/// A client could not execute any operation.
pub fn torture(plan: &Plan, stop: &Stop) -> Result<Vec<Operation>> {
    let history = Mutex::new(Vec::new());
    let begun = AtomicU64::new(0);
    let clock = Clock::start();
    let until = Instant::now() + plan.duration;
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for (number, socket) in plan.sockets.iter().enumerate() {
            let mut at_work = AtWork {
                plan,
                socket,
                clock,
                until,
                stop,
                begun: &begun,
                history: &history,
                random: Random::new(plan.seed.wrapping_add(number as u64 * 0x9e37)),
                last_seen: None,
                written: 0,
            };
            clients.push(scope.spawn(move || at_work.run()));
        }
        clients
            .into_iter()
            .try_for_each(|client| match client.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })?;
    Ok(history
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner))
}

struct AtWork<'a> {
    plan: &'a Plan,
    socket: &'a Path,
    clock: Clock,
    until: Instant,
    stop: &'a Stop,
    /// Operations of all clients.
    begun: &'a AtomicU64,
    history: &'a Mutex<Vec<Operation>>,
    random: Random,
    /// The register that the client observed last, and its value.
    last_seen: Option<(Vec<u8>, Option<Vec<u8>>)>,
    written: u64,
}

impl AtWork<'_> {
    fn is_over(&self) -> bool {
        self.stop.is_requested() || Instant::now() >= self.until
    }

    fn run(&mut self) -> Result<()> {
        let mut problem = None;
        let mut worked = false;
        while !self.is_over() {
            // A daemon that is gone may come again.
            if let Err(error) = self.work_attached(&mut worked) {
                problem = Some(error);
                thread::sleep(ATTACH_PAUSE);
            }
        }
        match problem {
            Some(error) if !worked => Err(error),
            _ => Ok(()),
        }
    }

    /// Works on one device until the time is over.
    fn work_attached(&mut self, worked: &mut bool) -> Result<()> {
        let device = Device::attach(self.socket, "covalent-registers torture")?;
        let plan = self.plan;
        let mut requester = Requester::new(&device, &plan.group, &plan.nodes, plan.patience)?;
        while !self.is_over() {
            if !requester.open(Instant::now() + plan.give_up)? {
                requester.renew();
                continue;
            }
            let op = self.choose(requester.id());
            let mut operation = Operation {
                client: requester.id(),
                op: op.clone(),
                called_ns: self.clock.now_ns(),
                answered: None,
            };
            let answer = requester.execute(op, Instant::now() + plan.give_up);
            let now_ns = self.clock.now_ns();
            if let Ok(Some(answer)) = &answer {
                operation.answered = Some((now_ns, answer.clone()));
                *worked = true;
            }
            self.learn(&operation);
            let is_open = operation.reported().is_none();
            self.history
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push(operation);
            answer?;
            if is_open {
                requester.renew();
            }
        }
        Ok(())
    }

    fn choose(&mut self, client: u64) -> Op {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        let registers = self.plan.registers.max(1);
        let period = begun / (registers * OPERATIONS_OF_A_REGISTER);
        let key = format!("{}.{period}", self.random.below(registers)).into_bytes();
        // No value is written twice, so each value identifies its write.
        self.written += 1;
        let value = format!("{client:016x}.{}", self.written).into_bytes();
        match self.random.below(4) {
            0 => Op::Put { key, value },
            1 => match self.last_seen.take() {
                // Use the register that was observed last, so that some swaps find the expected
                // value.
                Some((seen, expected)) if seen.ends_with(format!(".{period}").as_bytes()) => {
                    Op::Cas {
                        key: seen,
                        expected,
                        new: value,
                    }
                }
                _ => Op::Cas {
                    key,
                    expected: None,
                    new: value,
                },
            },
            _ => Op::Get { key },
        }
    }

    fn learn(&mut self, operation: &Operation) {
        let Some(key) = operation.key() else { return };
        let seen = match (operation.reported(), &operation.op) {
            (Some((_, Answer::Value(value) | Answer::Differs(value))), _) => value.clone(),
            (Some((_, Answer::Done)), Op::Put { value, .. }) => Some(value.clone()),
            (Some((_, Answer::Done)), Op::Cas { new, .. }) => Some(new.clone()),
            _ => return,
        };
        self.last_seen = Some((key.to_vec(), seen));
    }
}
