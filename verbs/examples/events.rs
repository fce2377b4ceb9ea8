//! One event loop for messages, completions and a timer.
//!
//! ```text
//! events SOCKET NODE REGION N    receives N messages in the queue "c-messages". Meanwhile it adds
//!                                1 to the first word of a region of NODE every 10 ms, once the
//!                                region is there.
//! ```
#![allow(clippy::print_stdout)]

use std::{env, error::Error, os::fd::AsFd, time::Duration};

use covalent::{Completion, Device, Error as Failure, Mode, Outcome, RemoteRegion, Verb, Verbs};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::time::TimeSpec,
    sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
};

const QUEUE_BYTES: u64 = 1 << 16;

/// User data of the verbs.
const LOOKUP: u64 = 0;
const ADDITION: u64 = 1;

// ANCHOR: open
/// A region of another node that is opened by an event loop: no call waits for that node.
struct Opening<'a> {
    node: &'a str,
    name: &'a str,
    region: Option<RemoteRegion>,
    in_flight: bool,
}

impl Opening<'_> {
    /// Posts a lookup, unless one is in flight or the region is open. Call it at each tick.
    fn look(&mut self, device: &Device, verbs: &mut Verbs<'_>) -> Result<(), Failure> {
        if self.region.is_some() || self.in_flight || !verbs.has_room() {
            return Ok(());
        }
        match device.find_node(self.node) {
            Ok(node) => {
                verbs.post_lookup(Some(node), self.name, LOOKUP)?;
                self.in_flight = true;
                Ok(())
            }
            // The daemon does not know the node yet: the next tick asks again.
            Err(Failure::UnknownNode { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes a completion of the lookup.
    fn completed(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::InDoubt(_) => return, // another completion follows
            Outcome::Region(region) => self.region = Some(region),
            // Refused as `UnknownRegion`: it is not registered yet. The next tick looks again, as
            // after any other outcome, because a lookup changes nothing.
            _ => {}
        }
        self.in_flight = false;
    }
}
// ANCHOR_END: open

// ANCHOR: loop
fn serve(socket: &str, node: &str, name: &str, count: u64) -> Result<(), Box<dyn Error>> {
    let device = Device::attach(socket, "events")?;
    let mut queue = device.receive_queue("c-messages", QUEUE_BYTES)?;
    let mut verbs = device.verbs()?;
    let mut words = Opening {
        node,
        name,
        region: None,
        in_flight: false,
    };
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK)?;
    let period = TimeSpec::from(Duration::from_millis(10));
    timer.set(Expiration::Interval(period), TimerSetTimeFlags::empty())?;
    println!("ready");
    let (mut messages, mut additions, mut turns) = (0, 0, 0);
    let mut completions = vec![Completion::default(); 16];
    loop {
        turns += 1;
        // First announce the sleep, then take everything: nothing can arrive unnoticed between.
        device.arm()?;
        while let Some(message) = queue.try_recv()? {
            messages += u64::from(!message.data.is_empty());
        }
        loop {
            let taken = verbs.try_poll(&mut completions)?;
            if taken == 0 {
                break;
            }
            for completion in &completions[..taken] {
                match completion.outcome {
                    outcome if completion.user_data == LOOKUP => words.completed(outcome),
                    Outcome::Old(_) => additions += 1,
                    _ => {}
                }
            }
        }
        if messages >= count && verbs.outstanding() == 0 {
            break;
        }
        let mut fds = [
            PollFd::new(device.as_fd(), PollFlags::POLLIN),
            PollFd::new(timer.as_fd(), PollFlags::POLLIN),
        ];
        poll(&mut fds, PollTimeout::NONE)?;
        if fds[1].any() == Some(true) {
            timer.wait()?;
            words.look(&device, &mut verbs)?;
            let add = Verb::FetchAdd {
                offset_bytes: 0,
                delta: 1,
            };
            // Without room the node is far behind: this tick adds nothing.
            if let Some(region) = words.region
                && verbs.has_room()
            {
                verbs.post(&region, add, Mode::TwoPhase, ADDITION)?;
            }
        }
    }
    println!("{messages} messages, {additions} additions, {turns} turns");
    Ok(())
}
// ANCHOR_END: loop

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments[..] {
        [socket, node, name, count] => serve(socket, node, name, count.parse()?),
        _ => Err("usage: events SOCKET NODE REGION N".into()),
    }
}
