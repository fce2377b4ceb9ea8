//! Daemons are killed or shut down gracefully, and restarted, under applications that reconnect.
//! The counter agrees exactly with the completions of the additions.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use covalent::{Client, Completion, Device, Mode, Outcome, Refusal, Rights, Target, Timeout, Verb};
use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use tempfile::TempDir;

use crate::{
    nodes::{PATIENCE, config, eventually, soon},
    noise::Noise,
    process::REGISTERS,
    seeds::seed,
};

/// How many daemons are ended.
const RESTARTS: u64 = 10;

/// Verbs in flight of each client.
const DEPTH: usize = 16;

/// Additions of both clients that are done at least.
const DONE_MIN: u64 = 1_000;

/// A node whose daemon is a process.
struct Place {
    daemon: Option<Child>,
    file: PathBuf,
    socket: PathBuf,
}

impl Place {
    fn new(directory: &TempDir, name: &str) -> Self {
        let config = config(directory, name, &["p0"], "");
        let file = directory.path().join(name).with_extension("toml");
        fs::write(&file, config.to_toml().unwrap()).unwrap();
        let mut place = Self {
            daemon: None,
            file,
            socket: config.socket_path(),
        };
        place.start();
        place
    }

    fn start(&mut self) {
        let daemon = Path::new(REGISTERS).with_file_name("covalentd");
        let daemon = Command::new(daemon)
            .arg("--config")
            .arg(&self.file)
            .env_remove("NOTIFY_SOCKET")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemon = Some(daemon.unwrap());
    }

    /// Has the daemon stand still, all of it.
    fn halt(&self) {
        let daemon = Pid::from_raw(self.daemon.as_ref().unwrap().id() as i32);
        kill(daemon, Signal::SIGSTOP).unwrap();
        waitpid(daemon, Some(WaitPidFlag::WUNTRACED)).unwrap();
    }

    /// Ends the daemon, and starts the next one.
    fn restart(&mut self, signal: Signal) {
        let mut daemon = self.daemon.take().unwrap();
        kill(Pid::from_raw(daemon.id() as i32), signal).unwrap();
        daemon.wait().unwrap();
        self.start();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Outcomes of the additions of one client.
#[derive(Debug, Default)]
struct Tally {
    done: u64,
    not_done: u64,
    unknown: u64,
}

/// A client on the node of `socket`. It adds 1 to the counter of node `target` until `end`, then
/// waits for all completions.
fn adder(
    socket: &Path,
    target: &'static str,
    running: &Arc<AtomicU64>,
    end: &Arc<AtomicBool>,
    done: &Arc<AtomicU64>,
) -> JoinHandle<Tally> {
    let (socket, running) = (socket.to_owned(), running.clone());
    let (end, done) = (end.clone(), done.clone());
    thread::spawn(move || {
        let device = Device::attach(socket, "adder").unwrap();
        device.set_reconnect(Some(PATIENCE));
        let mut verbs = device.verbs_with_depth(DEPTH as u32).unwrap();
        let counter = verbs
            .open_region(Target::Name(target), "counter", Timeout::FOREVER)
            .unwrap();
        running.fetch_add(1, Ordering::AcqRel);
        let one = Verb::FetchAdd {
            offset_bytes: 0,
            delta: 1,
        };
        let mut tally = Tally::default();
        let mut completions = vec![Completion::default(); DEPTH];
        loop {
            while !end.load(Ordering::Acquire) && verbs.outstanding() < DEPTH {
                verbs.post(&counter, one, Mode::TwoPhase, 0).unwrap();
            }
            if verbs.outstanding() == 0 {
                return tally;
            }
            let taken = verbs.poll(&mut completions, soon()).unwrap();
            for completion in &completions[..taken] {
                match &completion.outcome {
                    Outcome::Old(_) => {
                        tally.done += 1;
                        done.fetch_add(1, Ordering::AcqRel);
                    }
                    Outcome::Refused(
                        Refusal::NoResources | Refusal::UnknownRegion | Refusal::Busy,
                    ) => tally.not_done += 1,
                    Outcome::Forgotten | Outcome::PeerRestarted => tally.unknown += 1,
                    Outcome::InDoubt(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    })
}

/// The owner of the counter on the node of `socket`. Returns the final value of the counter.
fn host(socket: &Path, running: &Arc<AtomicU64>, over: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let (socket, running, over) = (socket.to_owned(), running.clone(), over.clone());
    thread::spawn(move || {
        let device = Device::attach(socket, "host").unwrap();
        device.set_reconnect(Some(PATIENCE));
        let counter = device.register_region("counter", 4096, Rights::ALL);
        let counter = counter.unwrap();
        running.fetch_add(1, Ordering::AcqRel);
        while !over.load(Ordering::Acquire) {
            device.check_connection().unwrap();
            thread::sleep(Duration::from_micros(200));
        }
        counter.load(0).unwrap()
    })
}

fn additions(signals: &[Signal]) -> Option<Tally> {
    if !Path::new(REGISTERS).with_file_name("covalentd").exists() {
        eprintln!("skipped: covalentd is not built");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut places = ["a", "b"].map(|name| Place::new(&directory, name));
    for place in &places {
        eventually("the link is up", || {
            let status = Client::connect(&place.socket, "test").and_then(|mut it| it.status());
            status.is_ok_and(|status| status.links.iter().all(|link| link.state == "up"))
        });
    }
    let running = Arc::new(AtomicU64::new(0));
    let (end, over) = (Arc::default(), Arc::new(AtomicBool::new(false)));
    let done = Arc::new(AtomicU64::new(0));
    let host = host(&places[1].socket, &running, &over);
    eventually("the counter is there", || {
        running.load(Ordering::Acquire) == 1
    });
    let adders = [
        adder(&places[0].socket, "b", &running, &end, &done),
        adder(&places[1].socket, "b", &running, &end, &done),
    ];
    eventually("both add", || running.load(Ordering::Acquire) == 3);
    let mut noise = Noise::new(seed());
    for round in 0..RESTARTS {
        thread::sleep(Duration::from_micros(5_000 + noise.below(60_000)));
        let place = &mut places[(round % 2) as usize];
        place.restart(signals[noise.below(signals.len() as u64) as usize]);
    }
    // Also after the last restart. On a busy machine it takes as long as it takes.
    let before = done.load(Ordering::Acquire);
    eventually("enough is added", || {
        let done = done.load(Ordering::Acquire);
        done > DONE_MIN && done > before + DONE_MIN / 10
    });
    end.store(true, Ordering::Release);
    let mut all = Tally::default();
    for adder in adders {
        let tally = adder.join().unwrap();
        eprintln!("{tally:?}");
        all.done += tally.done;
        all.not_done += tally.not_done;
        all.unknown += tally.unknown;
    }
    over.store(true, Ordering::Release);
    let counted = host.join().unwrap();
    assert!(all.done > DONE_MIN, "{all:?}");
    assert!(
        (all.done..=all.done + all.unknown).contains(&counted),
        "{counted} were added: {all:?}"
    );
    Some(all)
}

#[test]
fn no_addition_is_lost_or_doubled_when_daemons_are_killed() {
    additions(&[Signal::SIGKILL]);
}

#[test]
fn no_addition_is_lost_or_doubled_however_daemons_end() {
    additions(&[Signal::SIGKILL, Signal::SIGTERM]);
}

#[test]
fn no_addition_is_left_in_doubt_when_daemons_end_in_order() {
    if let Some(all) = additions(&[Signal::SIGTERM]) {
        assert_eq!(all.unknown, 0, "{all:?}");
    }
}

/// The daemon is stopped while verbs are posted, so they are in the queue when it is killed. The
/// next daemon cannot know which of them were executed.
#[test]
fn queued_verbs_of_a_killed_daemon_are_not_posted_again() {
    if !Path::new(REGISTERS).with_file_name("covalentd").exists() {
        eprintln!("skipped: covalentd is not built");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut place = Place::new(&directory, "a");
    eventually("it answers", || {
        Client::connect(&place.socket, "test").is_ok()
    });
    let device = Device::attach(&place.socket, "adder").unwrap();
    device.set_reconnect(Some(PATIENCE));
    let counter = device.register_region("counter", 4096, Rights::ALL);
    let counter = counter.unwrap();
    let mut verbs = device.verbs_with_depth(DEPTH as u32).unwrap();
    let region = verbs
        .open_region(Target::Local, "counter", Timeout::FOREVER)
        .unwrap();
    verbs.fetch_add(&region, 0, 1, Timeout::FOREVER).unwrap();
    place.halt();
    let one = Verb::FetchAdd {
        offset_bytes: 0,
        delta: 1,
    };
    for user_data in 0..DEPTH as u64 {
        verbs.post(&region, one, Mode::TwoPhase, user_data).unwrap();
    }
    place.restart(Signal::SIGKILL);
    let mut completions = vec![Completion::default(); DEPTH];
    while verbs.outstanding() > 0 {
        let taken = verbs.poll(&mut completions, soon()).unwrap();
        for completion in &completions[..taken] {
            assert_eq!(completion.outcome, Outcome::Forgotten);
        }
    }
    assert!(!device.next_reconnection().unwrap().in_order);
    let carried = device.carried();
    assert_eq!((carried.verbs, carried.verbs_forgotten), (0, DEPTH as u64));
    // Executes after every verb that was posted before it.
    assert_eq!(verbs.fetch_add(&region, 0, 1, Timeout::FOREVER).unwrap(), 1);
    assert_eq!(counter.load(0).unwrap(), 2);
}
