//! Failures: no daemon, a daemon that stops while applications use it, an application that exits.

use std::{
    fs,
    io::ErrorKind,
    os::unix::net::UnixListener,
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use covalent::{
    Client, Completion, Device, Error, Match, Mode, REQUEST_TIMEOUT, Rights, Target, Timeout, Verb,
    event::EventKind,
};
use covalent_api::{
    control::{ControlReply, NOT_FOR_APPLICATIONS},
    datagram,
};
use covalent_ipc::seqpacket::{Connection, Listener};

use crate::nodes::{Nodes, eventually, soon};

/// Limit within which a waiting call must detect that the daemon is gone. It takes microseconds,
/// but the machine may be busy.
const PROMPT: Duration = Duration::from_secs(5);

fn is_gone<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(
        matches!(result, Err(Error::DaemonGone { .. })),
        "{result:?}"
    );
}

#[test]
fn without_a_daemon_the_error_names_the_socket() {
    let error = Device::attach("/nonexistent/covalentd.sock", "test").unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }));
    assert!(
        error.to_string().contains("/nonexistent/covalentd.sock"),
        "{error}"
    );
}

#[test]
fn a_path_that_is_not_of_covalentd_is_named_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let attach = |path: &Path| {
        let error = Device::attach(path, "test").unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        error.to_string()
    };
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let stream = directory.path().join("stream");
    let _stream = UnixListener::bind(&stream).unwrap();
    for path in [&file, &stream, &directory.path().to_owned()] {
        let text = attach(path);
        assert!(text.contains("give `covalentd.sock`"), "{text}");
    }
    let left = directory.path().join("left");
    drop(UnixListener::bind(&left).unwrap());
    assert!(attach(&left).contains("stopped daemon"));
    let control = directory.path().join("control.sock");
    let listener = Listener::bind(&control).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let client = listener.accept().unwrap();
            let mut greeting = [0; 1024];
            client.recv(&mut greeting).unwrap();
            let reason = NOT_FOR_APPLICATIONS.to_owned();
            let reply = datagram::encode(&ControlReply::Refused { reason }).unwrap();
            client.send(&reply, &[]).unwrap();
        });
        let text = attach(&control);
        assert!(
            text.contains("covalent-control listens") && text.contains("give `covalentd.sock`"),
            "{text}"
        );
    });
}

/// A stopped daemon: its socket exists, but no connection gets a reply. Once enough connections
/// wait, none is accepted.
#[test]
fn attaching_ends_with_its_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let _listener = Listener::bind(&socket).unwrap();
    let soon_over = || Instant::now() + Duration::from_millis(20);
    let mut accepted = Vec::new();
    let full = loop {
        match Connection::connect_timeout(&socket, Duration::from_millis(20)) {
            Ok(connection) => accepted.push(connection),
            Err(error) => break error,
        }
        if accepted.len() == 1 {
            let start = Instant::now();
            for error in [
                Device::attach_to_lane(&socket, "test", 0, soon_over()).unwrap_err(),
                Device::attach_for_port(&socket, "test", "p0", soon_over()).unwrap_err(),
            ] {
                assert!(matches!(error, Error::Deadline { .. }), "{error}");
            }
            assert!(start.elapsed() < PROMPT);
        }
        assert!(accepted.len() < 10_000, "the backlog has an end");
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    let start = Instant::now();
    let error = Client::connect_timeout(&socket, "test", soon_over()).unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    assert!(start.elapsed() < PROMPT);
}

#[test]
fn a_lane_that_is_not_there_is_refused() {
    let nodes = Nodes::start(&["p0"]);
    let error = Device::attach_to_lane(nodes.socket("a"), "test", 9, REQUEST_TIMEOUT).unwrap_err();
    assert!(
        matches!(&error, Error::Refused { reason, .. } if !reason.is_empty()),
        "{error}"
    );
}

/// Runs `wait` in a thread of its own, ends the daemon once it sleeps, and checks that it notices.
fn notices(what: &str, wait: impl FnOnce(&Device) -> Result<(), Error> + Send) {
    let mut nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("b");
    thread::scope(|scope| {
        let (waits, is_waiting) = mpsc::channel();
        let waiter = scope.spawn(move || {
            waits.send(()).unwrap();
            let result = wait(&device);
            (result, Instant::now())
        });
        is_waiting.recv().unwrap();
        // Long enough to be asleep; if it is not, the test is only easier to pass.
        thread::sleep(Duration::from_millis(50));
        let ended = Instant::now();
        nodes.stop("b");
        let (result, noticed) = waiter.join().unwrap();
        assert!(
            matches!(result, Err(Error::DaemonGone { .. })),
            "{what}: {result:?}"
        );
        assert!(noticed - ended < PROMPT, "{what}");
    });
}

/// Not only once the pipe is full.
#[test]
fn a_program_that_only_sends_notices_the_daemons_end() {
    let mut nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("b");
    let mut pipe = device.tx_pipe(1 << 16, "p0").unwrap();
    pipe.try_send(&[0x88; 64]).unwrap();
    nodes.stop("b");
    let sent = (0..100)
        .take_while(|_| {
            thread::sleep(Duration::from_millis(2));
            pipe.try_send(&[0x88; 64]).is_ok()
        })
        .count();
    assert!(sent < 10, "{sent} frames were sent to no daemon");
    is_gone(pipe.try_send(&[0x88; 64]));
    is_gone(pipe.publish());
}

#[test]
fn calls_that_wait_notice_the_daemons_end() {
    notices("recv", |device| {
        let mut pipe = device.rx_pipe(1 << 16)?;
        pipe.recv(Timeout::FOREVER).map(drop)
    });
    notices("recv of a message", |device| {
        let mut queue = device.receive_queue("queue", 1 << 12)?;
        queue.recv(Timeout::FOREVER).map(drop)
    });
    notices("recv_more_than", |device| {
        let mut pipe = device.byte_pipe(1 << 16)?;
        pipe.recv_more_than(100, Timeout::FOREVER).map(drop)
    });
    notices("in-place recv", |device| {
        let mut pipe = device.rx_tx_pipe(1 << 16, "p0")?;
        pipe.recv(Timeout::FOREVER).map(drop)
    });
    notices("next_rx_pipe", |device| {
        device.next_rx_pipe(Timeout::FOREVER).map(drop)
    });
    notices("verbs", |device| {
        let _region = device.register_region("own", 64, Rights::ALL)?;
        let mut verbs = device.verbs()?;
        let own = verbs.open_region(Target::Local, "own", Timeout::FOREVER)?;
        loop {
            verbs.fetch_add(&own, 0, 1, Timeout::FOREVER)?;
        }
    });
}

#[test]
fn a_subscriber_sees_events_and_the_daemons_end() {
    let mut nodes = Nodes::start(&["p0"]);
    let mut client = Client::connect(nodes.socket("b"), "test").unwrap();
    client.subscribe().unwrap();
    let device = nodes.attach("b");
    let mut last = None;
    // On a busy machine a link may fail and come back meanwhile.
    let is_of_link = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::LinkUp { .. }
                | EventKind::LinkDown { .. }
                | EventKind::NodeReachable { .. }
                | EventKind::NodeUnreachable { .. }
        )
    };
    let mut next = |client: &mut Client, deadline| {
        loop {
            let event = client.next_event(deadline)?;
            assert!(
                last.is_none_or(|last| event.sequence == last + 1),
                "none is missed"
            );
            last = Some(event.sequence);
            if !is_of_link(&event.kind) {
                return Ok::<_, Error>(format!("{:?}", event.kind));
            }
        }
    };
    assert!(next(&mut client, soon()).unwrap().contains("Attached"));
    // Events that come while a reply is awaited are kept.
    drop(device);
    eventually("the session has ended", || {
        client.status().unwrap().sessions == 0
    });
    assert!(next(&mut client, soon()).unwrap().contains("Detached"));
    let error = next(&mut client, Instant::now() + Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    nodes.stop("b");
    assert!(next(&mut client, soon()).unwrap().contains("Stopping"));
    is_gone(client.next_event(soon()));
    is_gone(client.status());
}

#[test]
fn every_call_fails_after_the_daemons_end_and_none_blocks() {
    let mut nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("b");
    let region = device.register_region("own", 64, Rights::ALL).unwrap();
    let mut rx = device.rx_pipe(1 << 16).unwrap();
    let mut bytes = device.byte_pipe(1 << 16).unwrap();
    let mut echo = device.rx_tx_pipe(1 << 16, "p0").unwrap();
    let mut tx = device.tx_pipe(1 << 16, "p0").unwrap();
    let mut verbs = device.verbs_with_depth(8).unwrap();
    let own = verbs
        .open_region(Target::Local, "own", Timeout::FOREVER)
        .unwrap();
    nodes.stop("b");

    // Those that do not wait look at the daemon now and then.
    let poll_until_gone = |what: &str, poll: &mut dyn FnMut() -> Result<(), Error>| {
        let deadline = Instant::now() + PROMPT;
        loop {
            match poll() {
                Err(Error::DaemonGone { .. }) => return,
                Err(Error::QueueFull { .. } | Error::PipeFull { .. }) | Ok(()) => {}
                Err(other) => panic!("{what}: {other}"),
            }
            assert!(Instant::now() < deadline, "{what} never noticed");
        }
    };
    poll_until_gone("recv", &mut || rx.try_recv().map(drop));
    poll_until_gone("in-place recv", &mut || echo.try_recv().map(drop));
    poll_until_gone("poll_rx_pipe", &mut || device.try_next_rx_pipe().map(drop));
    poll_until_gone("send", &mut || tx.try_send(&[0; 64]));
    // Only once the pipe is full.
    poll_until_gone("reserve", &mut || {
        tx.reserve(64).map(|room| room.commit()).map(drop)
    });
    poll_until_gone("poll_more_than", &mut || {
        bytes.try_recv_more_than(9).map(drop)
    });
    let mut completions = [Completion::default()];
    poll_until_gone("post", &mut || {
        verbs.post(
            &own,
            Verb::FetchAdd {
                offset_bytes: 0,
                delta: 1,
            },
            Mode::TwoPhase,
            0,
        )?;
        Ok(())
    });
    poll_until_gone("poll", &mut || verbs.try_poll(&mut completions).map(drop));

    is_gone(rx.recv(soon()).map(drop));
    is_gone(bytes.recv_more_than(9, soon()).map(drop));
    is_gone(echo.recv(soon()).map(drop));
    is_gone(device.next_rx_pipe(soon()));
    is_gone(tx.flush(soon()));
    is_gone(tx.try_flush());
    is_gone(device.status());
    is_gone(device.check_connection());
    is_gone(rx.bind(&Match::Any));
    is_gone(device.rx_pipe(1 << 16).map(drop));
    is_gone(device.register_region("other", 64, Rights::ALL).map(drop));
    // The memory is still this application's.
    region.store(0, 7).unwrap();
    assert_eq!(region.load(0).unwrap(), 7);
}

#[test]
fn resources_of_dropped_objects_are_reclaimed() {
    let nodes = Nodes::start(&["p0"]);
    let mut watcher = Client::connect(nodes.socket("b"), "test").unwrap();
    let device = nodes.attach("b");
    let pipe = device.rx_pipe(1 << 16).unwrap();
    let _region = device.register_region("own", 64, Rights::ALL).unwrap();
    let verbs = device.verbs().unwrap();
    assert_eq!(watcher.status().unwrap().pipes.len(), 3);
    drop(pipe);
    drop(verbs);
    eventually("pipes are closed", || {
        watcher.status().unwrap().pipes.is_empty()
    });
    drop(device.verbs().unwrap());
    drop(device);
    eventually("the session has ended", || {
        let status = watcher.status().unwrap();
        status.sessions == 0 && status.regions.is_empty()
    });
}
