//! The work for one packet, counted in instructions: `scripts/count-instructions` runs this under
//! callgrind.
//!
//! Every contestant does the same for each packet, in bursts of 64: it copies 64 bytes in, the
//! application reads and changes one of them, and the returned bytes are read. Both sides run in
//! one thread, because an instruction count does not include waiting.

use std::hint::black_box;

use covalent_pipe::{
    Direction, PagePolicy, PipeMemory, PipeSpec,
    app::{BytePipe, RxPipe, RxTxPipe},
    framing::FixedSize,
    nic::NicPipe,
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const BURST: usize = 64;
const CAPACITY_BYTES: u64 = 256 * 1024;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let (Some(contestant), Some(packets)) = (arguments.next(), arguments.next()) else {
        return Err("usage: packet_instructions CONTESTANT PACKETS".into());
    };
    let bursts = packets.parse::<usize>()?.div_ceil(BURST);
    match contestant.as_str() {
        "pipe-echo" => pipe_echo(bursts),
        "pipe-one-way" => pipe_one_way(bursts),
        "bytes-one-way" => bytes_one_way(bursts),
        "mbuf-echo" => mbuf_echo(bursts),
        "mbuf-one-way" => mbuf_one_way(bursts),
        other => Err(format!("no contestant `{other}`").into()),
    }
}

fn memories(direction: Direction) -> Result<(NicPipe, PipeMemory), Box<dyn std::error::Error>> {
    let memory = PipeMemory::create(&PipeSpec {
        direction,
        capacity_bytes: CAPACITY_BYTES,
        pages: PagePolicy::Never,
    })?;
    let [control, data] = memory.fds();
    let fds = [control.try_clone_to_owned()?, data.try_clone_to_owned()?];
    let opened = PipeMemory::open(fds, direction, CAPACITY_BYTES)?;
    Ok((NicPipe::new(memory), opened))
}

fn pipe_echo(bursts: usize) -> Outcome {
    let (mut nic, memory) = memories(Direction::RxTx)?;
    let mut app = RxTxPipe::new(memory)?;
    let packet = black_box([7_u8; 64]);
    let mut sum = 0_u64;
    for _ in 0..bursts {
        for _ in 0..BURST {
            nic.push(&packet)?;
        }
        nic.publish();
        let mut batch = app.recv_mut().ok_or("no packets")?;
        while let Some(mut packet) = batch.next_packet() {
            packet[8] = packet[8].wrapping_add(1);
        }
        batch.send_taken();
        nic.take_tx(BURST, |packet| {
            sum += u64::from(packet.byte(8).unwrap_or_default());
            true
        })?;
        nic.complete_tx();
    }
    check(sum, bursts, 8)
}

fn pipe_one_way(bursts: usize) -> Outcome {
    let (mut nic, memory) = memories(Direction::Rx)?;
    let mut app = RxPipe::new(memory)?;
    let packet = black_box([7_u8; 64]);
    let mut sum = 0_u64;
    for _ in 0..bursts {
        for _ in 0..BURST {
            nic.push(&packet)?;
        }
        nic.publish();
        let batch = app.recv().ok_or("no packets")?;
        for packet in &batch {
            sum += u64::from(packet[8]);
        }
        batch.free_all();
    }
    check(sum, bursts, 7)
}

fn bytes_one_way(bursts: usize) -> Outcome {
    let (mut nic, memory) = memories(Direction::RxBytes)?;
    let mut app = BytePipe::new(memory)?;
    let framing = FixedSize::new(64).ok_or("a size")?;
    let packet = black_box([7_u8; 64]);
    let mut sum = 0_u64;
    for _ in 0..bursts {
        for _ in 0..BURST {
            nic.push(&packet)?;
        }
        nic.publish();
        let batch = app.recv().ok_or("no bytes")?;
        for message in batch.messages(framing) {
            sum += u64::from(message[8]);
        }
        batch.free_all();
    }
    check(sum, bursts, 7)
}

/// Separate buffers and rings of pointers to them, as packet libraries have. A pipe avoids both.
struct Mbufs {
    buffers: Vec<Mbuf>,
    free: Ring,
    to_application: Ring,
    from_application: Ring,
}

/// The fields that each side writes and reads, and space for a packet.
struct Mbuf {
    length: u16,
    port: u16,
    next: Option<u32>,
    data: [u8; 2048],
}

/// A ring of buffer numbers for one writer and one reader.
struct Ring {
    slots: Vec<u32>,
    tail: usize,
    head: usize,
}

impl Ring {
    fn new(slots: usize) -> Self {
        Self {
            slots: vec![0; slots],
            tail: 0,
            head: 0,
        }
    }

    fn put(&mut self, numbers: &[u32]) {
        let mask = self.slots.len() - 1;
        for &number in numbers {
            self.slots[self.tail & mask] = number;
            self.tail += 1;
        }
    }

    fn take(&mut self, numbers: &mut [u32; BURST]) -> usize {
        let mask = self.slots.len() - 1;
        let count = (self.tail - self.head).min(BURST);
        for number in &mut numbers[..count] {
            *number = self.slots[self.head & mask];
            self.head += 1;
        }
        count
    }
}

impl Mbufs {
    fn new() -> Self {
        const COUNT: usize = 512;
        let mut free = Ring::new(COUNT);
        free.put(&(0..COUNT as u32).collect::<Vec<_>>());
        let buffer = || Mbuf {
            length: 0,
            port: 0,
            next: None,
            data: [0; 2048],
        };
        Self {
            buffers: std::iter::repeat_with(buffer).take(COUNT).collect(),
            free,
            to_application: Ring::new(COUNT),
            from_application: Ring::new(COUNT),
        }
    }

    /// The daemon's side: a burst of copies of `packet`.
    fn send(&mut self, packet: &[u8; 64], numbers: &mut [u32; BURST]) {
        let count = self.free.take(numbers);
        for &number in &numbers[..count] {
            let buffer = &mut self.buffers[number as usize];
            buffer.length = 64;
            buffer.port = 1;
            buffer.next = None;
            buffer.data[..64].copy_from_slice(packet);
        }
        self.to_application.put(&numbers[..count]);
    }
}

fn mbuf_echo(bursts: usize) -> Outcome {
    let mut mbufs = Mbufs::new();
    let packet = black_box([7_u8; 64]);
    let mut numbers = [0; BURST];
    let mut sum = 0_u64;
    for _ in 0..bursts {
        mbufs.send(&packet, &mut numbers);
        let count = mbufs.to_application.take(&mut numbers);
        for &number in &numbers[..count] {
            let buffer = &mut mbufs.buffers[number as usize];
            let packet = &mut buffer.data[..usize::from(buffer.length)];
            packet[8] = packet[8].wrapping_add(1);
        }
        mbufs.from_application.put(&numbers[..count]);
        let count = mbufs.from_application.take(&mut numbers);
        for &number in &numbers[..count] {
            let buffer = &mbufs.buffers[number as usize];
            let packet = &buffer.data[..usize::from(buffer.length)];
            sum += u64::from(packet[8]) + u64::from(buffer.next.is_some());
        }
        mbufs.free.put(&numbers[..count]);
    }
    check(sum, bursts, 8)
}

fn mbuf_one_way(bursts: usize) -> Outcome {
    let mut mbufs = Mbufs::new();
    let packet = black_box([7_u8; 64]);
    let mut numbers = [0; BURST];
    let mut sum = 0_u64;
    for _ in 0..bursts {
        mbufs.send(&packet, &mut numbers);
        let count = mbufs.to_application.take(&mut numbers);
        for &number in &numbers[..count] {
            let buffer = &mbufs.buffers[number as usize];
            let packet = &buffer.data[..usize::from(buffer.length)];
            sum += u64::from(packet[8]) + u64::from(buffer.port == 0);
        }
        mbufs.free.put(&numbers[..count]);
    }
    check(sum, bursts, 7)
}

fn check(sum: u64, bursts: usize, each: u64) -> Outcome {
    if sum == (bursts * BURST) as u64 * each {
        return Ok(());
    }
    Err(format!("the bytes add up to {sum}").into())
}
