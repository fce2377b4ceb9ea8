//! The peer of the round trip: a bare client and a bare echo, each a thread that does nothing else.

use std::{thread, time::Instant};

use anyhow::{Context, Result};

use crate::{
    arguments::Wire,
    bare::{Steered, Wanted},
    beside::{beside, join},
    cores::{Cores, pin},
    stage::{Namespace, Stage},
    trips::Slice,
};

/// A frame with one record of the link protocol: 14 bytes of header and 64 of record.
pub const FRAME_BYTES: usize = 78;

/// Frames that either side moves at a time.
pub const BURST: u32 = 64;

/// The default EtherType of links.
const ETHERTYPE: u16 = 0x88b5;

/// One end of the cable, with a bare socket on it.
pub struct End {
    steered: Steered,
    frame: [u8; FRAME_BYTES],
}

impl End {
    /// Opens the client's, for the calling thread, which stays there.
    pub fn near(stage: &Stage, cores: Cores, arguments: &Wire) -> Result<Self> {
        Self::open(&stage.a, cores.near, "a0", arguments)
    }

    fn far(stage: &Stage, cores: Cores, arguments: &Wire) -> Result<Self> {
        Self::open(&stage.b, cores.far, "b0", arguments)
    }

    fn open(namespace: &Namespace, core: usize, interface: &str, arguments: &Wire) -> Result<Self> {
        namespace.enter()?;
        pin(core)?;
        Ok(Self {
            steered: Steered::open(
                interface,
                Wanted::EtherType(ETHERTYPE),
                arguments.ring_slots,
                BURST,
            )?,
            frame: frame(),
        })
    }

    /// Sends a frame and looks for it until it is back. Whether it came before `deadline`.
    pub fn trip(&mut self, deadline: Instant) -> Result<bool> {
        let socket = &mut self.steered.socket;
        socket.send(&self.frame, 1).context("sending")?;
        while socket.receive(|_| ()) == 0 {
            if Instant::now() > deadline {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn echo(&mut self) -> Result<()> {
        let socket = &mut self.steered.socket;
        let count = socket.receive(|_| ());
        if count > 0 {
            socket.send(&self.frame, count).context("echoing")?;
        }
        Ok(())
    }
}

/// One slice of the plain client.
pub fn slice(stage: &Stage, cores: Cores, arguments: &Wire) -> Result<Slice> {
    beside_echo(stage, cores, arguments, || {
        thread::scope(|scope| {
            join(scope.spawn(|| {
                let mut client = End::near(stage, cores, arguments)?;
                Slice::of(arguments.slice(), |deadline| client.trip(deadline))
            }))
        })
    })
}

/// Does `work` while the echo runs far away.
pub fn beside_echo<T>(
    stage: &Stage,
    cores: Cores,
    arguments: &Wire,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    beside(|| End::far(stage, cores, arguments), End::echo, work)
}

fn frame() -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..6].fill(0xff);
    frame[6] = 2;
    frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    frame
}
