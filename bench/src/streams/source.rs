//! Where packets come from: buffers as a NIC would have filled them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use covalent_apps::replay::{capture, sample};

use crate::{bare::fetch, streams::case::Size};

/// Bytes from one buffer to the next: a chunk of packet memory.
const CHUNK_BYTES: usize = 2048;

/// Buffers, used one after the other: 8 MiB, more than a core's own caches hold.
const CHUNKS: usize = 4096;

/// Where captures lie, from the repository's root.
const USUAL_PLACES: [&str; 2] = ["../shared/data", "shared/data"];

/// The byte of each packet that the application touches.
pub const TOUCHED: usize = 8;

/// Its value before.
pub const BEFORE: u8 = 1;

/// Its value in a returned packet.
pub const AFTER: u8 = 2;

/// The application's work on each packet before it goes back. A message too short for it goes back
/// unchanged.
#[inline]
pub fn touch(packet: &mut [u8]) {
    if let Some(byte) = packet.get_mut(TOUCHED) {
        *byte = byte.wrapping_add(1);
    }
}

/// Bytes of a quantum.
const QUANTUM_BYTES: usize = 64;

/// How many packets before its turn a packet is fetched, as drivers do.
const FETCH_AHEAD: usize = 8;

/// A buffer. It begins with a line of the cache, as buffers that a NIC fills do.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Chunk([[u8; QUANTUM_BYTES]; CHUNK_BYTES / QUANTUM_BYTES]);

/// Packets that are sent repeatedly.
///
/// The tables have a fixed size, a power of two. Finding the next packet costs almost nothing, so
/// the test measures only the transport.
#[derive(Debug)]
pub struct Source {
    chunks: Box<[Chunk; CHUNKS]>,
    lengths: Box<[u16; CHUNKS]>,
    next: usize,
}

impl Source {
    /// Packets of one size, or the mix of `frames`.
    pub fn new(size: Size, frames: &[Vec<u8>]) -> Result<Self> {
        let chunk = Chunk([[BEFORE; QUANTUM_BYTES]; CHUNK_BYTES / QUANTUM_BYTES]);
        let mut chunks = vec![chunk; CHUNKS];
        let mut lengths = Vec::with_capacity(CHUNKS);
        for (at, chunk) in chunks.iter_mut().enumerate() {
            let length = match size {
                Size::Bytes(length) => length as usize,
                Size::Mix => {
                    let frame = frames
                        .get(at % frames.len().max(1))
                        .context("there is no frame")?;
                    let bytes = chunk.0.as_flattened_mut();
                    bytes[..frame.len()].copy_from_slice(frame);
                    bytes[TOUCHED] = BEFORE;
                    frame.len()
                }
            };
            if length <= TOUCHED || length > CHUNK_BYTES {
                bail!("packets of {length} bytes cannot be sent here");
            }
            lengths.push(length as u16);
        }
        let as_many = "as many as there are chunks";
        Ok(Self {
            chunks: chunks.try_into().ok().context(as_many)?,
            lengths: lengths.try_into().ok().context(as_many)?,
            next: 0,
        })
    }

    /// The next packet.
    #[inline]
    pub fn next_packet(&mut self) -> &[u8] {
        let at = self.step();
        &self.chunks[at].0.as_flattened()[..usize::from(self.lengths[at])]
    }

    /// Returns the next packet in whole quanta. Bytes after its end are not part of it.
    #[inline]
    pub fn next_quanta(&mut self) -> &[[u8; QUANTUM_BYTES]] {
        let at = self.step();
        &self.chunks[at].0[..usize::from(self.lengths[at]).div_ceil(QUANTUM_BYTES)]
    }

    /// How many quanta each packet takes, in their order; after the last the first comes again.
    pub fn quanta(&self) -> Quanta {
        Quanta {
            quanta: Box::new(
                self.lengths
                    .map(|length| length.div_ceil(QUANTUM_BYTES as u16) as u8),
            ),
            next: 0,
        }
    }

    #[inline]
    fn step(&mut self) -> usize {
        let at = self.next % CHUNKS;
        self.next = at + 1;
        fetch(&self.chunks[(at + FETCH_AHEAD) % CHUNKS]);
        at
    }
}

/// The sizes of a source's packets in quanta, over and over.
#[derive(Debug)]
pub struct Quanta {
    quanta: Box<[u8; CHUNKS]>,
    next: usize,
}

impl Quanta {
    /// Returns the quanta of the next packet.
    #[inline]
    pub fn next_quanta(&mut self) -> u64 {
        let at = self.next % CHUNKS;
        self.next = at + 1;
        u64::from(self.quanta[at])
    }

    /// Returns the quanta of the largest packet.
    pub fn most(&self) -> u64 {
        u64::from(self.quanta.iter().copied().max().unwrap_or(0))
    }
}

/// The frames of the mix, and where they are from.
#[derive(Debug, Clone)]
pub struct Mix {
    /// In words.
    pub origin: String,
    /// Frames that fit into a chunk, as a sample of all in their order.
    pub frames: Vec<Vec<u8>>,
}

impl Mix {
    /// Reads the captures in `named`, or where they usually are, or takes the built-in sample.
    pub fn load(named: Option<&Path>) -> Result<Self> {
        let places = match named {
            Some(place) => vec![place.to_owned()],
            None => USUAL_PLACES.iter().map(PathBuf::from).collect(),
        };
        for place in &places {
            let found = frames(&folders(place))?;
            if !found.is_empty() {
                return Ok(Self::of(
                    &format!("captures in {}", place.display()),
                    &found,
                ));
            }
        }
        if let Some(place) = named {
            bail!(
                "there is no capture in {} or in a folder of it",
                place.display()
            );
        }
        let built_in: Vec<Vec<u8>> = sample::captures()
            .into_iter()
            .flat_map(|capture| capture.frames)
            .map(Vec::from)
            .collect();
        Ok(Self::of("built-in sample", &built_in))
    }

    /// Takes every n-th frame, so that the available buffers represent all frames.
    fn of(origin: &str, all: &[Vec<u8>]) -> Self {
        let usable: Vec<&Vec<u8>> = all
            .iter()
            .filter(|frame| (TOUCHED + 1..=CHUNK_BYTES).contains(&frame.len()))
            .collect();
        let taken = usable.len().min(CHUNKS);
        let frames: Vec<Vec<u8>> = (0..taken)
            .map(|at| usable[at * usable.len() / taken].clone())
            .collect();
        let bytes: usize = frames.iter().map(Vec::len).sum();
        Self {
            origin: format!(
                "{origin}: {} of {} frames, {} bytes in the mean",
                frames.len(),
                all.len(),
                bytes / frames.len().max(1)
            ),
            frames,
        }
    }

    /// Mean length of a packet, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let bytes: usize = self.frames.iter().map(Vec::len).sum();
        bytes as f64 / self.frames.len().max(1) as f64
    }

    /// The lengths that stand for as many equal parts of all packets: the middle one of each part.
    pub fn classes(&self, parts: usize) -> Vec<usize> {
        let mut lengths: Vec<usize> = self.frames.iter().map(Vec::len).collect();
        lengths.sort_unstable();
        (0..parts)
            .filter_map(|part| {
                lengths
                    .get((2 * part + 1) * lengths.len() / (2 * parts))
                    .copied()
            })
            .collect()
    }
}

fn folders(place: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(place)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    if place.is_dir() {
        folders.insert(0, place.to_owned());
    }
    folders
}

fn frames(folders: &[PathBuf]) -> Result<Vec<Vec<u8>>> {
    let loaded = capture::load(folders).context("reading captures")?;
    Ok(loaded
        .captures
        .into_iter()
        .flat_map(|capture| capture.frames)
        .map(Vec::from)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_repeat_after_the_last() {
        let mut source = Source::new(Size::Bytes(100), &[]).expect("a size that fits");
        let first = source.next_packet().as_ptr();
        assert!(
            first.addr().is_multiple_of(QUANTUM_BYTES),
            "across two lines"
        );
        let second = source.next_packet().as_ptr();
        assert_eq!(second.addr(), first.addr() + CHUNK_BYTES);
        for _ in 2..CHUNKS {
            assert_eq!(source.next_packet().len(), 100);
        }
        assert_eq!(source.next_packet().as_ptr(), first);
        assert!(Source::new(Size::Bytes(4096), &[]).is_err());
        assert!(Source::new(Size::Mix, &[]).is_err());
    }

    #[test]
    fn a_mix_keeps_order_and_lengths() {
        let frames = vec![vec![7; 60], vec![9; 1500]];
        let mut source = Source::new(Size::Mix, &frames).expect("frames that fit");
        let packet = source.next_packet();
        assert_eq!((packet.len(), packet[TOUCHED], packet[0]), (60, BEFORE, 7));
        assert_eq!(source.next_packet().len(), 1500);
        assert_eq!(source.next_quanta().len(), 1);
        let mut quanta = source.quanta();
        let sizes = [(); 3].map(|()| quanta.next_quanta());
        assert_eq!((sizes, quanta.most()), ([1, 24, 1], 24));
    }

    #[test]
    fn a_mix_is_thinned_out_evenly_and_described_in_classes() {
        let all: Vec<Vec<u8>> = (0..3 * CHUNKS).map(|at| vec![0; 60 + at / 16]).collect();
        let mix = Mix::of("test", &all);
        assert_eq!(mix.frames.len(), CHUNKS);
        assert_eq!(
            mix.frames.last().map(Vec::len),
            all.get(3 * CHUNKS - 3).map(Vec::len)
        );
        let classes = mix.classes(4);
        assert_eq!(classes, [156, 348, 540, 732]);
        assert!(
            (443.0..445.0).contains(&mix.mean_bytes()),
            "{}",
            mix.mean_bytes()
        );
    }

    #[test]
    fn without_captures_there_is_the_sample() {
        let empty = tempfile::tempdir().expect("a directory");
        let problem = Mix::load(Some(empty.path()))
            .expect_err("nothing there")
            .to_string();
        assert!(
            problem.contains(&empty.path().display().to_string()),
            "{problem}"
        );
    }
}
