//! The bare ring: the machine's limit.

use std::{os::fd::OwnedFd, time::Instant};

use anyhow::{Result, bail, ensure};

use crate::{
    bare::data_ring::{DataRing, observe, show},
    streams::{
        case::Test,
        part::{Part, Side},
        peers::{BURST, TRIPS_PER_POLL},
        role::{Prepared, Stage, source},
        source::{AFTER, Quanta, Source, TOUCHED},
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
                    Test::RoundTrip => ping(&mut ring, &mut source, stage),
                    _ => send(&mut ring, &mut source, test == Test::Echo, stage),
                }),
            })
        }
        (Side::Far, Test::Echo | Test::OneWay | Test::RoundTrip) => {
            let mut ring = DataRing::open(&fds, bytes)?;
            Ok(Prepared::plain(move |stage| {
                receive(&mut ring, source.quanta(), test != Test::OneWay, stage)
            }))
        }
        _ => bail!("the bare ring has no such part"),
    }
}

/// Copies packets in. In an echo, checks the byte that the other side changed before the space is
/// reused.
fn send(
    ring: &mut DataRing,
    source: &mut Source,
    echo: bool,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let mut returning = source.quanta();
    let burst_quanta = BURST as u64 * returning.most();
    let (mut tail, mut freed) = (0, 0);
    let (mut sent, mut returned, mut wrong) = (0, 0, 0);
    while stage.meter.continues(if echo { returned } else { sent }, 0) {
        if tail + burst_quanta - freed <= ring.quanta() {
            for _ in 0..BURST {
                tail = ring.place(tail, source.next_quanta());
            }
            sent += BURST as u64;
            show(ring.produced(), tail);
        }
        if !echo && tail + burst_quanta - freed <= ring.quanta() {
            // There is space for the next packet. Read the other side's cursor only if needed:
            // reading takes the cache line from it.
            continue;
        }
        let consumed = observe(ring.consumed());
        if echo {
            while freed < consumed {
                wrong += u64::from(ring.byte(freed, TOUCHED) != AFTER);
                freed += returning.next_quanta();
                returned += 1;
            }
        }
        freed = consumed;
    }
    ensure!(wrong == 0, "{wrong} packets were returned altered");
    Ok(stage.meter.finish(if echo { returned } else { sent }, 0))
}

fn receive(
    ring: &mut DataRing,
    mut quanta: Quanta,
    change: bool,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let mut head = 0;
    let (mut count, mut touched) = (0, 0);
    while stage.meter.continues(count, 0) {
        let tail = observe(ring.produced());
        let before = count;
        while head < tail && count - before < BURST as u64 {
            if change {
                ring.touch(head, TOUCHED);
            } else {
                touched += u64::from(ring.byte(head, TOUCHED));
            }
            head += quanta.next_quanta();
            count += 1;
        }
        if count > before {
            show(ring.consumed(), head);
        }
    }
    ensure!(
        change || touched == count,
        "{count} packets add up to {touched}"
    );
    Ok(stage.meter.finish(count, 0))
}

fn ping(ring: &mut DataRing, source: &mut Source, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut tail, mut trips, mut wrong) = (0, 0, 0);
    while stage.meter.observe(trips, 0) {
        let before = Instant::now();
        for _ in 0..TRIPS_PER_POLL {
            let at = tail;
            tail = ring.place(tail, source.next_quanta());
            show(ring.produced(), tail);
            if stage
                .await_some(|| (observe(ring.consumed()) == tail).then_some(()))
                .is_none()
            {
                return Ok(stage.meter.finish(trips, 0));
            }
            wrong += u64::from(ring.byte(at, TOUCHED) != AFTER);
            trips += 1;
        }
        stage.meter.time(before.elapsed() / TRIPS_PER_POLL);
    }
    ensure!(wrong == 0, "{wrong} packets were returned altered");
    Ok(stage.meter.finish(trips, 0))
}
