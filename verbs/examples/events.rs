//! One event loop for messages, completions and a timer.
//!
//! ```text
//! events SOCKET NODE REGION N    receives N messages in the queue "c-messages". Meanwhile it adds
//!                                1 to the first word of a region of NODE every 10 ms.
//! ```
#![allow(clippy::print_stdout)]

use std::{env, error::Error, os::fd::AsFd, time::Duration};

use covalent::{Completion, Device, Mode, Outcome, Target, Timeout, Verb};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::time::TimeSpec,
    sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
};

const QUEUE_BYTES: u64 = 1 << 16;

// ANCHOR: loop
fn serve(socket: &str, node: &str, region: &str, count: u64) -> Result<(), Box<dyn Error>> {
    let device = Device::attach(socket, "events")?;
    let mut queue = device.receive_queue("c-messages", QUEUE_BYTES)?;
    let mut verbs = device.verbs()?;
    let words = verbs.open_region(Target::Name(node), region, Timeout::FOREVER)?;
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
            let added = |it: &&Completion| matches!(it.outcome, Outcome::Old(_));
            additions += completions[..taken].iter().filter(added).count();
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
            let add = Verb::FetchAdd {
                offset_bytes: 0,
                delta: 1,
            };
            // Without room the node is far behind: this tick adds nothing.
            if verbs.has_room() {
                verbs.post(&words, add, Mode::TwoPhase, 0)?;
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
        [socket, node, region, count] => serve(socket, node, region, count.parse()?),
        _ => Err("usage: events SOCKET NODE REGION N".into()),
    }
}
