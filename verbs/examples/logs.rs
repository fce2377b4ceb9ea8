//! Lines of text over UDP, read without gaps. `verbs/c/examples/logs.c` is the same program in C,
//! which also sends the lines.
//!
//! ```text
//! logs SOCKET PORT N    prints the first N lines that arrive on UDP port 514,
//!                       whatever datagrams they arrive in
//! ```
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{env, error::Error};

use covalent::{Device, Match, REQUEST_TIMEOUT, Timeout, Transport, framing::Delimited};

const PIPE_BYTES: u64 = 1 << 20;
const LINE_BYTES_MAX: usize = 1024;

// ANCHOR: read
fn read(socket: &str, port: &str, count: usize) -> Result<(), Box<dyn Error>> {
    let device = Device::attach_for_port(socket, "logs", port, REQUEST_TIMEOUT)?;
    let mut pipe = device.byte_pipe_on(PIPE_BYTES, port)?;
    pipe.bind(&Match::Port {
        transport: Transport::Udp,
        dst_port: 514,
    })?;
    println!("ready");
    let (mut printed, mut seen_bytes) = (0, 0);
    while printed < count {
        let batch = pipe.recv_more_than(seen_bytes, Timeout::FOREVER)?;
        let mut lines = batch.messages(Delimited::new(b'\n', LINE_BYTES_MAX));
        for line in lines.by_ref().take(count - printed) {
            println!("{}", String::from_utf8_lossy(line));
            printed += 1;
        }
        if let Some(broken) = lines.error() {
            return Err(broken.into());
        }
        // The rest is the beginning of a line: wait for more bytes than that.
        let done = lines.consumed_bytes();
        seen_bytes = batch.bytes().len() - done;
        batch.free(done);
    }
    eprintln!(
        "{} datagrams lost because the pipe was full",
        pipe.counters().full
    );
    Ok(())
}
// ANCHOR_END: read

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [socket, port, count] => read(socket, port, count.parse()?),
        _ => Err("usage: logs SOCKET PORT N".into()),
    }
}
