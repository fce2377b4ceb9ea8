//! Lines of text, sent as messages from one node to another. `verbs/c/examples/messages.c` is the
//! same program in C. Either end may be either program.
//!
//! ```text
//! messages recv SOCKET N      registers the receive queue `c-messages`, prints N messages from it
//! messages send SOCKET NODE   sends each line of its standard input to that queue;
//!                             prints how often it was full
//! ```
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{env, error::Error, io, thread, time::Duration};

use covalent::{Device, Error as Failure, Refusal, Target, Timeout};

/// A small queue, so that senders find it full: four messages of a hundred bytes.
const QUEUE_BYTES: u64 = 544;

// ANCHOR: receive
fn receive(socket: &str, count: u64) -> Result<(), Box<dyn Error>> {
    let device = Device::attach(socket, "messages recv")?;
    let mut queue = device.receive_queue("c-messages", QUEUE_BYTES)?;
    println!("ready");
    for _ in 0..count {
        let message = queue.recv(Timeout::FOREVER)?;
        println!("{}", String::from_utf8_lossy(message.data));
    }
    Ok(())
}
// ANCHOR_END: receive

// ANCHOR: send
fn send(socket: &str, node: &str) -> Result<(), Box<dyn Error>> {
    let device = Device::attach(socket, "messages send")?;
    let mut verbs = device.verbs()?;
    let queue = verbs.open_region(Target::Name(node), "c-messages", Timeout::FOREVER)?;
    let mut full = 0;
    for line in io::stdin().lines() {
        let line = line?;
        if line.is_empty() {
            continue; // there is no empty message
        }
        loop {
            match verbs.send(&queue, line.as_bytes(), Timeout::FOREVER) {
                Ok(()) => break, // the message is there
                Err(Failure::VerbRefused {
                    refusal: Refusal::QueueFull,
                    ..
                }) => {
                    // Nothing was lost: the line is still here.
                    full += 1;
                    thread::sleep(Duration::from_micros(100));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    println!("{full}");
    Ok(())
}
// ANCHOR_END: send

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["recv", socket, count] => receive(socket, count.parse()?),
        ["send", socket, node] => send(socket, node),
        _ => Err("usage: messages recv SOCKET N | messages send SOCKET NODE".into()),
    }
}
