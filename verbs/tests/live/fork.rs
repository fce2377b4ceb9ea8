//! A process that forks.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use covalent::{
    Client, Completion, Device, Error, Match, Mode, Rights, Target, Timeout, Verb,
    tokio::AsyncDevice,
};
use nix::{
    libc,
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, fork},
};

use crate::nodes::{Nodes, PATIENCE, eventually};

/// Where the role below finds its daemon.
const SOCKET: &str = "COVALENT_TEST_SOCKET";
/// A frame of no type in use.
const FRAME: [u8; 64] = [0x88; 64];

fn is_forked<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Forked))
}

#[test]
fn a_child_can_use_nothing_and_takes_nothing_when_it_drops_it() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut from = b.tx_pipe(1 << 16, "p0").unwrap();
    let mut pipe = a.rx_pipe(1 << 16).unwrap();
    pipe.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(1 << 16, "p0").unwrap();
    let mut queue = a.receive_queue("queue", 1 << 12).unwrap();
    let region = a.register_region("words", 4096, Rights::ALL).unwrap();
    let mut verbs = a.verbs().unwrap();
    let remote = verbs
        .open_region(Target::Local, "words", Timeout::FOREVER)
        .unwrap();
    from.try_send(&FRAME).unwrap();
    let batch = pipe.recv(Timeout::FOREVER).unwrap();
    let socket = nodes.socket("a");
    // SAFETY: the child uses the library's calls and the allocator, and exits by `_exit`. The C
    // library keeps the allocator's locks usable across the fork.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let add = Verb::FetchAdd {
                offset_bytes: 0,
                delta: 1,
            };
            let checks = [
                is_forked(a.status()),
                is_forked(a.check_connection()),
                is_forked(a.check_process()),
                is_forked(a.notice()),
                is_forked(a.try_next_rx_pipe()),
                is_forked(a.rx_pipe(1 << 16)),
                is_forked(tx.push(&FRAME)),
                is_forked(tx.reserve(64)),
                is_forked(tx.publish()),
                is_forked(tx.flush(Timeout::FOREVER)),
                is_forked(tx.try_flush()),
                is_forked(queue.try_recv()),
                is_forked(queue.recv(Timeout::FOREVER)),
                is_forked(region.load(0)),
                is_forked(region.store(0, 1)),
                is_forked(verbs.post(&remote, add, Mode::TwoPhase, 0)),
                is_forked(verbs.try_poll(&mut [Completion::default()])),
                is_forked(verbs.fetch_add(&remote, 0, 1, Timeout::FOREVER)),
                Client::connect(&socket, "child").is_ok(),
            ];
            // Each would be given back.
            drop(batch);
            let received = is_forked(pipe.try_recv()) && is_forked(pipe.recv(Timeout::FOREVER));
            drop((pipe, tx, queue, region, verbs));
            drop(a);
            let well = received && checks.iter().all(|&well| well);
            if !well {
                eprintln!("in the child: {received}, {checks:?}");
            }
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!well)) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
        }
    }
    assert_eq!(a.status().unwrap().pipes.len(), 4);
    assert_eq!(batch.iter().collect::<Vec<_>>(), [&FRAME[..]]);
    drop(batch);
    from.try_send(&FRAME).unwrap();
    assert_eq!(pipe.recv(Timeout::FOREVER).unwrap().iter().count(), 1);
    tx.try_send(&FRAME).unwrap();
    assert_eq!(verbs.fetch_add(&remote, 0, 5, Timeout::FOREVER).unwrap(), 0);
    assert_eq!(region.load(0).unwrap(), 5);
    assert!(queue.try_recv().unwrap().is_none());
}

#[test]
fn a_child_that_drops_a_device_of_tasks_leaves_its_parent_awake() {
    let nodes = Nodes::start(&["p0"]);
    let b = nodes.attach("b");
    let mut from = b.tx_pipe(1 << 16, "p0").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut a = Some(AsyncDevice::new(nodes.attach("a")).unwrap());
        // SAFETY: as above.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                drop(a.take());
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(0) }
            }
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
            }
        }
        let a = a.unwrap();
        let mut pipe = a.rx_pipe(1 << 16).unwrap();
        pipe.bind(&Match::Any).unwrap();
        let send = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            from.try_send(&FRAME).unwrap();
        };
        let receive = async {
            let batch = tokio::time::timeout(PATIENCE, a.recv(&mut pipe)).await;
            batch.expect("the task is woken").unwrap().iter().count()
        };
        assert_eq!(tokio::join!(receive, send).0, 1);
    });
}

/// Not a test: a process that attaches and forks. It and its child wait for the end of its input.
#[test]
#[ignore = "the process of a test"]
fn parent() {
    let Some(socket) = env::var_os(SOCKET) else {
        return;
    };
    let device = Device::attach(PathBuf::from(socket), "parent").unwrap();
    let _pipe = device.rx_pipe(1 << 16).unwrap();
    // SAFETY: the child reads and ends by `_exit`.
    let in_child = matches!(unsafe { fork() }.unwrap(), ForkResult::Child);
    if !in_child {
        eprintln!("attached");
    }
    let _ = std::io::stdin().lock().read(&mut [0]);
    if in_child {
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(0) }
    }
}

#[test]
fn the_session_ends_with_its_process_although_a_child_lives() {
    let nodes = Nodes::start(&["p0"]);
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["--exact", "fork::parent", "--ignored", "--nocapture"])
        .env(SOCKET, nodes.socket("a"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output_lines = BufReader::new(process.stderr.take().unwrap());
    let mut output_lines = output_lines.lines().map_while(Result::ok);
    assert!(output_lines.any(|line| line.contains("attached")));
    let input = process.stdin.take();
    let mut client = Client::connect(nodes.socket("a"), "test").unwrap();
    assert_eq!(client.status().unwrap().sessions, 1);
    process.kill().unwrap();
    process.wait().unwrap();
    eventually("the daemon takes it back", || {
        client.status().unwrap().sessions == 0
    });
    let detached = client.status().unwrap().sessions_detached;
    assert_eq!(detached["process_ended"], 1, "{detached:?}");
    // Until now the child lived.
    drop(input);
}
