//! The peer of the round trip: a bare client and a bare echo, each a thread that does nothing else.
//!
//! The echo sends back what it received, and the client looks whether it did. Either can leave the frames unread: then the packet memory, which
//! the other core wrote, never comes to this one, and what is left is the time that the kernel takes to carry descriptors.

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

/// Where the number of a trip stands in its frame.
const NUMBER_AT: usize = 14;

/// The default EtherType of links.
const ETHERTYPE: u16 = 0x88b5;

/// What an end does with the frames that it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frames {
    /// Reads them: the echo returns what is in them, the client compares.
    Read,
    /// Counts them.
    Unread,
}

/// One end of the cable, with a bare socket on it.
pub struct End {
    steered: Steered,
    frames: Frames,
    frame: [u8; FRAME_BYTES],
    trips: u64,
}

impl End {
    /// Opens the client's, for the calling thread, which stays there.
    pub fn near(stage: &Stage, cores: Cores, arguments: &Wire, frames: Frames) -> Result<Self> {
        Self::open(&stage.a, cores.near, "a0", arguments, frames)
    }

    fn far(stage: &Stage, cores: Cores, arguments: &Wire, frames: Frames) -> Result<Self> {
        Self::open(&stage.b, cores.far, "b0", arguments, frames)
    }

    fn open(
        namespace: &Namespace,
        core: usize,
        interface: &str,
        arguments: &Wire,
        frames: Frames,
    ) -> Result<Self> {
        namespace.enter()?;
        pin(core)?;
        Ok(Self {
            steered: Steered::open(
                interface,
                Wanted::EtherType(ETHERTYPE),
                arguments.ring_slots,
                BURST,
            )?,
            frames,
            frame: frame(),
            trips: 0,
        })
    }

    /// Sends a frame and looks for it until it is back. Whether it came before `deadline`.
    pub fn trip(&mut self, deadline: Instant) -> Result<bool> {
        let Self {
            steered,
            frames,
            frame,
            trips,
        } = self;
        *trips += 1;
        frame[NUMBER_AT..NUMBER_AT + 8].copy_from_slice(&trips.to_le_bytes());
        let socket = &mut steered.socket;
        socket.send(&frame[..], 1).context("sending")?;
        let mut came_back = false;
        loop {
            match frames {
                // Others may come too: one that was waited for too long, or what the kernel says on a fresh interface.
                Frames::Read => {
                    socket.receive(|echoed| came_back |= *echoed == frame[..]);
                }
                Frames::Unread => came_back = socket.receive(|_| ()) > 0,
            }
            if came_back {
                return Ok(true);
            }
            if Instant::now() > deadline {
                return Ok(false);
            }
        }
    }

    fn echo(&mut self) -> Result<()> {
        let Self {
            steered,
            frames,
            frame,
            ..
        } = self;
        let socket = &mut steered.socket;
        let count = match frames {
            Frames::Read => socket.receive(|arrived| {
                if arrived.len() == FRAME_BYTES {
                    frame.copy_from_slice(arrived);
                }
            }),
            Frames::Unread => socket.receive(|_| ()),
        };
        if count > 0 {
            socket.send(&frame[..], count).context("echoing")?;
        }
        Ok(())
    }
}

/// One slice of the plain client.
pub fn slice(stage: &Stage, cores: Cores, arguments: &Wire, frames: Frames) -> Result<Slice> {
    beside_echo(stage, cores, arguments, frames, || {
        thread::scope(|scope| {
            join(scope.spawn(|| {
                let mut client = End::near(stage, cores, arguments, frames)?;
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
    frames: Frames,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    beside(
        || End::far(stage, cores, arguments, frames),
        End::echo,
        work,
    )
}

fn frame() -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..6].fill(0xff);
    frame[6] = 2;
    frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    frame
}
