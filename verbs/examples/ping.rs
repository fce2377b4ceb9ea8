//! Sends frames and receives them back. `verbs/c/examples/ping.c` is the same program in C. Either
//! end may be either program.
//!
//! ```text
//! ping echo SOCKET PORT N              sends N frames of EtherType 0x88b6 back in place
//! ping loop SOCKET PORT NODE REGION    the same in an event loop, until SIGTERM. It adds the
//!                                      number of frames to the first word of a region of NODE.
//! ping send SOCKET PORT N              sends N frames, 32 at a time, and checks the frames that
//!                                      come back
//! ```
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{env, error::Error, os::fd::AsFd, time::Duration};

use covalent::{
    Completion, Device, Match, Mode, Outcome, REQUEST_TIMEOUT, RxTxPipe, Target, Timeout, Verb,
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        time::TimeSpec,
        timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    },
};

// ANCHOR: ours
const PIPE_BYTES: u64 = 1 << 20;
const FRAME_BYTES: usize = 100;
const AT_A_TIME: u64 = 32;

const OURS: Match = Match::EtherType { ethertype: 0x88b6 };
// ANCHOR_END: ours

// ANCHOR: echo
/// Opens a pipe that receives our frames and sends them back.
fn open_echo<'d>(device: &'d Device, port: &str) -> Result<RxTxPipe<'d>, Box<dyn Error>> {
    let mut pipe = device.rx_tx_pipe(PIPE_BYTES, port)?;
    pipe.bind(&OURS)?;
    println!("ready");
    Ok(pipe)
}

fn echo(socket: &str, port: &str, count: u64) -> Result<(), Box<dyn Error>> {
    let device = Device::attach_for_port(socket, "ping", port, REQUEST_TIMEOUT)?;
    let mut pipe = open_echo(&device, port)?;
    let mut seen = 0;
    while seen < count {
        let mut batch = pipe.recv(Timeout::FOREVER)?;
        while let Some(mut frame) = batch.next_packet() {
            // Other programs may send frames of this type, too.
            if frame.len() == FRAME_BYTES {
                frame[FRAME_BYTES - 1] ^= 0xff;
            }
            seen += 1;
        }
        batch.send_all()?; // from where they lie
    }
    // A frame that the port does not have when the pipe is dropped may be lost.
    pipe.flush(Timeout::FOREVER)?;
    Ok(())
}
// ANCHOR_END: echo

// ANCHOR: loop
/// Sends frames back until SIGTERM, and counts them in the first word of a region of another node.
fn echo_in_a_loop(
    socket: &str,
    port: &str,
    node: &str,
    region: &str,
) -> Result<(), Box<dyn Error>> {
    // Blocked, the signal no longer ends the program: it makes the descriptor readable.
    let mut terminate = SigSet::empty();
    terminate.add(Signal::SIGTERM);
    terminate.thread_block()?;
    let signals = SignalFd::with_flags(&terminate, SfdFlags::SFD_NONBLOCK)?;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK)?;
    let period = TimeSpec::from(Duration::from_millis(10));
    timer.set(Expiration::Interval(period), TimerSetTimeFlags::empty())?;
    let device = Device::attach_for_port(socket, "ping", port, REQUEST_TIMEOUT)?;
    let mut verbs = device.verbs()?;
    let counter = verbs.open_region(Target::Name(node), region, Timeout::FOREVER)?;
    let mut pipe = open_echo(&device, port)?;
    let mut completions = vec![Completion::default(); 16];
    let (mut echoed, mut counted, mut is_ending) = (0, 0, false);
    loop {
        device.arm()?;
        while let Some(mut batch) = pipe.try_recv()? {
            while let Some(mut frame) = batch.next_packet() {
                if frame.len() == FRAME_BYTES {
                    frame[FRAME_BYTES - 1] ^= 0xff;
                }
                echoed += 1;
            }
            batch.send_all()?; // a batch that is dropped is received again
        }
        loop {
            let taken = verbs.try_poll(&mut completions)?;
            if taken == 0 {
                break;
            }
            for completion in &completions[..taken] {
                match &completion.outcome {
                    // Another completion follows one in doubt.
                    Outcome::Old(_) | Outcome::InDoubt(_) => {}
                    outcome => return Err(format!("frames were not counted: {outcome:?}").into()),
                }
            }
        }
        // The pipe is closed only when the port has all frames.
        let is_counted = counted == echoed && verbs.outstanding() == 0;
        if is_ending && is_counted && pipe.try_flush()? {
            break;
        }
        let mut fds = [
            PollFd::new(device.as_fd(), PollFlags::POLLIN),
            PollFd::new(timer.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        poll(&mut fds, PollTimeout::NONE)?;
        if fds[1].any() == Some(true) {
            timer.wait()?;
            if echoed > counted && verbs.has_room() {
                let add = Verb::FetchAdd {
                    offset_bytes: 0,
                    delta: echoed - counted,
                };
                verbs.post(&counter, add, Mode::TwoPhase, 0)?;
                counted = echoed;
            }
        }
        if signals.read_signal()?.is_some() {
            // No more frames arrive. The next turn takes those that are in the pipe.
            pipe.unbind(&OURS)?;
            is_ending = true;
        }
    }
    println!("{echoed}");
    Ok(())
}
// ANCHOR_END: loop

// ANCHOR: send
fn send(socket: &str, port: &str, count: u64) -> Result<(), Box<dyn Error>> {
    let device = Device::attach_for_port(socket, "ping", port, REQUEST_TIMEOUT)?;
    let mut rx = device.rx_pipe_on(PIPE_BYTES, port)?;
    rx.bind(&OURS)?;
    let mut tx = device.tx_pipe(PIPE_BYTES, port)?;
    let mut frame = [0; FRAME_BYTES];
    frame[12..14].copy_from_slice(&[0x88, 0xb6]);
    let (mut sent, mut back) = (0, 0);
    while back < count {
        while sent < count && sent - back < AT_A_TIME {
            frame[14..22].copy_from_slice(&sent.to_le_bytes());
            tx.push(&frame)?; // copied into the pipe
            sent += 1;
        }
        tx.publish()?; // one doorbell for all of them
        let batch = rx.recv(Timeout::FOREVER)?;
        for packet in &batch {
            frame[14..22].copy_from_slice(&back.to_le_bytes());
            frame[FRAME_BYTES - 1] = 0xff;
            if *packet != frame {
                return Err(format!("frame {back} differs from the sent one").into());
            }
            frame[FRAME_BYTES - 1] = 0;
            back += 1;
        }
        batch.free_all();
    }
    tx.flush(Timeout::FOREVER)?;
    println!("{back}");
    Ok(())
}
// ANCHOR_END: send

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["echo", socket, port, count] => echo(socket, port, count.parse()?),
        ["loop", socket, port, node, region] => echo_in_a_loop(socket, port, node, region),
        ["send", socket, port, count] => send(socket, port, count.parse()?),
        _ => {
            Err("usage: ping echo|send SOCKET PORT N, or ping loop SOCKET PORT NODE REGION".into())
        }
    }
}
