//! Calls of the daemon that the kernel refuses, one by one and in storms.

use std::path::Path;

use covalent_api::{
    request::{PipeKind, Reply, Request, Rights},
    rule::Match,
};
use covalent_config::Config;
use libc::c_long;
use nix::errno::Errno;

use super::{
    client::{App, CAPACITY_BYTES, Client},
    faulty_kernel::{Fault, FaultyKernel, Which},
    namespace::with_veth,
    node::{Node, eventually},
};

/// More calls of one kind than any request makes.
const CALLS_MAX: u64 = 64;

const MAPPING: &[c_long] = &[libc::SYS_mmap];
const ALLOCATING: &[c_long] = &[
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_memfd_create,
];
const STEERING: &[c_long] = &[libc::SYS_bpf];
const WAITING: &[c_long] = &[
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
];

/// Calls that a signal may interrupt.
const INTERRUPTED: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_accept4,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_openat,
    libc::SYS_clock_nanosleep,
];

/// Socket calls that may find nothing, or no space, even on a socket that was reported ready.
const NOT_YET: &[c_long] = &[
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_accept4,
];

fn cabled(dir: &Path) -> Node {
    Node::new(dir, "a", &["p0"], "[dataplane]\nhuge_pages = \"never\"\n")
}

fn on_veth(dir: &Path) -> Node {
    let text = format!(
        "[node]\nname = \"a\"\nruntime_dir = \"{0}/a\"\nstate_dir = \"{0}/a-state\"\n\
         [dataplane]\nhuge_pages = \"never\"\n\
         [[port]]\nname = \"x0\"\nkind = \"af_xdp\"\ninterface = \"near0\"\nring_slots = \
         1024\nlink = false\n",
        dir.display()
    );
    Node {
        config: Config::parse(&text, "test").expect("a valid configuration"),
        daemon: None,
    }
}

/// Selects shared memory and reservations of addresses. Excludes the memory of the C library's
/// allocator, without which no program continues.
fn is_shared(arguments: &[u64; 6]) -> bool {
    let [_, _, protection, flags, ..] = *arguments;
    flags & libc::MAP_SHARED as u64 != 0 || protection == libc::PROT_NONE as u64
}

fn any(_arguments: &[u64; 6]) -> bool {
    true
}

/// Returns the text of the error with this number.
fn text(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

/// Returns the requests of an application that take memory.
fn requests() -> Vec<Request> {
    let pipe = |kind, port: Option<&str>| Request::OpenPipe {
        kind,
        capacity_bytes: CAPACITY_BYTES,
        port: port.map(str::to_owned),
        completions: None,
    };
    let region = |name: &str, size_bytes| Request::RegisterRegion {
        name: name.to_owned(),
        size_bytes,
        rights: Rights::ALL,
        durable: false,
    };
    vec![
        pipe(PipeKind::Rx, None),
        pipe(PipeKind::Tx, Some("p0")),
        pipe(PipeKind::RxTx, Some("p0")),
        pipe(PipeKind::RxBytes, None),
        region("small", 4096),
        // On the thread for large memory.
        region("large", 4 << 20),
    ]
}

/// Sends a request. Returns the reason if it is refused.
fn call(client: &mut Client, request: &Request) -> Result<(), String> {
    match client.call(request).0 {
        Reply::Pipe { .. } | Reply::Region { .. } => call(client, &Request::Mapped),
        Reply::Done => Ok(()),
        Reply::Refused { reason, .. } => Err(reason),
        other => panic!("{request:?}: {other:?}"),
    }
}

/// Waits until so many pipes are left, and no region: their names are free then.
fn is_taken_back(client: &mut Client, pipes: usize) {
    eventually("all is taken back", || {
        let status = client.status();
        status.pipes.len() == pipes && status.regions.is_empty()
    });
}

/// Makes each of a request's calls of these kinds fail, one at a time.
fn each_fails(calls: &'static [c_long], picks: fn(&[u64; 6]) -> bool, errno: Errno) {
    let mut faulty = FaultyKernel::start(calls, cabled);
    let mut bystander = faulty.app();
    bystander.rx(None);
    let mut failed = 0;
    for request in requests() {
        for nth in 0.. {
            assert!(nth < CALLS_MAX, "{request:?} makes calls without end");
            let mut app = faulty.app();
            let pipes = app.client.status().pipes.len();
            faulty.set(Fault {
                calls,
                picks,
                which: Which::Nth(nth),
                errno,
            });
            let answer = call(&mut app.client, &request);
            let hit = faulty.clear() > 0;
            failed += u64::from(hit);
            if let Err(reason) = &answer {
                assert!(hit, "{request:?} is refused for nothing: {reason}");
                assert!(reason.contains(&text(errno)), "{request:?}: {reason}");
                // Nothing of it is left: neither a pipe nor a name.
                assert_eq!(app.client.status().pipes.len(), pipes);
                call(&mut app.client, &request).expect("there is memory again");
            }
            drop(app);
            is_taken_back(&mut bystander.client, 1);
            if !hit {
                break;
            }
        }
    }
    assert!(failed >= requests().len() as u64, "{failed} calls failed");
    faulty.check_alive();
}

#[test]
fn a_mapping_that_fails_refuses_one_request() {
    each_fails(MAPPING, is_shared, Errno::ENOMEM);
}

#[test]
fn lack_of_memory_refuses_one_request() {
    each_fails(ALLOCATING, any, Errno::ENOMEM);
}

#[test]
fn a_session_without_memory_is_refused_and_the_next_is_opened() {
    for (calls, picks) in [(MAPPING, is_shared as fn(&_) -> _), (ALLOCATING, any)] {
        let mut faulty = FaultyKernel::start(calls, cabled);
        for nth in 0.. {
            assert!(nth < CALLS_MAX, "a session makes calls without end");
            let mut client = faulty.client();
            faulty.set(Fault {
                calls,
                picks,
                which: Which::Nth(nth),
                errno: Errno::ENOMEM,
            });
            let (reply, _) = client.call(&Request::OpenSession { lane: 0 });
            let hit = faulty.clear() > 0;
            match reply {
                Reply::Session { .. } if !hit => break,
                Reply::Session { .. } => {}
                Reply::Refused { reason, .. } => {
                    assert!(hit && reason.contains(&text(Errno::ENOMEM)), "{reason}");
                    drop(faulty.app());
                }
                other => panic!("{other:?}"),
            }
        }
        faulty.check_alive();
    }
}

#[test]
fn a_daemon_that_cannot_wait_serves_all_the_same() {
    let mut faulty = FaultyKernel::start(WAITING, cabled);
    let fault = |which| Fault {
        calls: WAITING,
        picks: any,
        which,
        errno: Errno::ENOMEM,
    };
    faulty.set(fault(Which::Half));
    for request in requests() {
        let mut app = faulty.app();
        call(&mut app.client, &request).expect("it has memory");
    }
    is_taken_back(&mut faulty.client(), 0);
    assert!(faulty.clear() > 0, "no wait failed");
    // While all calls fail, no client is served and none is lost.
    let mut client = faulty.client();
    faulty.set(fault(Which::All));
    client.send(&Request::Status);
    eventually("waits fail", || faulty.failed() > 20);
    faulty.clear();
    assert!(matches!(client.receive(), Some((Reply::Status(_), _))));
    faulty.check_alive();
}

fn storm(calls: &'static [c_long], errno: Errno) {
    let mut faulty = FaultyKernel::start(calls, cabled);
    let mut bystander = faulty.app();
    let (pipe, mut tx) = bystander.tx("p0");
    faulty.set(Fault {
        calls,
        picks: any,
        which: Which::Half,
        errno,
    });
    for _ in 0..10 {
        for request in requests() {
            let mut app = faulty.app();
            let answer = call(&mut app.client, &request);
            assert_eq!(answer, Ok(()), "{request:?}");
            bystander.ring(pipe);
            drop(app);
            // The next round requests regions of the same names.
            is_taken_back(&mut bystander.client, 1);
        }
    }
    assert!(faulty.clear() > 100, "it was no storm");
    assert!(tx.free_bytes() > 0 && tx.violation().is_none());
    faulty.check_alive();
}

#[test]
fn a_storm_of_interrupted_calls_refuses_nothing() {
    storm(INTERRUPTED, Errno::EINTR);
}

#[test]
fn a_storm_of_calls_that_find_nothing_yet_refuses_nothing() {
    storm(NOT_YET, Errno::EAGAIN);
}

/// Binds and unbinds matches of each kind of table while calls fail.
#[test]
fn a_rule_refused_for_lack_of_kernel_memory_leaves_no_binding() {
    with_veth(|| {
        let mut faulty = FaultyKernel::start(STEERING, on_veth);
        let mut app = faulty.app();
        let (pipe, _rx) = app.rx(None);
        let matches = [
            Match::EtherType { ethertype: 0x1234 },
            Match::Vlan { vlan: 7 },
            Match::Any,
        ];
        for matches in matches {
            let bind = Request::Bind {
                pipe,
                matches: matches.clone(),
                spread: None,
            };
            let mut refused = 0;
            for nth in 0.. {
                assert!(nth < CALLS_MAX, "{matches:?} makes calls without end");
                faulty.set(Fault {
                    calls: STEERING,
                    picks: any,
                    which: Which::Nth(nth),
                    errno: Errno::ENOMEM,
                });
                let answer = call(&mut app.client, &bind);
                let hit = faulty.clear() > 0;
                match answer {
                    Ok(()) => {
                        app.unbind(pipe, matches.clone());
                        if !hit {
                            break;
                        }
                    }
                    Err(reason) => {
                        refused += 1;
                        assert!(hit, "{matches:?} is refused for nothing: {reason}");
                        assert!(
                            reason.contains("x0") && reason.contains("no memory"),
                            "{reason}"
                        );
                        // The match is free: it can be bound.
                        call(&mut app.client, &bind).expect("there is memory again");
                        app.unbind(pipe, matches.clone());
                    }
                }
            }
            assert!(refused > 0, "{matches:?} was never refused");
        }
        faulty.check_alive();
    });
}

#[test]
fn a_port_whose_program_lacks_memory_is_reported_and_opened_later() {
    with_veth(|| {
        for nth in (0..40).step_by(3) {
            let fault = Fault {
                calls: STEERING,
                picks: any,
                which: Which::Nth(nth),
                errno: Errno::ENOMEM,
            };
            let mut faulty = FaultyKernel::start_with(STEERING, Some(fault), on_veth);
            eventually("it is ready, or has ended with a reason", || {
                faulty.log().contains("ready")
                    || faulty.daemon.0.try_wait().expect("a child").is_some()
            });
            if let Some(status) = faulty.daemon.0.try_wait().expect("a child") {
                let log = faulty.log();
                assert!(
                    !status.success() && !log.contains("panicked") && log.contains("x0"),
                    "call {nth}: {status}: {log}"
                );
            }
            if faulty.clear() == 0 {
                break;
            }
            drop(faulty);
            // Nothing of it is in the way of the next.
            FaultyKernel::start(STEERING, on_veth).check_alive();
        }
    });
}

/// An application whose daemon's calls fail sees each reply exactly once.
#[test]
fn each_request_is_answered_once_in_a_storm() {
    let mut faulty = FaultyKernel::start(NOT_YET, cabled);
    let mut app: App = faulty.app();
    faulty.set(Fault {
        calls: NOT_YET,
        picks: any,
        which: Which::Half,
        errno: Errno::EAGAIN,
    });
    for _ in 0..30 {
        app.client.send(&Request::Status);
    }
    for _ in 0..30 {
        let answer = app.client.receive();
        assert!(matches!(answer, Some((Reply::Status(_), _))), "{answer:?}");
    }
    assert_eq!(app.client.status().sessions, 1);
    faulty.clear();
    faulty.check_alive();
}
