//! Sleep times of a lane whose device cannot wake it: naps grow while no frame arrives.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    time::Duration,
};

use nix::sys::{
    time::TimeSpec,
    timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
};

/// The first nap after activity.
const FIRST: Duration = Duration::from_micros(64);

/// The longest nap. It bounds the delay of a frame after idle time. It costs a thousandth of a core
/// for each microsecond that one poll takes.
const LONGEST: Duration = Duration::from_millis(1);

/// A timer to wait on.
#[derive(Debug)]
pub(super) struct Nap {
    timer: TimerFd,
    length: Duration,
}

impl Nap {
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        Ok(Self {
            timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?,
            length: FIRST,
        })
    }

    /// A frame arrived or left: the next nap is short again.
    pub(super) fn shorten(&mut self) {
        self.length = FIRST;
    }

    /// Begins a nap, after which the descriptor is readable. The next nap is twice as long. Returns
    /// `false` if the timer cannot be set: the lane then does not sleep.
    pub(super) fn begin(&mut self) -> bool {
        let once = Expiration::OneShot(TimeSpec::from_duration(self.length));
        let set = self.timer.set(once, TimerSetTimeFlags::empty()).is_ok();
        self.length = longer(self.length);
        set
    }

    /// Ends it: the descriptor is not readable any more.
    pub(super) fn end(&self) {
        // Nothing to read means that the lane was woken by something else.
        let _ = nix::unistd::read(self.timer.as_fd(), &mut [0; 8]);
    }

    /// The descriptor.
    pub(super) fn fd(&self) -> RawFd {
        self.timer.as_fd().as_raw_fd()
    }
}

fn longer(nap: Duration) -> Duration {
    (nap * 2).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_grow_to_a_bound() {
        let mut nap = FIRST;
        let mut naps = vec![nap];
        while nap < LONGEST {
            nap = longer(nap);
            naps.push(nap);
        }
        assert_eq!(naps.len(), 5, "{naps:?}");
        assert_eq!(longer(nap), LONGEST);
    }
}
