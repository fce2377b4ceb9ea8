//! `INCR` of Redis over the same virtual cable.
//!
//! ```text
//!   client (near core) ─► TCP ─► veth ─► TCP ─► redis-server (far core)      and back the same way
//! ```
//! One connection with `TCP_NODELAY`. The client calls `recv` repeatedly; the server waits in
//! `epoll`, as it always does. `redis` has one request in flight, and other requests of the
//! schedule wait for it. `redis-pipelined` sends each request when it is due, with up to 64 in
//! flight. Every reply must be the number of the request, counted from 1: each request was executed
//! exactly once.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    drive::{Client, Clock, Repeat},
    peer::{Load, Medium, Peer, Scene},
    sockets::{give_addresses, server_at},
};
use crate::{
    beside::join,
    cores::pin,
    report::Description,
    servers::redis::{self, Server},
};

const PORT: u16 = 6379;

/// Requests that a pipelining connection has in flight, as in `covalent-bench atomics` and many
/// clients.
const PIPELINE: u64 = 64;

/// `INCR bench` in the protocol of Redis.
const REQUEST: &[u8] = b"*2\r\n$4\r\nINCR\r\n$5\r\nbench\r\n";

/// Bytes that are read at a time.
const READ_BYTES: usize = 4096;

struct Redis {
    name: &'static str,
    in_flight_max: u64,
}

/// Both.
pub fn peers() -> Vec<Box<dyn Peer>> {
    [("redis", 1), ("redis-pipelined", PIPELINE)]
        .into_iter()
        .map(|(name, in_flight_max)| {
            Box::new(Redis {
                name,
                in_flight_max,
            }) as Box<dyn Peer>
        })
        .collect()
}

fn address() -> SocketAddr {
    SocketAddr::new(server_at(), PORT)
}

/// A server on the far core. Not in the calling thread, which would be pinned with it.
fn with_server<T: Send>(
    scene: &Scene<'_>,
    measure: impl FnOnce(&Server) -> Result<T> + Send,
) -> Result<T> {
    let stage = scene.stage()?;
    thread::scope(|scope| {
        join(scope.spawn(|| {
            let server = Server::start(&stage.b, &stage.a, scene.cores.far, address())?;
            measure(&server)
        }))
    })
}

impl Peer for Redis {
    fn name(&self) -> &'static str {
        self.name
    }

    fn medium(&self) -> Medium {
        Medium::Wire
    }

    fn prepare(&mut self, scene: &Scene<'_>) -> Result<Description> {
        let version = redis::version()?;
        give_addresses(scene.stage()?)?;
        let command = with_server(scene, |server| Ok(server.command()))?;
        let in_flight = match self.in_flight_max {
            1 => "one request in flight".to_owned(),
            most => format!("up to {most} requests in flight"),
        };
        Ok(Description {
            what: format!("INCR of one key of Redis, one connection, {in_flight}"),
            version,
            tuning: "TCP_NODELAY; the client calls recv again and again, the server waits in \
                epoll; nothing is written to disk"
                .to_owned(),
            commands: vec![command],
        })
    }

    fn refuses(&self, load: &Load) -> Option<String> {
        (load.bytes != 8).then(|| "a counter of Redis is one of 8 bytes".to_owned())
    }

    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
        let in_flight_max = self.in_flight_max;
        with_server(scene, |_| {
            scene.stage()?.a.enter()?;
            pin(scene.cores.near)?;
            let stream = TcpStream::connect(address()).context("connecting to Redis")?;
            stream.set_nodelay(true).context("asking for no delay")?;
            stream.set_nonblocking(true).context("asking not to wait")?;
            load.measure(&mut Adding {
                stream,
                in_flight_max,
                sent: 0,
                replies: Replies::default(),
            })
        })
    }
}

/// Adds 1 to the key, and checks that each reply is the expected value of the key.
struct Adding {
    stream: TcpStream,
    in_flight_max: u64,
    sent: u64,
    replies: Replies,
}

impl Client for Adding {
    fn send(&mut self, _number: u64) -> Result<bool> {
        if self.sent - self.replies.count >= self.in_flight_max {
            return Ok(false);
        }
        match self.stream.write(REQUEST) {
            Ok(bytes) => {
                ensure!(
                    bytes == REQUEST.len(),
                    "the socket took {bytes} bytes of a request"
                );
                self.sent += 1;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error).context("asking Redis"),
        }
    }

    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => bail!("Redis closed the connection"),
            Ok(length) => self.replies.take(&bytes[..length], answered),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error).context("hearing from Redis"),
        }
    }

    fn wait(&mut self, _until_ns: u64, _clock: &dyn Clock) -> Result<()> {
        // The client polls the socket again at once.
        Ok(())
    }
}

/// Parser of replies, `:NUMBER\r\n` each, from pieces of any size.
#[derive(Debug, Default)]
struct Replies {
    /// Whole ones.
    count: u64,
    /// The beginning of the next one.
    rest: Vec<u8>,
}

impl Replies {
    /// Gives `each` the number of each request that is answered now, counted from 0.
    fn take(&mut self, bytes: &[u8], each: &mut dyn FnMut(u64)) -> Result<()> {
        for &byte in bytes {
            self.rest.push(byte);
            if byte != b'\n' {
                continue;
            }
            let line = String::from_utf8_lossy(&self.rest);
            let value = line
                .strip_prefix(':')
                .and_then(|line| line.trim_end().parse().ok());
            ensure!(
                value == Some(self.count + 1),
                "reply {} of Redis is {line:?}",
                self.count + 1
            );
            each(self.count);
            self.count += 1;
            self.rest.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_found_in_pieces_and_each_must_be_the_next_number() {
        let mut replies = Replies::default();
        let mut answered = Vec::new();
        for piece in [&b":1\r\n:"[..], b"2", b"\r\n:3\r", b"\n"] {
            replies
                .take(piece, &mut |number| answered.push(number))
                .expect("the next ones");
        }
        assert_eq!(answered, [0, 1, 2]);
        // The reply is 5 and not 4: one addition was executed twice, or another client added.
        let problem = replies.take(b":5\r\n", &mut |_| {}).expect_err("not 4");
        assert!(problem.to_string().contains("reply 4"), "{problem}");
        let mut refused = Replies::default();
        refused
            .take(b"-ERR no\r\n", &mut |_| {})
            .expect_err("an error");
    }
}
