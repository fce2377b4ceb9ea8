//! The same number of bare rings in turn: the limit of the machine, where the copy is the only
//! work.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};

use super::{
    drive::{Back, NearRings},
    handing::{Handing, borrowed},
    part::SessionPart,
};
use crate::{
    bare::data_ring::{DataRing, observe, show},
    streams::{peers::BURST, source::TOUCHED},
};

/// The near ends.
#[derive(Debug)]
pub struct NearBare {
    rings: Vec<NearRing>,
    /// Rings that hold packets which were not shown.
    touched: Vec<usize>,
}

#[derive(Debug)]
struct NearRing {
    ring: DataRing,
    tail: u64,
    shown: u64,
    freed: u64,
}

impl NearBare {
    /// Makes the rings and hands them over.
    pub fn prepare(part: &SessionPart, handing: &Handing) -> Result<Self> {
        let bytes = usize::try_from(part.ring_bytes)?;
        let huge_pages = part.huge_pages && part.ring_bytes >= 2 << 20;
        let rings = (0..part.count)
            .map(|_| {
                let (ring, fds) = DataRing::create(bytes, huge_pages)?;
                handing.give(&borrowed(&fds))?;
                Ok(NearRing {
                    ring,
                    tail: 0,
                    shown: 0,
                    freed: 0,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            rings,
            touched: Vec::with_capacity(BURST),
        })
    }
}

impl NearRings for NearBare {
    #[inline]
    fn push(&mut self, at: usize, packet: &[u8]) -> Result<bool> {
        let (packet, _) = packet.as_chunks();
        let near = &mut self.rings[at];
        let end = near.tail + packet.len() as u64;
        if end - near.freed > near.ring.quanta() {
            near.freed = observe(near.ring.consumed());
            if end - near.freed > near.ring.quanta() {
                return Ok(false);
            }
        }
        if near.tail == near.shown {
            self.touched.push(at);
        }
        near.tail = near.ring.place(near.tail, packet);
        Ok(true)
    }

    #[inline]
    fn publish(&mut self) -> Result<()> {
        for at in self.touched.drain(..) {
            let near = &mut self.rings[at];
            near.shown = near.tail;
            show(near.ring.produced(), near.tail);
        }
        Ok(())
    }

    #[inline]
    fn serve(&mut self, _: &mut Back) -> Result<()> {
        Ok(())
    }

    fn waiting(&mut self) -> u64 {
        self.rings
            .iter()
            .map(|near| near.tail - observe(near.ring.consumed()))
            .sum()
    }

    fn notifications(&self) -> u64 {
        0
    }
}

/// Takes the rings over at the far side.
pub fn open(part: &SessionPart, handing: &Handing) -> Result<Vec<DataRing>> {
    let bytes = usize::try_from(part.ring_bytes)?;
    (0..part.count)
        .map(|_| handing.take(2, |fds| DataRing::open(&fds, bytes)))
        .collect()
}

/// Polls the rings in turn until it is stopped. Returns the number of received packets.
pub fn receive(rings: Vec<DataRing>, stop: &AtomicBool) -> Result<u64> {
    let mut rings: Vec<(DataRing, u64)> = rings.into_iter().map(|ring| (ring, 0)).collect();
    let (mut received, mut touched) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        for (ring, head) in &mut rings {
            let tail = observe(ring.produced()).min(*head + BURST as u64);
            if tail == *head {
                continue;
            }
            for at in *head..tail {
                touched += u64::from(ring.byte(at, TOUCHED));
            }
            received += tail - *head;
            *head = tail;
            show(ring.consumed(), tail);
        }
    }
    ensure!(
        touched == received,
        "{received} packets add up to {touched}"
    );
    Ok(received)
}
