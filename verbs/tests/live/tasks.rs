//! Tasks of Tokio that wait on one device: no lost wake-up, no spinning, nothing lost by a dropped
//! future.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    sync::mpsc,
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use covalent::{
    Completion, Device, Error, GroupEvent, GroupOptions, Match, Mode, Outcome, Rights, RxPipe,
    Target, Timeout, Verb, tokio::AsyncDevice,
};
use futures::{FutureExt, StreamExt, TryStreamExt, future::join_all};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt},
    join, select,
    sync::oneshot,
    task::{LocalSet, spawn_local, yield_now},
    time::{sleep, timeout},
};

use crate::{
    bytes::{datagram, to_port},
    nodes::{Nodes, PATIENCE, soon},
    pipes::slow_echo,
};

const PIPE_BYTES: u64 = 1 << 16;
const TYPE: Match = Match::EtherType { ethertype: 0x88b6 };
const ADD: Verb<'static> = Verb::FetchAdd {
    offset_bytes: 0,
    delta: 1,
};

fn frame(number: u32) -> [u8; 100] {
    let mut frame = [0; 100];
    frame[12..14].copy_from_slice(&0x88b6_u16.to_be_bytes());
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number_in(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

fn attach(nodes: &Nodes, node: &str) -> AsyncDevice {
    AsyncDevice::new(nodes.attach(node)).unwrap()
}

fn bound<'d>(device: &'d Device) -> RxPipe<'d> {
    let mut pipe = device.rx_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&TYPE).unwrap();
    pipe
}

/// The future's result, long before a test would be killed.
async fn soon_is<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("a lost wake-up")
}

/// Counts how often a future is polled.
struct Counted<'c, F> {
    future: Pin<Box<F>>,
    polls: &'c Cell<usize>,
}

impl<F: Future> Future for Counted<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.polls.set(self.polls.get() + 1);
        self.future.as_mut().poll(context)
    }
}

fn counted<F: Future>(polls: &Cell<usize>, future: F) -> Counted<'_, F> {
    let future = Box::pin(future);
    Counted { future, polls }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    let used = usage.user_time() + usage.system_time();
    Duration::from_micros(used.num_microseconds() as u64)
}

/// Sometimes nothing, sometimes long enough for the other side to fall asleep.
fn pause(random: &mut fastrand::Rng) {
    match random.u32(0..4) {
        0 => {}
        1 => thread::yield_now(),
        2 => thread::sleep(Duration::from_micros(random.u64(0..60))),
        _ => thread::sleep(Duration::from_micros(random.u64(60..300))),
    }
}

#[tokio::test]
async fn frames_go_to_and_fro_between_two_tasks() {
    const FRAMES: u32 = 2000;
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let (mut back, mut out) = (bound(&a), a.tx_pipe(PIPE_BYTES, "p0").unwrap());
    let mut echo = b.rx_tx_pipe(PIPE_BYTES, "p0").unwrap();
    echo.bind(&TYPE).unwrap();
    let ping = async {
        for number in 0..FRAMES {
            a.send(&mut out, &frame(number)).await.unwrap();
            let batch = a.recv(&mut back).await.unwrap();
            let numbers: Vec<u32> = batch.iter().map(number_in).collect();
            assert_eq!(numbers, [number]);
        }
    };
    let pong = async {
        loop {
            b.recv(&mut echo).await.unwrap().send_all().unwrap();
        }
    };
    soon_is(async {
        select! { () = ping => {}, () = pong => {} }
    })
    .await;
}

#[tokio::test]
async fn no_wake_up_is_lost_among_three_tasks_of_one_device() {
    three_tasks_miss_nothing().await;
}

/// As in a runtime of several threads: the wake-ups come while the tasks look.
#[test]
fn no_wake_up_is_lost_if_another_thread_watches_the_descriptor() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let (end, ended) = oneshot::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(|| runtime.block_on(ended));
        // Its sender ends the runtime's thread if this one panics, too.
        let _end = end;
        futures::executor::block_on(three_tasks_miss_nothing());
    });
}

/// Frames, messages and completions, each awaited by a task of its own, with pauses in which all
/// tasks fall asleep. One wake-up that reaches the wrong task alone ends the test.
async fn three_tasks_miss_nothing() {
    const EACH: usize = 3000;
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (attach(&nodes, "a"), nodes.attach("b"));
    let words = host.register_region("words", 64, Rights::ALL).unwrap();
    let mut pipe = device.rx_pipe(1 << 20).unwrap();
    pipe.bind(&TYPE).unwrap();
    let mut queue = device.receive_queue("news", 1 << 20).unwrap();
    let verbs = device.share(device.verbs().unwrap()).unwrap();
    let remote = verbs.open_region(Target::Name("b"), "words").await.unwrap();
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let socket = nodes.socket("b");
    let (end, ended) = mpsc::channel::<()>();
    let peer = thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(seed);
        let peer = Device::attach(socket, "test").unwrap();
        let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
        let mut verbs = peer.verbs().unwrap();
        let news = verbs
            .open_region(Target::Name("a"), "news", Timeout::FOREVER)
            .unwrap();
        for number in 0..EACH {
            out.send(&frame(number as u32), soon()).unwrap();
            pause(&mut random);
            verbs.send(&news, &number.to_le_bytes(), soon()).unwrap();
            pause(&mut random);
        }
        let _ = ended.recv();
    });
    let polls = Cell::new(0);
    let frames = async {
        let mut next = 0;
        while next < EACH as u32 {
            for frame in &device.recv(&mut pipe).await.unwrap() {
                assert_eq!(number_in(frame), next);
                next += 1;
            }
        }
    };
    let messages = async {
        for number in 0..EACH {
            let message = device.recv(&mut queue).await.unwrap();
            assert_eq!(message.data, number.to_le_bytes());
        }
    };
    let additions = async {
        for number in 0..EACH as u64 {
            assert_eq!(verbs.fetch_add(&remote, 0, 1).await.unwrap(), number);
        }
    };
    soon_is(async {
        join!(
            counted(&polls, frames),
            counted(&polls, messages),
            counted(&polls, additions)
        )
    })
    .await;
    drop(end);
    peer.join().unwrap();
    assert_eq!(words.load(0).unwrap(), EACH as u64);
    let polls = polls.get();
    eprintln!("{polls} polls");
    assert!(polls <= 20 * EACH, "{polls} polls");
}

/// Three tasks sleep for 300 ms: no task is polled, and the thread uses no CPU time to speak of.
#[tokio::test]
async fn idle_tasks_are_not_polled() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let mut pipe = bound(&device);
    let mut queue = device.receive_queue("news", PIPE_BYTES).unwrap();
    let bytes = device.byte_pipe(PIPE_BYTES).unwrap();
    let mut lines = device.reader(bytes).unwrap().lines();
    let polls = Cell::new(0);
    let idle = async {
        join!(
            counted(&polls, async { device.recv(&mut pipe).await.map(drop) }),
            counted(&polls, async { device.recv(&mut queue).await.map(drop) }),
            counted(&polls, async { lines.next_line().await.map(drop) }),
        )
    };
    let before = cpu_time();
    assert!(timeout(Duration::from_millis(300), idle).await.is_err());
    let used = cpu_time() - before;
    let polls = polls.get();
    eprintln!("{polls} polls, {used:?}");
    assert!(polls <= 30, "{polls} polls");
    assert!(used <= Duration::from_millis(30), "{used:?}");
}

/// Futures of every kind are dropped after one poll, or after a moment, until they are ready.
#[tokio::test]
async fn dropped_futures_lose_nothing() {
    const EACH: usize = 1000;
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (attach(&nodes, "a"), nodes.attach("b"));
    let _words = host.register_region("words", 64, Rights::ALL).unwrap();
    let mut pipe = device.rx_pipe(1 << 20).unwrap();
    pipe.bind(&TYPE).unwrap();
    let mut queue = device.receive_queue("news", 1 << 20).unwrap();
    let verbs = device.share(device.verbs().unwrap()).unwrap();
    let remote = verbs.open_region(Target::Name("b"), "words").await.unwrap();
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let socket = nodes.socket("b");
    let peer = thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(seed);
        let peer = Device::attach(socket, "test").unwrap();
        let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
        let mut verbs = peer.verbs().unwrap();
        let news = verbs
            .open_region(Target::Name("a"), "news", Timeout::FOREVER)
            .unwrap();
        for number in 0..EACH {
            out.send(&frame(number as u32), soon()).unwrap();
            pause(&mut random);
            verbs.send(&news, &number.to_le_bytes(), soon()).unwrap();
            pause(&mut random);
        }
        out.flush(soon()).unwrap();
    });
    let (mut frames, mut messages, mut additions) = (0, 0, 0);
    let (mut dropped, mut posted) = (0, None);
    let mut random = fastrand::Rng::with_seed(!seed);
    let until = soon();
    while (frames, messages, additions) != (EACH, EACH, EACH) {
        assert!(Instant::now() < until, "{frames} {messages} {additions}");
        let one_frame = async {
            let batch = device.recv(&mut pipe).await.unwrap();
            let number = number_in(batch.iter().next().unwrap());
            batch.free(1);
            number as usize
        };
        let one_message = async {
            let message = device.recv(&mut queue).await.unwrap();
            usize::from_le_bytes(message.data.try_into().unwrap())
        };
        let posted_verb =
            posted.get_or_insert_with(|| verbs.post(&remote, ADD, Mode::TwoPhase).unwrap());
        let moment = Duration::from_micros(random.u64(0..300));
        select! {
            biased;
            number = one_frame, if random.bool() => {
                assert_eq!(number, frames);
                frames += 1;
            }
            number = one_message, if random.bool() => {
                assert_eq!(number, messages);
                messages += 1;
            }
            completion = posted_verb.wait(), if random.bool() && additions < EACH => {
                assert_eq!(completion.unwrap().outcome, Outcome::Old(additions as u64));
                additions += 1;
                posted = None;
            }
            () = sleep(moment) => dropped += 1,
        }
    }
    eprintln!("{dropped} times all were dropped");
    peer.join().unwrap();
}

/// Verbs whose futures are dropped are executed, and give their entries of the queue back.
#[tokio::test]
async fn a_dropped_verb_is_executed_and_frees_its_entry() {
    const VERBS: u64 = 50;
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (attach(&nodes, "a"), nodes.attach("b"));
    let words = host.register_region("words", 64, Rights::ALL).unwrap();
    let verbs = device.share(device.verbs_with_depth(2).unwrap()).unwrap();
    let remote = verbs.open_region(Target::Name("b"), "words").await.unwrap();
    let mut posted = 0;
    soon_is(async {
        while posted < VERBS {
            match verbs.post(&remote, ADD, Mode::TwoPhase) {
                Ok(_dropped_at_once) => posted += 1,
                Err(Error::QueueFull { .. }) => {
                    // Waits for room.
                    assert!(verbs.fetch_add(&remote, 8, 1).now_or_never().is_none());
                    sleep(Duration::from_millis(1)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        verbs.fetch_add(&remote, 16, 1).await.unwrap();
    })
    .await;
    while words.load(0).unwrap() < VERBS {
        soon_is(yield_now()).await;
    }
    soon_is(async {
        while verbs.outstanding() > 0 {
            verbs.fetch_add(&remote, 24, 1).await.unwrap();
        }
    })
    .await;
    assert_eq!(words.load(0).unwrap(), VERBS);
}

/// More tasks than the queue has entries.
#[tokio::test]
async fn verbs_of_many_tasks_wait_for_room_and_complete_once() {
    const TASKS: u64 = 40;
    const EACH: u64 = 20;
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (attach(&nodes, "a"), nodes.attach("b"));
    let words = host.register_region("words", 64, Rights::ALL).unwrap();
    let verbs = device.share(device.verbs_with_depth(3).unwrap()).unwrap();
    let remote = verbs.open_region(Target::Name("b"), "words").await.unwrap();
    let tasks = (0..TASKS).map(|_| async {
        let mut found = Vec::new();
        for _ in 0..EACH {
            found.push(verbs.fetch_add(&remote, 0, 1).await.unwrap());
        }
        found
    });
    let mut found: Vec<u64> = soon_is(join_all(tasks)).await.concat();
    found.sort_unstable();
    assert!(found.into_iter().eq(0..TASKS * EACH));
    assert_eq!(words.load(0).unwrap(), TASKS * EACH);
    assert_eq!(verbs.outstanding(), 0);
}

/// The lane notifies no task of a completion that is taken before it looks at the request for a
/// wake-up.
#[tokio::test]
async fn a_completion_that_another_task_takes_wakes_its_own_task() {
    const ROUNDS: u64 = 500;
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let words = device.register_region("words", 64, Rights::ALL).unwrap();
    let verbs = device.share(device.verbs().unwrap()).unwrap();
    let local = verbs.open_region(Target::Local, "words").await.unwrap();
    for _ in 0..ROUNDS {
        let waits = verbs.fetch_add(&local, 0, 1);
        let polls = async {
            let mut posted = verbs.post(&local, ADD, Mode::OnePhase).unwrap();
            while posted.wait().now_or_never().is_none() {
                yield_now().await;
            }
        };
        let (waited, ()) = soon_is(async { join!(waits, polls) }).await;
        waited.unwrap();
    }
    assert_eq!(words.load(0).unwrap(), 2 * ROUNDS);
}

#[tokio::test]
async fn an_entry_that_is_given_back_wakes_a_task_that_waits_for_room() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let words = device.register_region("words", 64, Rights::ALL).unwrap();
    let verbs = device.share(device.verbs_with_depth(1).unwrap()).unwrap();
    let local = verbs.open_region(Target::Local, "words").await.unwrap();
    let mut held = verbs.post(&local, ADD, Mode::OnePhase).unwrap();
    soon_is(held.wait()).await.unwrap();
    let give_back = async {
        // Nothing else wakes the other task by then.
        sleep(Duration::from_millis(20)).await;
        assert_eq!(words.load(0).unwrap(), 1);
        drop(held);
    };
    let (added, ()) = soon_is(async { join!(verbs.fetch_add(&local, 0, 1), give_back) }).await;
    assert_eq!(added.unwrap(), 1);
}

#[tokio::test]
async fn the_calls_of_a_shared_queue_are_those_of_a_queue() {
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (attach(&nodes, "a"), nodes.attach("b"));
    let words = host.register_region("words", 64, Rights::ALL).unwrap();
    let mut queue = host.receive_queue("news", PIPE_BYTES).unwrap();
    let verbs = device.share(device.verbs().unwrap()).unwrap();
    let remote = verbs.open_region(Target::Name("b"), "words").await.unwrap();
    let news = verbs.open_region(Target::Name("b"), "news").await.unwrap();
    soon_is(async {
        verbs.write(&remote, 0, &7_u64.to_le_bytes()).await.unwrap();
        assert_eq!(verbs.swap(&remote, 0, 5).await.unwrap(), 7);
        let swapped = verbs.compare_and_swap(&remote, 0, 6, 1).await.unwrap();
        assert_eq!(swapped, Err(5));
        assert_eq!(verbs.fetch_or(&remote, 0, 2).await.unwrap(), 5);
        assert_eq!(verbs.fetch_and(&remote, 0, 6).await.unwrap(), 7);
        let (mut one, mut other) = ([0; 8], [0; 16]);
        let reads = join!(
            verbs.read(&remote, 0, &mut one),
            verbs.read(&remote, 0, &mut other)
        );
        assert!(matches!(reads, (Ok(()), Ok(()))));
        assert_eq!((one[0], other[0], other[15]), (6, 6, 0));
        verbs.send(&news, b"news").await.unwrap();
        assert_eq!(queue.recv(soon()).unwrap().data, b"news");
        let read = Verb::Read {
            offset_bytes: 0,
            len_bytes: 1,
        };
        let mut posted = verbs.post(&remote, read, Mode::OnePhase).unwrap();
        assert_eq!(posted.data(), None);
        let completion = posted.wait().await.unwrap();
        assert_eq!(posted.wait().await.unwrap(), completion);
        assert_eq!(posted.data(), Some(vec![6]));
        let refused = verbs.fetch_add(&news, 0, 1).await;
        assert!(matches!(refused, Err(Error::VerbRefused { .. })));
        let unknown = verbs.open_region(Target::Name("b"), "nothing").await;
        assert!(matches!(unknown, Err(Error::VerbRefused { .. })));
    })
    .await;
    assert_eq!(words.load(0).unwrap(), 6);
    let mut verbs = verbs.into_inner();
    verbs.post(&remote, ADD, Mode::TwoPhase, 9).unwrap();
    let mut completions = [Completion::default()];
    assert_eq!(
        soon_is(device.poll(&mut verbs, &mut completions))
            .await
            .unwrap(),
        1
    );
    assert_eq!(completions[0].user_data, 9);
}

#[tokio::test]
async fn a_byte_pipe_is_read_as_lines() {
    let nodes = Nodes::start(&["p0"]);
    let (device, peer) = (attach(&nodes, "a"), nodes.attach("b"));
    let mut pipe = device.byte_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&to_port()).unwrap();
    let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let mut reader = device.reader(pipe).unwrap();
    let write = async {
        for text in ["one\ntw", "o\nthr", "ee\nfour", "!"] {
            out.try_send(&datagram(text.as_bytes())).unwrap();
            sleep(Duration::from_millis(2)).await;
        }
    };
    let read = async {
        let mut lines = (&mut reader).lines();
        for expected in ["one", "two", "three"] {
            let mut line = None;
            while line.is_none() {
                // Dropped reads lose nothing.
                let read = timeout(Duration::from_micros(500), lines.next_line()).await;
                line = read.ok().map(|line| line.unwrap().unwrap());
            }
            assert_eq!(line.as_deref(), Some(expected));
        }
        let mut rest = [0; 5];
        reader.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"four!");
    };
    soon_is(async { join!(write, read) }).await;
    assert!(reader.get_ref().held().is_empty());
    assert_eq!(reader.read(&mut []).await.unwrap(), 0);
}

#[tokio::test]
async fn messages_are_a_stream_until_the_daemon_ends() {
    const MESSAGES: usize = 200;
    let mut nodes = Nodes::start(&["p0"]);
    let (device, host) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let queue = host.receive_queue("news", PIPE_BYTES).unwrap();
    let messages = host.messages(queue).unwrap();
    let verbs = device.share(device.verbs().unwrap()).unwrap();
    let news = verbs.open_region(Target::Name("b"), "news").await.unwrap();
    let send = async {
        for number in 0..MESSAGES {
            verbs.send(&news, &number.to_le_bytes()).await.unwrap();
        }
    };
    let mut messages = messages.fuse();
    let take = messages.by_ref().take(MESSAGES).try_collect::<Vec<_>>();
    let ((), taken) = soon_is(async { join!(send, take) }).await;
    for (number, message) in taken.unwrap().iter().enumerate() {
        assert_eq!(message.data, number.to_le_bytes());
        assert_eq!(message.sender, device.address());
    }
    let (ended, ()) = soon_is(async {
        join!(messages.next(), async {
            yield_now().await;
            nodes.stop("b");
        })
    })
    .await;
    assert!(matches!(ended, Some(Err(Error::DaemonGone { .. }))));
    assert!(soon_is(messages.next()).await.is_none());
}

/// All of them, not only the first one that looks.
#[tokio::test]
async fn the_end_of_the_daemon_ends_every_wait() {
    let mut nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let (mut one, mut other) = (bound(&device), device.rx_pipe(PIPE_BYTES).unwrap());
    let mut queue = device.receive_queue("news", PIPE_BYTES).unwrap();
    let ends = soon_is(async {
        join!(
            async { device.recv(&mut one).await.map(drop) },
            async { device.recv(&mut other).await.map(drop) },
            async { device.recv(&mut queue).await.map(drop) },
            async {
                sleep(Duration::from_millis(5)).await;
                nodes.stop("a");
            }
        )
    })
    .await;
    for end in [ends.0, ends.1, ends.2] {
        assert!(matches!(end, Err(Error::DaemonGone { .. })), "{end:?}");
    }
}

#[tokio::test]
async fn waits_go_on_with_the_next_daemon() {
    let mut nodes = Nodes::start(&["p0"]);
    let (device, peer) = (attach(&nodes, "a"), attach(&nodes, "b"));
    device.set_reconnect(Some(PATIENCE));
    let mut pipe = bound(&device);
    let mut queue = device.receive_queue("news", PIPE_BYTES).unwrap();
    let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let verbs = peer.share(peer.verbs().unwrap()).unwrap();
    let news = verbs.open_region(Target::Name("a"), "news").await.unwrap();
    // The thread that reconnects waits for the next daemon.
    let restart = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        nodes.stop("a");
        nodes.respawn("a");
        nodes
    });
    let received = async {
        join!(async { device.recv(&mut pipe).await.map(drop) }, async {
            device.recv(&mut queue).await.map(drop)
        },)
    };
    let send = async {
        // Frames before the new pipe is bound are lost.
        while device.next_reconnection().is_none() {
            sleep(Duration::from_millis(5)).await;
        }
        verbs.send(&news, b"news").await.unwrap();
        out.try_send(&frame(0)).unwrap();
    };
    let (received, ()) = soon_is(async { join!(received, send) }).await;
    assert!(matches!(received, (Ok(()), Ok(()))), "{received:?}");
    drop(restart.join().unwrap());
}

/// The thread of the tasks does not wait for the daemon. Frames and verbs of the meantime are
/// carried over, once.
#[tokio::test]
async fn other_tasks_run_while_the_daemon_is_gone() {
    const VERBS: u64 = 20;
    let mut nodes = Nodes::start(&["p0"]);
    let (device, host) = (attach(&nodes, "a"), nodes.attach("b"));
    let words = host.register_region("words", 64, Rights::ALL).unwrap();
    let mut sink = bound(&host);
    device.set_reconnect(Some(PATIENCE));
    let mut out = device.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let queue = device.receive_queue("news", PIPE_BYTES).unwrap();
    let mut messages = device.messages(queue).unwrap();
    let verbs = device.share(device.verbs().unwrap()).unwrap();
    let remote = verbs.open_region(Target::Name("b"), "words").await.unwrap();
    nodes.stop("a");
    let added = Cell::new(0);
    let add = async {
        join_all((0..VERBS).map(|_| async {
            verbs.fetch_add(&remote, 0, 1).await.unwrap();
            added.set(added.get() + 1);
        }))
        .await;
    };
    let next = async { messages.next().await.unwrap().unwrap().data };
    let send = async {
        // The pause sees the end of the daemon.
        sleep(Duration::from_millis(2)).await;
        device.send(&mut out, &frame(7)).await.unwrap();
    };
    let restart = async {
        // Each tick of this timer needs the thread.
        for _ in 0..100 {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(added.get(), 0);
        assert!(device.next_reconnection().is_none());
        nodes.respawn("a");
        while device.next_reconnection().is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        let news = verbs.open_region(Target::Local, "news").await.unwrap();
        verbs.send(&news, b"news").await.unwrap();
    };
    let ((), data, (), ()) = soon_is(async { join!(add, next, send, restart) }).await;
    assert_eq!(data, b"news");
    assert_eq!(words.load(0).unwrap(), VERBS);
    let batch = sink.recv(soon()).unwrap();
    assert_eq!(batch.iter().map(number_in).collect::<Vec<_>>(), [7]);
}

#[tokio::test]
async fn a_wait_for_the_next_daemon_ends_after_the_patience() {
    let mut nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    device.set_reconnect(Some(Duration::from_millis(50)));
    let mut pipe = bound(&device);
    let queue = device.receive_queue("news", PIPE_BYTES).unwrap();
    let mut messages = device.messages(queue).unwrap();
    nodes.stop("a");
    let before = Instant::now();
    let (received, message) = soon_is(async {
        join!(
            async { device.recv(&mut pipe).await.map(drop) },
            messages.next()
        )
    })
    .await;
    assert!(matches!(received, Err(Error::DaemonGone { .. })));
    assert!(matches!(message, Some(Err(Error::DaemonGone { .. }))));
    assert!(before.elapsed() >= Duration::from_millis(40));
}

#[tokio::test]
async fn a_full_pipe_makes_the_sender_wait_for_room() {
    const FRAMES: u32 = 3000;
    let nodes = Nodes::start(&["p0"]);
    let (device, peer) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let mut sink = peer.rx_pipe(1 << 20).unwrap();
    sink.bind(&TYPE).unwrap();
    let mut out = device.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let waits = Cell::new(0);
    let send = async {
        for number in 0..FRAMES {
            device.send(&mut out, &frame(number)).await.unwrap();
        }
        device.flush(&mut out).await.unwrap();
        assert_eq!(out.in_flight_bytes(), 0);
    };
    let receive = async {
        let mut next = 0;
        while next < FRAMES {
            for frame in &peer.recv(&mut sink).await.unwrap() {
                assert_eq!(number_in(frame), next);
                next += 1;
            }
        }
    };
    soon_is(async { join!(counted(&waits, send), receive) }).await;
    assert!(waits.get() > 3, "the pipe was never full");
}

#[tokio::test]
async fn a_task_waits_until_the_port_has_all_frames_sent_back() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), attach(&nodes, "b"));
    let mut echo = slow_echo(&a, &b);
    assert!(!echo.try_flush().unwrap());
    let waits = Cell::new(0);
    soon_is(counted(&waits, b.flush(&mut echo))).await.unwrap();
    assert!(echo.try_flush().unwrap());
    assert!((2..10).contains(&waits.get()), "{} polls", waits.get());
    let other = attach(&nodes, "b");
    let flushed = other.flush(&mut echo).await;
    assert!(matches!(flushed, Err(Error::Invalid(_))), "{flushed:?}");
}

#[tokio::test]
async fn a_device_of_tasks_attaches_to_the_lane_of_a_port() {
    let nodes = Nodes::start(&["p0"]);
    let attach = |port: &str| AsyncDevice::attach_for_port(nodes.socket("a"), "test", port, soon());
    let device = attach("p0").unwrap();
    let mut pipe = device.tx_pipe(PIPE_BYTES, "p0").unwrap();
    device.send(&mut pipe, &frame(0)).await.unwrap();
    let unknown = attach("p1").map(drop);
    assert!(matches!(unknown, Err(Error::UnknownPort { .. })));
}

/// Whatever else is done with the device while tasks wait.
#[tokio::test]
async fn other_calls_of_the_device_take_no_wake_up_from_a_task() {
    let nodes = Nodes::start(&["p0"]);
    let (device, peer) = (attach(&nodes, "a"), nodes.attach("b"));
    let mut pipe = bound(&device);
    let mut idle = device.rx_pipe(PIPE_BYTES).unwrap();
    let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
    for number in 0..200 {
        let disturb = async {
            yield_now().await;
            out.send(&frame(number), soon()).unwrap();
            out.flush(soon()).unwrap();
            if number % 2 == 0 {
                device.arm().unwrap();
            } else {
                assert!(idle.recv(Duration::from_micros(200)).is_err());
            }
            // Arms before Tokio reports what happened.
            assert!(device.recv(&mut idle).now_or_never().is_none());
        };
        let receive = async {
            device
                .recv(&mut pipe)
                .await
                .map(|batch| batch.iter().count())
        };
        let (received, ()) = soon_is(async { join!(receive, disturb) }).await;
        assert_eq!(received.unwrap(), 1);
    }
}

#[tokio::test]
async fn an_object_of_another_device_is_refused() {
    let nodes = Nodes::start(&["p0"]);
    let (device, other) = (attach(&nodes, "a"), attach(&nodes, "a"));
    let mut pipe = bound(&other);
    let mut out = other.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let received = device.recv(&mut pipe).await.map(drop);
    assert!(matches!(received, Err(Error::Invalid(_))));
    let sent = device.send(&mut out, &frame(0)).await;
    assert!(matches!(sent, Err(Error::Invalid(_))));
    let shared = device.share(other.verbs().unwrap()).map(drop);
    assert!(matches!(shared, Err(Error::Invalid(_))));
}

/// A task that always finds something gives the others their turn.
#[tokio::test]
async fn a_busy_task_yields() {
    let nodes = Nodes::start(&["p0"]);
    let (device, peer) = (attach(&nodes, "a"), nodes.attach("b"));
    let mut pipe = bound(&device);
    let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
    out.try_send(&frame(0)).unwrap();
    let turned = Cell::new(false);
    let busy = async {
        while !turned.get() {
            device.recv(&mut pipe).await.unwrap().keep();
        }
    };
    let turn = async {
        sleep(Duration::from_millis(1)).await;
        turned.set(true);
    };
    soon_is(async { join!(busy, turn) }).await;
}

/// Spawned tasks outlive borrows: the device is leaked. Its pipes are given back when they end.
#[test]
fn spawned_tasks_share_a_device() {
    let nodes = Nodes::start(&["p0"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let device: &'static AsyncDevice = Box::leak(Box::new(attach(&nodes, "a")));
        let receiver = spawn_local(async {
            let mut pipe = bound(device);
            let received = device.recv(&mut pipe).await;
            received.map(|batch| batch.iter().count())
        });
        let sender = spawn_local(async {
            let mut out = device.tx_pipe(PIPE_BYTES, "p0").unwrap();
            device.send(&mut out, &frame(0)).await
        });
        soon_is(sender).await.unwrap().unwrap();
        let peer = nodes.attach("b");
        let mut out = peer.tx_pipe(PIPE_BYTES, "p0").unwrap();
        out.send(&frame(1), soon()).unwrap();
        assert_eq!(soon_is(receiver).await.unwrap().unwrap(), 1);
    });
}

/// A group, its application's verbs and a pipe, on one device each.
#[tokio::test]
async fn a_group_and_verbs_run_in_two_tasks() {
    const MULTICASTS: usize = 50;
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let host = nodes.attach("b");
    let words = host.register_region("words", 64, Rights::ALL).unwrap();
    let options = || GroupOptions::new().founders(2).stateless(true);
    let polls = Cell::new(0);
    let member = async |device: &AsyncDevice| {
        let mut group = device.group("room", options()).unwrap();
        let (mut sent, mut delivered) = (0, 0);
        let mut is_in = false;
        while delivered < 2 * MULTICASTS {
            while is_in && sent < MULTICASTS && group.multicast(b"news").is_ok() {
                sent += 1;
            }
            // Dropped futures lose no event.
            let event = timeout(Duration::from_millis(3), device.next(&mut group)).await;
            match event {
                Ok(Ok(GroupEvent::View(view))) => is_in = view.members.len() == 2,
                Ok(Ok(GroupEvent::Delivered { .. })) => delivered += 1,
                Ok(Ok(_)) | Err(_) => {}
                Ok(Err(error)) => panic!("{error}"),
            }
        }
    };
    let verbs_a = a.share(a.verbs().unwrap()).unwrap();
    let remote = verbs_a
        .open_region(Target::Name("b"), "words")
        .await
        .unwrap();
    let additions = async {
        for number in 0..200 {
            assert_eq!(verbs_a.fetch_add(&remote, 0, 1).await.unwrap(), number);
        }
    };
    soon_is(async { join!(counted(&polls, member(&a)), member(&b), additions) }).await;
    assert_eq!(words.load(0).unwrap(), 200);
}

/// An idle group ticks, and does nothing else.
#[tokio::test]
async fn an_idle_group_is_polled_at_its_ticks() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let options = GroupOptions::new().founders(1).stateless(true);
    let mut group = device.group("room", options).unwrap();
    let polls = Cell::new(0);
    let first = soon_is(device.next(&mut group))
        .await
        .map(|event| matches!(event, GroupEvent::View(_)));
    assert!(first.unwrap());
    let idle = counted(&polls, device.next(&mut group));
    assert!(timeout(Duration::from_millis(300), idle).await.is_err());
    let polls = polls.get();
    eprintln!("{polls} polls");
    assert!(polls <= 60, "{polls} polls in 15 ticks");
}
