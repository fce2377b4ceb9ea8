//! False values in one pipe alone, written once it has carried packets. Any violation that the
//! daemon then detects is in the words of that pipe.

use std::{
    fmt, thread,
    time::{Duration, Instant},
};

use super::{
    CAPACITY_BYTES, COUNTERS, DO_NOT_SEND, End, HEAD, Incarnation, LENGTHS, OUTSTANDING, Pipe,
    RX_TX, SEEN, TAIL, TX_TAIL,
};
use crate::{node::PATIENCE, noise::Noise};

/// Packets received before the first false value. For an RX/TX pipe also the packets sent, and
/// those not sent.
const HONEST_PACKETS: u64 = 4;
/// Maximum wait for them: their sender may get little time on a busy machine.
const BAIT_MAX: Duration = Duration::from_secs(3);
/// Time that the daemon gets to detect a false value before it is written again.
const LIE_TIME: Duration = Duration::from_millis(1);
/// How the line of a siege begins.
const REPORT_PREFIX: &str = "besieged";

/// How a siege went.
#[derive(Debug)]
pub struct Siege {
    /// The pipe was an RX/TX pipe, else one of bytes.
    pub is_rx_tx: bool,
    /// Packets received.
    pub received: u64,
    /// Packets that were given back and sent.
    pub sent: u64,
    /// Packets that were given back marked not to be sent.
    pub discarded: u64,
    /// Why it was detached.
    pub reason: String,
}

impl fmt::Display for Siege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{REPORT_PREFIX} {} {} {} {} {}",
            self.is_rx_tx, self.received, self.sent, self.discarded, self.reason
        )
    }
}

impl Siege {
    /// Parses another process's report of a siege. Returns `None` if `line` is not such a report.
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line
            .strip_prefix(REPORT_PREFIX)?
            .trim_start()
            .splitn(5, ' ');
        let mut word = || words.next().expect("five words");
        Some(Self {
            is_rx_tx: word().parse().expect("a truth value"),
            received: word().parse().expect("a number"),
            sent: word().parse().expect("a number"),
            discarded: word().parse().expect("a number"),
            reason: word().to_owned(),
        })
    }
}

impl Incarnation {
    /// Uses the pipe at `place` properly until it has carried packets. Then writes false values
    /// about it alone until the daemon detaches it. Values of even and of odd number affect
    /// different words.
    pub(super) fn besiege(mut self, place: usize, lie: u64, noise: &mut Noise) -> End {
        let begun = Instant::now();
        while !self.has_carried_packets(place) {
            if begun.elapsed() > BAIT_MAX {
                return End::Left;
            }
            self.give_back(place, noise);
            if let Some(end) = self.listen() {
                return end;
            }
            thread::sleep(Duration::from_micros(100));
        }
        let lies = Instant::now();
        loop {
            assert!(lies.elapsed() < PATIENCE, "the daemon puts up with lies");
            self.lie_about(place, lie, noise);
            thread::sleep(LIE_TIME);
            if let Some(end) = self.listen() {
                let End::Detached(reason) = end else {
                    return end;
                };
                return End::DetachedFor(self.siege(place, reason));
            }
        }
    }

    fn has_carried_packets(&self, place: usize) -> bool {
        let siege = self.siege(place, String::new());
        let is_sent = siege.sent >= HONEST_PACKETS && siege.discarded >= HONEST_PACKETS;
        siege.received >= HONEST_PACKETS && (is_sent || !siege.is_rx_tx)
    }

    /// Returns the pipe's work so far, according to the counters that the daemon writes.
    fn siege(&self, place: usize, reason: String) -> Siege {
        let count = |word: u64| self.pipes[place].control.load(COUNTERS + word * 8);
        Siege {
            is_rx_tx: place == RX_TX,
            received: count(0),
            sent: count(2),
            discarded: count(4),
            reason,
        }
    }

    /// Gives back all received packets. In an RX/TX pipe about every other packet is marked not to
    /// be sent.
    fn give_back(&self, place: usize, noise: &mut Noise) {
        let pipe = &self.pipes[place];
        let control = &pipe.control;
        let tail = control.load(TAIL) & !OUTSTANDING;
        if place == RX_TX {
            let mut start = control.load(TX_TAIL);
            while start < tail {
                let length = length_word(pipe, start);
                let mark = noise.next() as u32 & DO_NOT_SEND;
                control.store_u32(length_offset(start), length | mark);
                start += u64::from(length).next_multiple_of(64);
            }
            control.store(TX_TAIL, tail);
        } else {
            control.store(SEEN, tail);
            control.store(HEAD, tail);
        }
        self.ring(pipe.number.into());
    }

    /// Writes the false value number `lie` into a word of the pipe. Further packets may make a
    /// value true, which does no harm: another value is written next time.
    fn lie_about(&self, place: usize, lie: u64, noise: &mut Noise) {
        let pipe = &self.pipes[place];
        let control = &pipe.control;
        let tail = control.load(TAIL) & !OUTSTANDING;
        let past = tail + 64 * (1 + noise.below(2 * CAPACITY_BYTES / 64));
        let given_back = control.load(TX_TAIL);
        let mark = noise.next() as u32 & DO_NOT_SEND;
        match (place == RX_TX, lie % 4) {
            (true, 0) => control.store(TX_TAIL, past),
            (true, 2) if noise.below(2) == 0 => {
                control.store(TX_TAIL, given_back.wrapping_sub(64));
            }
            (true, 2) => control.store(TX_TAIL, given_back + 1 + noise.below(63)),
            // Before a packet arrives there is no length to falsify.
            (true, _) if given_back == tail => return,
            (true, too_long) => {
                let length = (too_long / 2) as u32 * (CAPACITY_BYTES as u32 + 1);
                control.store_u32(length_offset(given_back), length | mark);
                control.store(TX_TAIL, tail);
            }
            (false, 0) => control.store(HEAD, past),
            (false, 1) => control.store(SEEN, past),
            (false, 2) => control.store(HEAD, control.load(HEAD).wrapping_sub(1)),
            (false, _) => control.store(SEEN, control.load(HEAD).wrapping_sub(1)),
        }
        self.ring(pipe.number.into());
    }
}

fn length_offset(start: u64) -> u64 {
    LENGTHS + start / 16 % (CAPACITY_BYTES / 16)
}

fn length_word(pipe: &Pipe, start: u64) -> u32 {
    let offset = length_offset(start);
    (pipe.control.load(offset) >> (offset % 8 * 8)) as u32
}
