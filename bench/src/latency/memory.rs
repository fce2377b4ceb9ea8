//! Two processes of one node with shared memory between them: a pipe of ours, and messaging
//! libraries.
//!
//! ```text
//!   asking thread (near core) ◄─ pipe, UCX, libfabric, Aeron IPC or iceoryx2 ─►
//!                                             a process that sends each message back (far core)
//! ```
//! Every side gets two cores, each polled by one of the two processes. Aeron's media driver floats
//! and sleeps beside them. Our pipe is the one between a lane and an application: the requesting
//! thread acts as the lane without a port, and the other process is the application with an RX/TX
//! pipe. No third party forwards messages, as with the libraries. `covalent-local-cas` and
//! `covalent-local-message` show the cost of going through a daemon: there the lane is that third
//! party.

use std::{thread, time::Duration};

use anyhow::{Context, Result, ensure};

use super::{
    drive::{Client, Clock, Repeat},
    peer::{Load, Medium, Peer, Scene},
};
use crate::{
    beside::join,
    cores::pin,
    report::Description,
    streams::{Company, Means, NearEnd, Part, described},
};

/// Longest message in bytes: the buffer size of the answering processes.
const MESSAGE_BYTES_MAX: usize = 2048;

/// Size of the pipe's ring, in bytes.
const RING_BYTES: u64 = 2 << 20;

struct Memory {
    name: &'static str,
    means: Means,
    /// Where its processes meet, once it is prepared.
    company: Option<Company>,
}

/// All that there are, ours first.
pub fn peers() -> Vec<Box<dyn Peer>> {
    [
        ("covalent-pipe", Means::Pipe),
        ("ucx", Means::Ucx),
        ("libfabric", Means::Libfabric),
        ("aeron", Means::Aeron),
        ("iceoryx2", Means::Iceoryx),
    ]
    .into_iter()
    .map(|(name, means)| {
        Box::new(Memory {
            name,
            means,
            company: None,
        }) as Box<dyn Peer>
    })
    .collect()
}

impl Peer for Memory {
    fn name(&self) -> &'static str {
        self.name
    }

    fn medium(&self) -> Medium {
        Medium::Memory
    }

    fn is_ours(&self) -> bool {
        self.means == Means::Pipe
    }

    fn prepare(&mut self, _scene: &Scene<'_>) -> Result<Description> {
        let description = if self.is_ours() {
            Description {
                what: "message through a pipe of ours to another process and back, with a \
                    session's notifications and doorbells; the asking thread \
                       plays the lane"
                    .to_owned(),
                version: concat!("covalent ", env!("CARGO_PKG_VERSION")).to_owned(),
                tuning: format!(
                    "RX/TX pipe, ring of {} KiB in pages of 4096 bytes; both sides poll",
                    RING_BYTES >> 10
                ),
                commands: Vec::new(),
            }
        } else {
            described(self.means).map_err(anyhow::Error::msg)?
        };
        self.company = Some(Company::gather()?);
        Ok(description)
    }

    fn refuses(&self, load: &Load) -> Option<String> {
        (load.bytes > MESSAGE_BYTES_MAX).then(|| {
            format!(
                "a message of {} has at most {MESSAGE_BYTES_MAX} bytes here",
                self.name
            )
        })
    }

    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
        let company = self.company.as_ref().context("it is not prepared")?;
        let slice = Duration::from_nanos(load.plan.slice_ns);
        let part = Part::echo(self.means, load.bytes, RING_BYTES, slice);
        let cores = scene.cores;
        thread::scope(|scope| {
            join(scope.spawn(|| {
                company.accompany(&part, cores.far, |end| {
                    // Not before the processes are started: they would be pinned with this thread.
                    pin(cores.near)?;
                    load.measure(&mut Requester {
                        end,
                        message: vec![0x5a; load.bytes],
                        came: Vec::new(),
                    })
                })
            }))
        })
    }
}

/// Sends messages that begin with a number, and takes them when they are back. Polls.
struct Requester<'e> {
    end: &'e mut dyn NearEnd,
    message: Vec<u8>,
    /// Numbers and lengths of the received messages.
    came: Vec<(u64, usize)>,
}

impl Client for Requester<'_> {
    fn send(&mut self, number: u64) -> Result<bool> {
        self.message[..8].copy_from_slice(&number.to_le_bytes());
        self.end.put(&self.message)
    }

    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
        let came = &mut self.came;
        self.end.take(&mut |message| {
            let number = message
                .first_chunk()
                .map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
            came.push((number, message.len()));
        })?;
        for (number, bytes) in self.came.drain(..) {
            ensure!(
                bytes == self.message.len(),
                "an answer has {bytes} bytes instead of {}",
                self.message.len()
            );
            answered(number);
        }
        Ok(())
    }

    fn wait(&mut self, _until_ns: u64, _clock: &dyn Clock) -> Result<()> {
        // It looks again at once: the library works only while it is called.
        Ok(())
    }
}
