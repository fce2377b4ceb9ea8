//! Many pipes of one session, and the methods to notify an application of new packets.
//!
//! ```text
//!   near: a lane                                   far: an application
//!   packet n ─► pipe n modulo their number ══════► received, a byte of it read
//!   at an exact rate  ──── notifications ────────► name the pipe to poll
//!                     ◄─── doorbells ────────────  request the next notification
//!   timed             ◄═══ a TX pipe ════════════  some packets sent back
//! ```
//! A process runs all trials of a script, so a sweep of rates needs one pair of processes.

mod application;
mod bare;
mod cores;
pub mod counts;
mod drive;
#[cfg(test)]
pub mod example;
mod handing;
mod lane;
mod lines;
pub mod loads;
mod pacer;
pub mod page;
mod part;
mod probe;
mod search;
pub mod table;
mod trial;

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use covalent_ipc::seqpacket::{Connection, Listener};

use self::part::Rings;
use self::{application::Application, bare::NearBare, drive::Driver, handing::Handing, lane::Lane};
use crate::streams::part::Side;

pub use cores::CoreShares;
pub use part::SessionPart;
pub use trial::Trial;

/// A part that can be played.
pub struct Prepared {
    act: Act,
}

type Act = Box<dyn FnOnce(&AtomicBool) -> Result<Played>>;

/// The results of one side.
#[derive(Debug)]
pub struct Played {
    /// The near side's trials.
    pub trials: Vec<Trial>,
    /// Packets that the near side sent and did not drop, or that the far side received, in all.
    pub packets: u64,
}

/// Gets one side ready. Rings are made and change hands when it is played.
pub fn prepare(part: SessionPart) -> Result<Prepared> {
    let socket = part.socket();
    let act: Act = match part.side {
        Side::Near => {
            let listener = Listener::bind(&socket)
                .with_context(|| format!("listening at {}", socket.display()))?;
            Box::new(move |stop| {
                // The far side connects before the measurement sends the start order.
                let handing = Handing::new(listener.accept().context("meeting the far side")?);
                let (trials, packets) = match part.rings {
                    Rings::Pipes(notify_mode) => {
                        let lane = Lane::prepare(&part, notify_mode, &handing)?;
                        Driver::new(lane, &part, stop)?.play()?
                    }
                    Rings::Bare => {
                        let rings = NearBare::prepare(&part, &handing)?;
                        Driver::new(rings, &part, stop)?.play()?
                    }
                };
                Ok(Played { trials, packets })
            })
        }
        Side::Far => {
            let connection = Connection::connect(&socket)
                .with_context(|| format!("meeting the near side at {}", socket.display()))?;
            Box::new(move |stop| {
                let handing = Handing::new(connection);
                let packets = match part.rings {
                    Rings::Pipes(notify_mode) => {
                        Application::prepare(&part, notify_mode, &handing)?.play(stop)?
                    }
                    Rings::Bare => bare::receive(bare::open(&part, &handing)?, stop)?,
                };
                Ok(Played {
                    trials: Vec::new(),
                    packets,
                })
            })
        }
        Side::Aid => bail!("a session needs no third process"),
    };
    Ok(Prepared { act })
}

impl Prepared {
    /// Plays it.
    pub fn play(self, stop: &AtomicBool) -> Result<Played> {
        (self.act)(stop)
    }
}
