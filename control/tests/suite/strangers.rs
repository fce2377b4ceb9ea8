//! Tests that an unprivileged local user cannot disturb control in a way that others notice.

use std::{
    fs::{self, Permissions},
    io::{self, IoSlice, Read, Write},
    mem::MaybeUninit,
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    control::{ControlReply, ControlRequest},
    datagram,
};
use covalent_control::{
    answers,
    clients::Descriptors,
    grpc::{self, STREAMS},
};
use covalent_grpc_schema::v1::Filter;
use covalent_ipc::seqpacket::{Connection, Listener};
use rustix::{
    cmsg_space,
    net::{
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::set_socket_linger,
    },
    thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use tonic::Code;

use crate::{
    agreement::{self, Played},
    client::{PCAP_PORT, get, get_as, send_request, send_request_bytes},
    daemon::Running,
    fixture,
    grpc::{Client, play, quick},
    namespace::skip,
};

/// The unprivileged user and, on Debian, group.
const STRANGER: u32 = 65_534;

/// The user that one test runs control as.
const OWN_USER: u32 = 65_533;

/// How long a descriptor takes to be closed here.
const SLOW: Duration = Duration::from_secs(6);

/// Far less than that, on a busy machine.
const SOON: Duration = Duration::from_secs(2);

/// Does this on a thread of a stranger. `None` without the privilege to become one.
fn as_stranger<T: Send + 'static>(does: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    as_user(STRANGER, does)
}

/// Does this on a thread of a user, of the group `nogroup`. `None` without the privilege to
/// become one.
fn as_user<T: Send + 'static>(user: u32, does: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        skip("becoming another user needs root");
        return None;
    }
    let thread = thread::spawn(move || {
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(STRANGER));
        set_thread_groups(&[]).expect("root may");
        set_thread_res_gid(group, group, group).expect("root may");
        set_thread_res_uid(user, user, user).expect("root may");
        does()
    });
    Some(thread.join().expect("the other user's part"))
}

/// Starts control in a directory that all users may enter.
fn open_to_all(group: &str, descriptors: Descriptors) -> Running {
    let running = Running::start_as(PCAP_PORT, group, descriptors);
    open_directory(&running);
    running
}

fn open_directory(running: &Running) {
    let mode = Permissions::from_mode(0o755);
    fs::set_permissions(running.directory(), mode).expect("the test's own");
}

/// Whether this kernel can refuse descriptors.
fn kernel_refuses(directory: &Path) -> bool {
    let listener = Listener::bind(&directory.join("probe.sock")).expect("a free name");
    Descriptors::refuse(listener.as_fd()).expect("asked") == Descriptors::Refused
}

/// A descriptor whose last copy takes [`SLOW`] to close: a TCP socket that lingers over unread
/// bytes. The other end must stay open.
fn slow_to_close() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a port");
    let mut slow = TcpStream::connect(address).expect("it listens");
    let (reader, _) = listener.accept().expect("a client");
    slow.set_nonblocking(true).expect("a socket");
    while slow.write(&[0; 1 << 16]).is_ok() {}
    set_socket_linger(&slow, Some(SLOW)).expect("a socket");
    (slow.into(), reader)
}

/// Sends one message with `descriptor` beside it.
fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<usize> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    assert!(beside.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let bytes = [IoSlice::new(bytes)];
    Ok(sendmsg(socket, &bytes, &mut beside, SendFlags::NOSIGNAL)?)
}

/// How many descriptors are sent to each socket: control must close the last copy of one, which
/// takes a sender that closes its own before control has received the other.
const COPIES: usize = 8;

/// Sends descriptors that are slow to close beside `bytes`, each from a thread that closes its own
/// copy at once. Returns whether the kernel took them.
fn send_slow_to(socket: &OwnedFd, bytes: &[u8]) -> Vec<io::Result<usize>> {
    let (report, reports) = mpsc::channel();
    for _ in 0..COPIES {
        let (slow, other_end) = slow_to_close();
        let (socket, bytes) = (socket.try_clone().expect("a descriptor"), bytes.to_vec());
        let report = report.clone();
        // Not joined: closing the last copy takes as long here as it would in control.
        thread::spawn(move || {
            let sent = send_with(socket.as_fd(), &bytes, slow.as_fd());
            // Fails only if the test has ended.
            let _ = report.send(sent);
            drop(slow);
        });
        // A reset would end the lingering, so the other end stays open until the test ends.
        thread::spawn(move || {
            thread::sleep(2 * SLOW);
            drop(other_end);
        });
    }
    // Those that still close are not waited for.
    thread::sleep(Duration::from_millis(300));
    reports.try_iter().collect()
}

/// Sends descriptors that are slow to close to both sockets, and leaves.
fn send_slow(control: &Path, telemetry: &Path) -> [Vec<io::Result<usize>>; 2] {
    let request = datagram::encode(&ControlRequest::Version).expect("fits");
    let seqpacket = Connection::connect(control).expect("control listens");
    let seqpacket = seqpacket
        .as_fd()
        .try_clone_to_owned()
        .expect("a descriptor");
    let to_control = send_slow_to(&seqpacket, &request);
    let stream = OwnedFd::from(UnixStream::connect(telemetry).expect("control listens"));
    let to_telemetry = send_slow_to(&stream, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    [to_control, to_telemetry]
}

/// For a while, everything is answered soon.
fn all_is_answered(running: &Running) {
    let until = Instant::now() + SLOW / 2;
    while Instant::now() < until {
        let began = Instant::now();
        let (code, _) = get(running.metrics, "/healthz");
        assert_eq!(code, 503, "there is no daemon");
        let took = began.elapsed();
        assert!(took < SOON, "/healthz took {took:?}");
        let reply = send_request(&running.control_socket(), &ControlRequest::Version);
        assert!(matches!(reply, ControlReply::Version(_)), "{reply:?}");
        let took = began.elapsed();
        assert!(took < SOON, "the answers took {took:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn sockets(running: &Running) -> [PathBuf; 2] {
    [running.control_socket(), running.telemetry_socket()]
}

#[test]
fn descriptors_are_refused_where_the_kernel_can() {
    let running = open_to_all("", Descriptors::Refused);
    if !kernel_refuses(running.directory()) {
        skip("this kernel does not know SO_PASSRIGHTS");
        return;
    }
    let [control, telemetry] = sockets(&running);
    let Some(sent) = as_stranger(move || send_slow(&control, &telemetry)) else {
        return;
    };
    let sent: Vec<_> = sent.into_iter().flatten().collect();
    assert_eq!(sent.len(), 2 * COPIES);
    for sent in sent {
        let refused = sent.expect_err("no client may send a descriptor");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
    all_is_answered(&running);
}

/// As on a kernel before 6.16.
#[test]
fn received_descriptors_delay_only_their_sender() {
    let running = open_to_all("nogroup", Descriptors::Arrive);
    let [control, telemetry] = sockets(&running);
    let Some(sent) = as_stranger(move || send_slow(&control, &telemetry)) else {
        return;
    };
    for sent in sent {
        assert!(sent.iter().any(Result::is_ok), "the group may: {sent:?}");
    }
    all_is_answered(&running);
    assert!(grpc_answers(&running));
}

fn grpc_answers(running: &Running) -> bool {
    let place = format!("unix://{}", running.telemetry_socket().display());
    crate::grpc::is_served(&place)
}

#[test]
fn where_descriptors_arrive_only_the_group_may_connect() {
    let running = open_to_all("", Descriptors::Arrive);
    assert!(grpc_answers(&running), "the owner may");
    for socket in sockets(&running) {
        let mode = fs::metadata(&socket).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o660, "{}", socket.display());
        let path = socket.clone();
        let Some(connected) = as_stranger(move || {
            [
                Connection::connect(&path).err().map(|it| it.kind()),
                UnixStream::connect(&path).err().map(|it| it.kind()),
            ]
        }) else {
            return;
        };
        assert!(connected.contains(&Some(io::ErrorKind::PermissionDenied)));
    }
}

/// Everything works through the relay threads, for messages of any length.
#[test]
fn messages_through_the_relay_threads_arrive_whole() {
    let running = open_to_all("nogroup", Descriptors::Arrive);
    let daemon = play(&running, |_| fixture::status());
    let [control, _] = sockets(&running);
    let connection = Connection::connect(&control).expect("control listens");
    for _ in 0..3 {
        let request = datagram::encode(&ControlRequest::Version).expect("fits");
        let reply = send_request_bytes(&connection, &request);
        assert!(matches!(reply, ControlReply::Version(_)), "{reply:?}");
    }
    let reply = send_request_bytes(&connection, &[b'x'; covalent_api::MAX_DATAGRAM_BYTES + 1]);
    assert!(matches!(reply, ControlReply::Refused { .. }), "{reply:?}");
    let client = Client::of(&running);
    let direct = Running::start();
    for _ in 0..3 {
        assert!(client.get(Filter::default()).is_ok());
    }
    let mut stream = client
        .watch(quick(Filter::default(), false))
        .expect("a place");
    for _ in 0..3 {
        assert!(client.next(&mut stream).is_some());
    }
    // Permissions do not change, although control owns the socket pair in between.
    let reload = move || send_request(&control, &ControlRequest::Reload);
    if let Some(reply) = as_stranger(reload) {
        assert!(
            matches!(
                &reply,
                ControlReply::Refused { reason } if reason.contains("user 65534 may not"),
            ),
            "{reply:?}"
        );
    }
    drop((direct, stream, client, connection, running));
    daemon.join().expect("it played its part");
}

#[test]
fn strangers_fill_their_own_places_and_root_is_answered_at_once() {
    for descriptors in [Descriptors::Refused, Descriptors::Arrive] {
        let (running, text) = Running::start_from_file("nogroup", descriptors);
        open_directory(&running);
        let listener = running.listen();
        let played = Played::greet(&listener);
        let held_by_both = agreement::held(1, 7, &text);
        Played::announce(&played.talk, held_by_both);
        Played::announce_text(&played.talk, held_by_both, &text);
        agreement::wait_for(&running.control_socket(), held_by_both);
        let [control, telemetry] = sockets(&running);
        let sockets = (control.clone(), telemetry);
        let Some((held, refusal)) = as_stranger(move || {
            let (control, telemetry) = sockets;
            let to_control: Vec<_> = (0..answers::CLIENTS.all)
                .map(|_| Connection::connect(&control).expect("control listens"))
                .collect();
            let to_telemetry: Vec<_> = (0..grpc::CONNECTIONS.all)
                .map(|_| UnixStream::connect(&telemetry).expect("control listens"))
                .collect();
            let refusal = send_request(&control, &ControlRequest::Version);
            ((to_control, to_telemetry), refusal)
        }) else {
            return;
        };
        let began = Instant::now();
        let reply = send_request(&control, &ControlRequest::Reload);
        // The file is as it was.
        let nothing = ControlReply::Reloaded {
            epoch: 7,
            changed: Vec::new(),
            beware: Vec::new(),
        };
        assert_eq!(reply, nothing);
        assert!(grpc_answers(&running));
        let took = began.elapsed();
        assert!(took < SOON, "{descriptors:?}: root waited {took:?}");
        assert!(
            matches!(
                &refusal,
                ControlReply::Refused { reason } if reason.contains("user 65534 has 8"),
            ),
            "{refusal:?}"
        );
        drop((held, played, listener));
    }
}

/// A thread has the user of the thread that started it, so all of control has the other user.
#[test]
fn controls_own_user_has_more_places_than_others_and_may_reload() {
    for descriptors in [Descriptors::Refused, Descriptors::Arrive] {
        let Some(running) = as_user(OWN_USER, move || open_to_all("nogroup", descriptors)) else {
            return;
        };
        let reload = |user| {
            let control = running.control_socket();
            as_user(user, move || {
                let held: Vec<_> = (0..answers::CLIENTS.each)
                    .map(|_| Connection::connect(&control).expect("control listens"))
                    .collect();
                let reply = send_request(&control, &ControlRequest::Reload);
                drop(held);
                reply
            })
        };
        for (user, expected) in [
            (STRANGER, "user 65534 has 8"),
            (OWN_USER, "started without a file"),
            (0, "started without a file"),
        ] {
            let reply = reload(user).expect("root may");
            assert!(
                matches!(&reply, ControlReply::Refused { reason } if reason.contains(expected)),
                "{descriptors:?}, user {user}: {reply:?}"
            );
        }
    }
}

#[test]
fn strangers_have_some_streams_and_root_has_the_others() {
    let running = open_to_all("", Descriptors::Refused);
    if !kernel_refuses(running.directory()) {
        skip("this kernel does not know SO_PASSRIGHTS, so other users cannot connect");
        return;
    }
    let daemon = play(&running, |_| fixture::status());
    let running = std::sync::Arc::new(running);
    let theirs = std::sync::Arc::clone(&running);
    let Some(held) = as_stranger(move || {
        let client = Client::of(&theirs);
        let watch = || client.watch(quick(Filter::default(), false));
        let streams: Vec<_> = (0..STREAMS.each)
            .map(|_| watch().expect("a place"))
            .collect();
        let refused = watch().expect_err("that is all one user may have");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().contains("user 65534"), "{refused}");
        (streams, client)
    }) else {
        return;
    };
    let client = Client::of(&running);
    let mut stream = client
        .watch(quick(Filter::default(), false))
        .expect("a place");
    assert!(client.next(&mut stream).is_some());
    drop((held, stream, client, running));
    daemon.join().expect("it played its part");
}

/// A client of `/metrics` that sends many requests and reads nothing.
fn request_without_reading(running: &Running) -> TcpStream {
    let mut stream = TcpStream::connect(running.metrics).expect("control serves");
    let request = b"GET /live.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // More replies than the system buffers for a client that does not read.
    let requests = request.repeat(2_000);
    stream.set_nonblocking(true).expect("a socket");
    let mut left = &requests[..];
    while let Ok(taken @ 1..) = stream.write(left) {
        left = &left[taken..];
    }
    stream
}

#[test]
fn unused_connections_to_metrics_exclude_no_one() {
    let running = Running::start();
    // Twice as many as there are places.
    let silent: Vec<_> = (0..64)
        .map(|_| TcpStream::connect(running.metrics).expect("control serves"))
        .collect();
    let deaf: Vec<_> = (0..64).map(|_| request_without_reading(&running)).collect();
    thread::sleep(Duration::from_millis(200));
    for _ in 0..3 {
        let began = Instant::now();
        let (code, text) = get(running.metrics, "/metrics");
        assert_eq!(code, 200, "{text}");
        let took = began.elapsed();
        assert!(took < SOON, "a scrape waited {took:?}");
    }
    drop((silent, deaf));
}

#[test]
fn a_foreign_name_is_not_answered() {
    let running = Running::start_with(&format!(
        "metrics_hosts = [\"node-a.example\"]\n{PCAP_PORT}"
    ));
    let port = running.metrics.port();
    for path in ["/", "/metrics", "/healthz", "/live/stream", "/live.js"] {
        let (code, text) = get_as(running.metrics, path, &format!("evil.example:{port}"));
        assert_eq!(code, 421, "{path}: {text}");
        assert!(text.contains("`control.metrics_hosts`"), "{text}");
    }
    for host in ["127.0.0.1", "localhost", "[::1]", "node-a.example"] {
        let (code, text) = get_as(running.metrics, "/metrics", &format!("{host}:{port}"));
        assert_eq!(code, 200, "{host}: {text}");
    }
    // HTTP/1.0, as a plain health check sends it.
    let mut stream = TcpStream::connect(running.metrics).expect("control serves");
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
}

#[test]
fn keys_of_regions_are_never_sent() {
    let running = Running::start();
    let daemon = play(&running, |_| fixture::status());
    let key = fixture::status().regions[0].rkey.to_string();
    let (code, text) = get(running.metrics, "/metrics");
    assert_eq!(code, 200);
    assert!(text.contains("covalent_region_size_bytes{"), "{text}");
    let client = Client::of(&running);
    let sample = client.get(Filter::default()).expect("a sample");
    let labels = sample.families.iter().flat_map(|family| &family.series);
    let mut labels = labels.flat_map(|series| &series.labels);
    assert!(labels.all(|(name, value)| name != "rkey" && *value != key));
    let of_key = |line: &&str| line.contains("rkey") || line.contains(&format!("\"{key}\""));
    assert_eq!(text.lines().find(of_key), None);
    drop((client, running));
    daemon.join().expect("it played its part");
}
