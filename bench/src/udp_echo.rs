//! A request and its answer through the kernel: UDP over the same virtual cable, in frames of the same size.
//!
//! ```text
//!   client (near core) ─► UDP, IP ─► veth ─► IP, UDP ─► server (far core)      and back the same way
//! ```
//! Two threads with a core each, as for the bare echo. The kernel polls no socket of its own accord (`SO_BUSY_POLL` is off); what differs is
//! how a thread waits: asleep in `recv`, as programs do, or by calling `recv` again and again, which burns its core as a polling lane does.

use std::{
    fs,
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use crate::{
    arguments::Wire,
    bare_echo::FRAME_BYTES,
    beside::{beside, join},
    cores::{Cores, pin},
    stage::{Stage, ip},
    trips::Slice,
};

/// Headers of Ethernet, IPv4 without options, and UDP, in bytes.
const HEADER_BYTES: usize = 14 + 20 + 8;

/// What a datagram carries, so that its frame is as long as the bare echo's.
const PAYLOAD_BYTES: usize = FRAME_BYTES - HEADER_BYTES;

const _: () = assert!(PAYLOAD_BYTES >= 8, "a request carries its number");

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 86, 0, 1);
/// Who answers; its address is that of the far end for whatever else speaks IP there.
pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 86, 0, 2)), 7);

/// How long a sleeping thread stays asleep before it looks whether all is over, or too late.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How both threads wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Asleep in `recv`.
    Sleeping,
    /// Calling `recv` until something is there.
    Spinning,
}

/// Gives both ends of the cable their addresses.
///
/// # Errors
/// Among others: the kernel is set to poll sockets busily, which is another measurement.
pub fn prepare(stage: &Stage) -> Result<()> {
    let path = "/proc/sys/net/core/busy_read";
    let busy_us = fs::read_to_string(path).unwrap_or_else(|_| "0".to_owned());
    ensure!(
        busy_us.trim() == "0",
        "new sockets are polled busily for {} µs ({path}): set it to 0 to measure beside them",
        busy_us.trim()
    );
    let server = SERVER.ip();
    for (namespace, address, interface) in [
        (&stage.a, CLIENT.to_string(), "a0"),
        (&stage.b, server.to_string(), "b0"),
    ] {
        namespace.within(|| ip(&["addr", "add", &format!("{address}/24"), "dev", interface]))?;
    }
    Ok(())
}

/// One slice.
pub fn slice(stage: &Stage, cores: Cores, arguments: &Wire, waiting: Waiting) -> Result<Slice> {
    let open = || {
        stage.b.enter()?;
        pin(cores.far)?;
        let socket = UdpSocket::bind(SERVER).context("binding the UDP server")?;
        wait_as(&socket, waiting)?;
        Ok(socket)
    };
    let ask = || {
        stage.a.enter()?;
        pin(cores.near)?;
        let socket = UdpSocket::bind((CLIENT, 0)).context("binding the UDP client")?;
        socket
            .connect(SERVER)
            .context("connecting the UDP client")?;
        wait_as(&socket, waiting)?;
        let mut number = 0;
        Slice::of(arguments.slice(), |deadline| {
            number += 1;
            trip(&socket, number, deadline)
        })
    };
    // In a thread of its own, for it enters a namespace.
    beside(
        open,
        |socket| serve(socket),
        || thread::scope(|scope| join(scope.spawn(ask))),
    )
}

/// Has the calls of `socket` wait as told.
fn wait_as(socket: &UdpSocket, waiting: Waiting) -> Result<()> {
    match waiting {
        Waiting::Sleeping => socket.set_read_timeout(Some(LOOK_AGAIN)),
        Waiting::Spinning => socket.set_nonblocking(true),
    }
    .context("telling a socket how to wait")
}

/// Sends one request and waits for its answer. Whether it came before `deadline`.
fn trip(socket: &UdpSocket, number: u64, deadline: Instant) -> Result<bool> {
    let mut request = [0; PAYLOAD_BYTES];
    request[..8].copy_from_slice(&number.to_le_bytes());
    socket.send(&request).context("sending a datagram")?;
    let mut answer = [0; PAYLOAD_BYTES];
    loop {
        match there(socket.recv(&mut answer))? {
            // One that counted as lost may still come.
            Some(PAYLOAD_BYTES) if answer == request => return Ok(true),
            _ if Instant::now() > deadline => return Ok(false),
            _ => {}
        }
    }
}

/// Answers a request, if there is one.
fn serve(socket: &UdpSocket) -> Result<()> {
    let mut request = [0; PAYLOAD_BYTES];
    if let Some((len, from)) = there(socket.recv_from(&mut request))? {
        socket
            .send_to(&request[..len], from)
            .context("answering a datagram")?;
    }
    Ok(())
}

/// What a call found; `None` if nothing was there, or not in time.
fn there<T>(found: std::io::Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(None)
        }
        Err(error) => Err(error).context("receiving a datagram"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_one_to_this_request() {
        for waiting in [Waiting::Sleeping, Waiting::Spinning] {
            let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            client
                .connect(server.local_addr().expect("an address"))
                .expect("connected");
            for socket in [&server, &client] {
                wait_as(socket, waiting).expect("told");
            }
            let soon = || Instant::now() + Duration::from_secs(5);
            let now = Instant::now;
            // Nobody serves yet: this one counts as lost, and is answered first all the same.
            assert!(!trip(&client, 1, now()).expect("sent"), "{waiting:?}");
            let asked = || {
                let came = (2..50).filter(|&number| trip(&client, number, soon()).expect("sent"));
                Ok(came.count())
            };
            let came = beside(|| Ok(server), |server| serve(server), asked).expect("served");
            assert_eq!(came, 48, "{waiting:?}");
        }
    }
}
