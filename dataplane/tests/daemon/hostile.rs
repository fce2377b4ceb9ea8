//! An application that writes garbage into everything that it shares with the daemon.

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    request::{PipeKind, Reply, Request},
    rule::Match,
};

use super::{
    client::{App, CAPACITY_BYTES, Client},
    node::pair,
    noise::Noise,
    streams::numbered,
};

/// Packets of the honest stream that may be on their way at once.
const WINDOW: u32 = 400;

/// The shared memory of one session, as files to be written into.
struct Shared {
    client: Client,
    session: File,
    files: Vec<File>,
    wake: Vec<OwnedFd>,
}

/// Attaches and opens one pipe of each kind, keeping the descriptors raw.
fn attach_raw(socket: &Path) -> Shared {
    let mut client = Client::connect(socket);
    let (_, mut fds) = client.ask(&Request::OpenSession { lane: 0 });
    let session = File::from(fds.remove(0));
    let mut files = Vec::new();
    for kind in [
        PipeKind::Rx,
        PipeKind::Tx,
        PipeKind::RxTx,
        PipeKind::VerbSubmit,
        PipeKind::VerbComplete,
    ] {
        let port = matches!(kind, PipeKind::Tx | PipeKind::RxTx).then(|| "p0".to_owned());
        let (reply, fds) = client.ask(&Request::OpenPipe {
            kind,
            capacity_bytes: CAPACITY_BYTES,
            port,
        });
        let Reply::Pipe { pipe, .. } = reply else {
            panic!("{reply:?}")
        };
        files.extend(fds.into_iter().map(File::from));
        if kind == PipeKind::Rx {
            // So that packets flow into what is being ruined.
            client.done(&Request::Bind {
                pipe,
                matches: Match::EtherType { ethertype: 0x4321 },
            });
        }
    }
    Shared {
        client,
        session,
        files,
        wake: fds,
    }
}

/// Writes noise: mostly plausible cursors and pipe numbers, sometimes anything.
fn ruin(shared: &Shared, noise: &mut Noise) {
    let mut word = match noise.below(4) {
        0 => noise.next(),
        1 => noise.below(64) * 64,
        2 => noise.below(8),
        _ => CAPACITY_BYTES * noise.below(3) + noise.below(128),
    }
    .to_le_bytes();
    if noise.below(16) == 0 {
        noise.fill(&mut word);
    }
    // Data of RX pipes is sealed against writing: that error is the seal at work.
    if noise.below(3) == 0 {
        let _ = shared.session.write_at(&word, noise.below(1024) * 8);
    } else {
        let file = &shared.files[noise.below(shared.files.len() as u64) as usize];
        let words = if noise.below(2) == 0 { 128 } else { 4096 };
        let _ = file.write_at(&word, noise.below(words) * 8);
    }
    if noise.below(8) == 0 {
        let wake = &shared.wake[noise.below(2) as usize];
        let _ = nix::sys::socket::send(
            std::os::fd::AsRawFd::as_raw_fd(wake),
            &word,
            nix::sys::socket::MsgFlags::MSG_DONTWAIT,
        );
    }
}

/// Whether the daemon has ended this connection.
fn is_detached(shared: &Shared) -> bool {
    shared
        .client
        .connection
        .wait(Some(Duration::ZERO))
        .expect("poll works")
}

#[test]
fn garbage_in_all_shared_words_detaches_its_writer_and_nobody_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::EtherType { ethertype: 0x1234 });
    let stop = Arc::new(AtomicBool::new(false));
    let progress = Arc::new(AtomicU32::new(0));
    let socket = a.config.socket_path();
    let sender = thread::spawn({
        let (stop, progress) = (stop.clone(), progress.clone());
        move || {
            let mut app = App::attach(&socket);
            let (pipe, mut tx) = app.tx("p0");
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                app.send(pipe, &mut tx, &numbered(number, 64 + number as usize % 900));
                number += 1;
                // No more than the RX pipe has room for: it drops what comes beyond that.
                while number - progress.load(Ordering::Relaxed) > WINDOW
                    && !stop.load(Ordering::Relaxed)
                {
                    thread::sleep(Duration::from_micros(100));
                }
            }
            (app, number)
        }
    });
    // Hostile applications on both nodes: where the stream begins and where it ends.
    let mut noise = Noise::new(0x00ba_dbad);
    let mut detached = 0;
    let mut received = 0;
    let mut hostile = [
        attach_raw(&a.config.socket_path()),
        attach_raw(&b.config.socket_path()),
    ];
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        for (shared, node) in hostile.iter_mut().zip([&a, &b]) {
            for _ in 0..20 {
                ruin(shared, &mut noise);
            }
            if is_detached(shared) {
                let reason = match shared.client.receive() {
                    Some((Reply::Refused { reason }, _)) => reason,
                    other => panic!("{other:?}"),
                };
                assert!(reason.contains("shared memory"), "{reason}");
                assert!(shared.client.receive().is_none(), "it is closed");
                *shared = attach_raw(&node.config.socket_path());
                detached += 1;
            }
        }
        if let Some(batch) = rx.recv() {
            for packet in batch.iter() {
                assert!(
                    packet == numbered(received, 64 + received as usize % 900),
                    "the stream goes on unharmed"
                );
                received += 1;
            }
            batch.free_all();
            progress.store(received, Ordering::Relaxed);
        }
    }
    stop.store(true, Ordering::Relaxed);
    let (_app, sent) = sender.join().expect("the sender ends well");
    let rest = receiver.receive(rx_pipe, &mut rx, (sent - received) as usize);
    assert!(
        rest.iter()
            .zip(received..)
            .all(|(packet, number)| *packet == numbered(number, 64 + number as usize % 900))
    );
    eprintln!("{detached} hostile sessions detached, {sent} packets of another one unharmed");
    assert!(
        detached > 20 && sent > 1000,
        "{detached} detached, {sent} sent"
    );
    let violations =
        a.status().sessions_detached["violation"] + b.status().sessions_detached["violation"];
    // The last ones may have been detached since they were looked at.
    assert!(
        (detached..=detached + 2).contains(&violations),
        "{violations} of {detached}"
    );
    drop(hostile);
}
