//! Three nodes, each cabled to both others: verbs from `a` to `b`, whose cable is pulled, complete
//! through `c`.

use covalent_dataplane::Daemon;
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use covalent::{
    Client, Completion, Device, InDoubtId, Mode, Outcome, RemoteRegion, Rights, Target, Timeout,
    Verb, Verbs,
};
use tempfile::TempDir;

use crate::nodes::{config_for, eventually, soon};

const ADD: Verb<'_> = Verb::FetchAdd {
    offset_bytes: 0,
    delta: 1,
};
/// Verbs that are posted at a time.
const BATCH: u64 = 48;

/// Exchanges that one user may wait for by in-doubt ids here: half of the places.
const QUERIES: usize = 32;

pub struct Triangle {
    /// Of a, b and c.
    daemons: [Option<Daemon>; 3],
    directory: TempDir,
}

impl Triangle {
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// As [`Triangle::start`], with more text in all configurations.
    pub fn start_with(more: &str) -> Self {
        Self::start_for("", more)
    }

    /// As [`Triangle::start_with`], with nodes that members of `group` may use too.
    pub fn start_for(group: &str, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o711)).unwrap();
        let cables = [
            ("a", ["ab", "ac"]),
            ("b", ["ab", "cb"]),
            ("c", ["ac", "cb"]),
        ];
        let daemons = cables.each_ref().map(|(name, cables)| {
            Some(Daemon::start(config_for(group, &directory, name, cables, more)).unwrap())
        });
        let triangle = Self { daemons, directory };
        for (name, _) in cables {
            triangle.await_links(name, &["up", "up"]);
        }
        triangle
    }

    /// A node's socket.
    pub fn socket(&self, node: &str) -> PathBuf {
        self.directory.path().join(node).join("covalentd.sock")
    }

    fn client(&self, node: &str) -> Client {
        Client::connect(self.socket(node), "test").unwrap()
    }

    pub fn attach(&self, node: &str) -> Device {
        Device::attach(self.socket(node), "test").unwrap()
    }

    /// Ends a node's daemon.
    pub fn stop(&mut self, node: &str) {
        let at = ["a", "b", "c"].iter().position(|name| *name == node);
        self.daemons[at.unwrap()].take().unwrap().stop();
    }

    /// Plugs or pulls a cable at a node.
    pub fn set_port(&self, node: &str, cable: &str, enabled: bool) {
        self.client(node).set_port(cable, enabled).unwrap();
    }

    pub fn await_links(&self, node: &str, states: &[&str]) {
        let mut client = self.client(node);
        eventually("the links have the expected states", || {
            let links = client.status().unwrap().links;
            links
                .iter()
                .map(|link| &link.state[..])
                .eq(states.iter().copied())
        });
    }
}

fn post(verbs: &mut Verbs<'_>, counter: &RemoteRegion, round: u64) {
    for number in 0..BATCH {
        let mode = if number % 2 == 0 {
            Mode::OnePhase
        } else {
            Mode::TwoPhase
        };
        verbs
            .post(counter, ADD, mode, round * BATCH + number)
            .unwrap();
    }
}

/// Takes completions until none has arrived for a while. A verb that was never sent has no
/// completion while no path is left.
fn drain_completions(verbs: &mut Verbs<'_>, taken: &mut Vec<Completion>) {
    let mut completions = vec![Completion::default(); 16];
    let pause = Duration::from_millis(150);
    while let Ok(came @ 1..) = verbs.poll(&mut completions, Instant::now() + pause) {
        taken.extend_from_slice(&completions[..came]);
    }
}

fn is_end(completion: &Completion) -> bool {
    !matches!(completion.outcome, Outcome::InDoubt(_))
}

fn ended(completions: &[Completion]) -> usize {
    completions
        .iter()
        .filter(|answered| is_end(answered))
        .count()
}

/// Takes completions until `enough` returns true.
fn take_until(
    verbs: &mut Verbs<'_>,
    taken: &mut Vec<Completion>,
    enough: impl Fn(&[Completion]) -> bool,
) {
    let mut completions = vec![Completion::default(); 16];
    while !enough(taken) {
        let came = verbs
            .poll(&mut completions, soon())
            .unwrap_or_else(|error| panic!("{error}, and {} arrived", taken.len()));
        taken.extend_from_slice(&completions[..came]);
    }
}

#[test]
fn an_executed_verb_is_learned_over_the_neighbor() {
    let nodes = Triangle::start();
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let mut verbs = device.verbs().unwrap();
    let counter = verbs
        .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
        .unwrap();
    let mut taken = Vec::new();
    for round in 0..6 {
        post(&mut verbs, &counter, round);
        nodes.set_port("a", "ab", false);
        nodes.await_links("a", &["down", "up"]);
        // No link leads to b, but every execution there is known here.
        take_until(&mut verbs, &mut taken, |known| {
            known.len() as u64 == own.load(0).unwrap()
        });
        assert!(
            taken
                .iter()
                .all(|completion| matches!(completion.outcome, Outcome::Old(_))),
            "nothing was in doubt"
        );
        nodes.set_port("a", "ab", true);
        take_until(&mut verbs, &mut taken, |known| {
            known.len() as u64 == (round + 1) * BATCH
        });
        assert_eq!(own.load(0).unwrap(), (round + 1) * BATCH, "exactly once");
        nodes.await_links("a", &["up", "up"]);
        nodes.await_links("b", &["up", "up"]);
    }
    let mut numbers: Vec<_> = taken
        .iter()
        .map(|completion| completion.user_data)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..6 * BATCH).collect::<Vec<_>>());
}

#[test]
fn another_program_queries_verbs_left_in_doubt_by_a_dead_one() {
    let nodes = Triangle::start();
    let host = nodes.attach("b");
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let (mut queried, mut executed) = (0, 0);
    // Eight rounds, then more until a cut met a verb in flight.
    for round in 0..40 {
        if round >= 8 && queried > 0 {
            break;
        }
        let before = own.load(0).unwrap();
        let device = nodes.attach("a");
        let mut verbs = device.verbs().unwrap();
        let counter = verbs
            .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
            .unwrap();
        // More than can be done until the cables are pulled.
        for batch in 0..5 {
            post(&mut verbs, &counter, batch);
        }
        nodes.set_port("c", "cb", false);
        nodes.set_port("a", "ab", false);
        nodes.await_links("a", &["down", "up"]);
        let mut taken = Vec::new();
        drain_completions(&mut verbs, &mut taken);
        let in_doubt_id = |completion: &Completion| match completion.outcome {
            Outcome::InDoubt(id) => Some(id.to_bytes()),
            _ => None,
        };
        let ids: Vec<_> = taken.iter().filter_map(in_doubt_id).collect();
        let known = (taken.len() - ids.len()) as u64;
        drop(verbs);
        drop(device);

        let device = nodes.attach("a");
        let mut verbs = device.verbs().unwrap();
        let mut answers = Vec::new();
        let (first, rest) = ids.split_at(ids.len().min(QUERIES));
        for id in first {
            verbs.query_in_doubt(&InDoubtId::from_bytes(id), 7).unwrap();
        }
        take_until(&mut verbs, &mut answers, |answered| {
            answered.len() == first.len()
        });
        for answer in &answers {
            assert!(matches!(answer.outcome, Outcome::InDoubt(_)), "{answer:?}");
        }
        answers.clear();
        // The path that returns is the one over the neighbor.
        nodes.set_port("c", "cb", true);
        take_until(&mut verbs, &mut answers, |answered| {
            ended(answered) == first.len()
        });
        for id in rest {
            verbs.query_in_doubt(&InDoubtId::from_bytes(id), 7).unwrap();
        }
        // A query posted before the query over the neighbor is answered receives two completions.
        take_until(&mut verbs, &mut answers, |answered| {
            ended(answered) == ids.len()
        });
        answers.retain(is_end);
        let mut done = 0;
        for answer in answers {
            match answer.outcome {
                Outcome::Old(_) => done += 1,
                Outcome::Undone | Outcome::NeverSeen => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(own.load(0).unwrap() - before, known + done, "round {round}");
        queried += ids.len() as u64;
        executed += done;
        nodes.set_port("a", "ab", true);
        for node in ["a", "b", "c"] {
            nodes.await_links(node, &["up", "up"]);
        }
        assert_eq!(own.load(0).unwrap() - before, known + done, "nothing later");
    }
    assert!(
        queried > 0,
        "no cut hit a verb in flight; {executed} were executed"
    );
}

#[test]
fn a_forged_in_doubt_id_is_forgotten() {
    let nodes = Triangle::start();
    let device = nodes.attach("a");
    let mut verbs = device.verbs().unwrap();
    let mut forged = [0; InDoubtId::BYTES];
    forged[11] = 1;
    let id = verbs
        .query_in_doubt(&InDoubtId::from_bytes(&forged), 0)
        .unwrap();
    let completion = verbs.wait(id, soon()).unwrap();
    assert_eq!(completion.outcome, Outcome::Forgotten);
    forged[11] = 9;
    assert!(
        verbs
            .query_in_doubt(&InDoubtId::from_bytes(&forged), 0)
            .is_err()
    );
    assert_eq!(verbs.outstanding(), 0);
}
