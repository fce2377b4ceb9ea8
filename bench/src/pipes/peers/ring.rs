//! The bare ring: the machine's limit.

use std::{hint, os::fd::OwnedFd, time::Instant};

use anyhow::{Result, bail, ensure};

use crate::{
    bare::data_ring::{DataRing, look, quanta, show},
    pipes::{
        case::Test,
        part::{Part, Side},
        peers::{BURST, TRIPS_PER_LOOK},
        role::{Prepared, Stage, source},
        source::{AFTER, Source, TOUCHED},
        tally::Tally,
    },
};

/// Gets one side ready.
pub fn prepare(part: &Part, fds: Vec<OwnedFd>) -> Result<Prepared> {
    let bytes = usize::try_from(part.ring_bytes)?;
    let mut source = source(part)?;
    let test = part.case.test;
    match (part.side, test) {
        (Side::Near, Test::Echo | Test::OneWay | Test::RoundTrip) => {
            let (mut ring, fds) = DataRing::create(bytes, part.huge_pages)?;
            Ok(Prepared {
                note: String::new(),
                fds,
                act: Box::new(move |stage| match test {
                    Test::RoundTrip => ask(&mut ring, &mut source, stage),
                    _ => send(&mut ring, &mut source, test == Test::Echo, stage),
                }),
            })
        }
        (Side::Far, Test::Echo | Test::OneWay | Test::RoundTrip) => {
            let mut ring = DataRing::open(&fds, bytes)?;
            Ok(Prepared::plain(move |stage| {
                receive(&mut ring, source.lengths(), test != Test::OneWay, stage)
            }))
        }
        _ => bail!("the bare ring has no such part"),
    }
}

/// Lengths in the order in which packets come, over and over.
struct Lengths<'a> {
    lengths: &'a [u16],
    next: usize,
}

impl<'a> Lengths<'a> {
    const fn new(lengths: &'a [u16]) -> Self {
        Self { lengths, next: 0 }
    }

    #[inline]
    fn next_length(&mut self) -> usize {
        let length = usize::from(self.lengths[self.next]);
        self.next += 1;
        if self.next == self.lengths.len() {
            self.next = 0;
        }
        length
    }
}

/// Copies packets in; of an echo, looks at the byte that the other side changed before its place is used again.
fn send(
    ring: &mut DataRing,
    source: &mut Source,
    echo: bool,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let burst_quanta =
        BURST as u64 * quanta(source.lengths().iter().copied().max().unwrap_or(0).into());
    let all = source.lengths().to_vec();
    let mut returning = Lengths::new(&all);
    let (mut tail, mut freed) = (0, 0);
    let (mut sent, mut returned, mut bytes, mut wrong) = (0, 0, 0, 0);
    while stage
        .meter
        .goes_on(if echo { returned } else { sent }, bytes)
    {
        if tail + burst_quanta - freed <= ring.quanta() {
            for _ in 0..BURST {
                tail = ring.place(tail, source.next_packet());
            }
            sent += BURST as u64;
            show(ring.produced(), tail);
        }
        let consumed = look(ring.consumed());
        if echo {
            while freed < consumed {
                wrong += u64::from(ring.byte(freed, TOUCHED) != AFTER);
                let length = returning.next_length();
                freed += quanta(length);
                bytes += length as u64;
                returned += 1;
            }
        }
        freed = consumed;
    }
    ensure!(wrong == 0, "{wrong} packets came back wrong");
    Ok(stage
        .meter
        .finish(if echo { returned } else { sent }, bytes))
}

fn receive(
    ring: &mut DataRing,
    lengths: &[u16],
    change: bool,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let mut lengths = Lengths::new(lengths);
    let mut head = 0;
    let (mut count, mut bytes, mut touched) = (0, 0, 0);
    while stage.meter.goes_on(count, bytes) {
        let tail = look(ring.produced());
        if tail == head {
            hint::spin_loop();
            continue;
        }
        let before = count;
        while head < tail && count - before < BURST as u64 {
            if change {
                ring.touch(head, TOUCHED);
            } else {
                touched += u64::from(ring.byte(head, TOUCHED));
            }
            let length = lengths.next_length();
            head += quanta(length);
            bytes += length as u64;
            count += 1;
        }
        show(ring.consumed(), head);
    }
    ensure!(
        change || touched == count,
        "{count} packets add up to {touched}"
    );
    Ok(stage.meter.finish(count, bytes))
}

fn ask(ring: &mut DataRing, source: &mut Source, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut tail, mut trips, mut wrong) = (0, 0, 0);
    while stage.meter.look(trips, 0) {
        let before = Instant::now();
        for _ in 0..TRIPS_PER_LOOK {
            let at = tail;
            tail = ring.place(tail, source.next_packet());
            show(ring.produced(), tail);
            if stage
                .await_some(|| (look(ring.consumed()) == tail).then_some(()))
                .is_none()
            {
                return Ok(stage.meter.finish(trips, 0));
            }
            wrong += u64::from(ring.byte(at, TOUCHED) != AFTER);
            trips += 1;
        }
        stage.meter.time(before.elapsed() / TRIPS_PER_LOOK);
    }
    ensure!(wrong == 0, "{wrong} packets came back wrong");
    Ok(stage.meter.finish(trips, 0))
}
