//! A port made of capture files: it receives frames from one file and sends frames to another. It
//! needs no hardware and no privilege.
//!
//! Frames arrive as fast as the lane takes them; timestamps in the capture are ignored. Sent frames
//! are staged in memory with the time at which they were taken. [`Port::flush`] writes them, one
//! `write` per burst.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::{fd::RawFd, unix::fs::MetadataExt},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use covalent_api::status::PortMode;
use covalent_pipe::SharedBytes;
use pcap_file::{
    DataLink, Endianness, PcapError, TsResolution,
    pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter},
};

use super::{
    BURST_FRAMES, Burst, ETHERNET_HEADER_BYTES, Port, PortCounters, PortError, PortInfo,
    SteerChange, Tally, TxRefusal, burst::Copies, mac,
};

/// Longest frame: tcpdump's default snapshot length for years, which every reader accepts.
const FRAME_BYTES_MAX: usize = 65_535;

/// Bytes of sent frames that wait in memory for the next flush.
const STAGING_BYTES: usize = 4 << 20;

/// Length of a capture file's header, and of the header of each packet in it, in bytes.
const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;

/// See the module's documentation.
#[derive(Debug)]
pub struct PcapPort {
    info: PortInfo,
    input: Option<PcapReader<File>>,
    output: Option<Output>,
    copies: Copies,
    enabled: bool,
    tally: Tally,
    dropped_too_long: u64,
    dropped_too_short: u64,
    dropped_malformed: u64,
}

impl PcapPort {
    /// Opens the files. The output is created, or truncated if it exists, only after the input was
    /// found valid.
    ///
    /// # Errors
    /// [`PortError::Setup`] if the input is missing, is not a capture of Ethernet frames, or is the
    /// same file as the output. [`PortError::Io`] if the output cannot be created.
    pub fn open(
        port: &str,
        input: Option<&Path>,
        output: Option<&Path>,
    ) -> Result<Self, PortError> {
        let reader = input.map(|path| open_input(port, path)).transpose()?;
        if let (Some(from), Some(to)) = (input, output)
            && same_file(from, to)
        {
            return Err(PortError::Setup {
                port: port.to_owned(),
                problem: format!("`{}` is both input and output", from.display()),
                remedy: "name another file as output, or the frames would be overwritten before \
                    they are read"
                    .to_owned(),
            });
        }
        let output = output.map(|path| Output::create(port, path)).transpose()?;
        Ok(Self {
            info: PortInfo {
                name: port.to_owned(),
                kind: "pcap",
                interface: None,
                mac: mac::locally_administered(),
                frame_bytes_max: FRAME_BYTES_MAX as u32,
                mode: PortMode {
                    xdp: "none".to_owned(),
                    zero_copy: false,
                    need_wakeup: false,
                    page_bytes: 4096,
                    queues: 1,
                },
            },
            input: reader,
            output,
            copies: Copies::of_frames(BURST_FRAMES, FRAME_BYTES_MAX),
            enabled: true,
            tally: Tally::default(),
            dropped_too_long: 0,
            dropped_too_short: 0,
            dropped_malformed: 0,
        })
    }
}

impl Port for PcapPort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx_burst<'a>(&'a mut self, max: usize, into: &mut Burst<'a>) -> Result<usize, PortError> {
        if !self.enabled {
            return Ok(0);
        }
        let mut unused = self.copies.begin();
        let mut received = 0;
        for _ in 0..max.min(BURST_FRAMES) {
            let Some(reader) = &mut self.input else {
                break;
            };
            let packet = match reader.next_raw_packet() {
                Some(Ok(packet)) => packet,
                Some(Err(_)) => {
                    // The next packet after a broken packet header cannot be located.
                    self.dropped_malformed += 1;
                    self.input = None;
                    break;
                }
                None => {
                    self.input = None;
                    break;
                }
            };
            match packet.data.len() {
                0..ETHERNET_HEADER_BYTES => self.dropped_too_short += 1,
                len @ ETHERNET_HEADER_BYTES..=FRAME_BYTES_MAX => {
                    // The reader has one packet at a time.
                    if let Some(frame) = unused.copy((&*packet.data).into()) {
                        self.tally.received(len);
                        into.push(frame);
                        received += 1;
                    }
                }
                _ => self.dropped_too_long += 1,
            }
        }
        Ok(received)
    }

    fn tx_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), TxRefusal> {
        let len = frame.len();
        if !self.enabled {
            return Err(self.tally.refused(TxRefusal::Down));
        }
        if let Some(refusal) = TxRefusal::by_length(len, FRAME_BYTES_MAX) {
            return Err(self.tally.refused(refusal));
        }
        if let Some(output) = &mut self.output
            && !output.stage(frame)
        {
            return Err(self.tally.refused(TxRefusal::Full));
        }
        self.tally.taken(len);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let Some(output) = &mut self.output else {
            return Ok(());
        };
        output.write_out().map_err(|source| PortError::Gone {
            port: self.info.name.clone(),
            reason: format!("writing the capture failed: {source}"),
        })
    }

    fn tx_space(&mut self) -> usize {
        match &self.output {
            Some(output) if self.enabled => output.space(),
            None if self.enabled => STAGING_BYTES / FRAME_BYTES_MAX,
            _ => 0,
        }
    }

    fn tx_idle(&mut self) -> bool {
        self.output.as_ref().is_none_or(Output::is_empty)
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn prepare_sleep(&mut self) -> bool {
        let more_to_read = self.enabled && self.input.is_some();
        !more_to_read && self.tx_idle()
    }

    fn finish_sleep(&mut self) {}

    fn counters(&self) -> PortCounters {
        self.tally.with_drops(vec![
            ("frame_too_long", self.dropped_too_long),
            ("frame_too_short", self.dropped_too_short),
            ("capture_malformed", self.dropped_malformed),
        ])
    }

    fn steer(&mut self, _change: &SteerChange) -> Result<(), PortError> {
        Ok(())
    }

    fn set_enabled(&mut self, enabled: bool) -> Result<(), PortError> {
        self.enabled = enabled;
        Ok(())
    }

    fn set_carrier(&mut self, _up: bool) {}

    fn carrier(&self) -> bool {
        self.enabled
    }
}

impl Drop for PcapPort {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::warn!(%error, "the last frames of a capture are lost");
        }
    }
}

/// The capture being written: frames in memory first, then in the file.
#[derive(Debug)]
struct Output {
    file: File,
    /// Always begins with a file header, because the writer adds one. It is cut off before writing.
    staged: Option<PcapWriter<Vec<u8>>>,
    staged_bytes: usize,
    /// A copy of the frame to write: its application may change the original.
    frame: Box<[u8]>,
}

impl Output {
    fn create(port: &str, path: &Path) -> Result<Self, PortError> {
        let failed = |source| PortError::Io {
            port: port.to_owned(),
            doing: "making the output capture",
            source,
        };
        let mut file = File::create(path).map_err(failed)?;
        let staged = writer(Vec::with_capacity(STAGING_BYTES)).map_err(failed)?;
        let bytes = staged.into_writer();
        file.write_all(&bytes).map_err(failed)?;
        Ok(Self {
            file,
            staged: Some(writer(bytes).map_err(failed)?),
            staged_bytes: 0,
            frame: vec![0; FRAME_BYTES_MAX].into_boxed_slice(),
        })
    }

    /// Whether the frame was taken.
    fn stage(&mut self, shared: SharedBytes<'_>) -> bool {
        let record_bytes = PACKET_HEADER_BYTES + shared.len();
        if FILE_HEADER_BYTES + self.staged_bytes + record_bytes > STAGING_BYTES {
            return false;
        }
        let Some(staged) = &mut self.staged else {
            return false;
        };
        let now = capture_time(SystemTime::now());
        // `tx` bounds the length, so the copy fits and the cast keeps the value.
        let frame = &mut self.frame[..shared.len()];
        shared.copy_to(frame);
        let packet = PcapPacket::new(now, frame.len() as u32, frame);
        if staged.write_packet(&packet).is_err() {
            return false;
        }
        self.staged_bytes += record_bytes;
        true
    }

    fn write_out(&mut self) -> io::Result<()> {
        if self.staged_bytes == 0 {
            return Ok(());
        }
        // After a failed write nothing is staged any more: further writes cannot repair half a
        // packet in the file.
        let Some(staged) = self.staged.take() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let bytes = staged.into_writer();
        self.file.write_all(&bytes[FILE_HEADER_BYTES..])?;
        self.staged = Some(writer(bytes)?);
        self.staged_bytes = 0;
        Ok(())
    }

    fn space(&self) -> usize {
        if self.staged.is_none() {
            return 0;
        }
        (STAGING_BYTES - FILE_HEADER_BYTES - self.staged_bytes)
            / (PACKET_HEADER_BYTES + FRAME_BYTES_MAX)
    }

    fn is_empty(&self) -> bool {
        self.staged_bytes == 0
    }
}

/// Timestamp of a captured frame. The file has 32 bits for seconds: a clock set beyond them, or
/// before 1970, costs no frame.
fn capture_time(now: SystemTime) -> Duration {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.min(Duration::from_secs(u32::MAX.into()))
}

/// A writer of Ethernet captures into `bytes`, which it empties first.
fn writer(mut bytes: Vec<u8>) -> io::Result<PcapWriter<Vec<u8>>> {
    bytes.clear();
    let header = PcapHeader {
        snaplen: FRAME_BYTES_MAX as u32,
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        endianness: Endianness::native(),
        ..PcapHeader::default()
    };
    PcapWriter::with_header(bytes, header).map_err(io::Error::other)
}

fn open_input(port: &str, path: &Path) -> Result<PcapReader<File>, PortError> {
    let refuse = |problem: String, remedy: &str| PortError::Setup {
        port: port.to_owned(),
        problem,
        remedy: remedy.to_owned(),
    };
    let file = File::open(path).map_err(|error| {
        refuse(
            format!("cannot read `{}`: {error}", path.display()),
            "name a capture file that exists",
        )
    })?;
    let reader = PcapReader::new(file).map_err(|error: PcapError| {
        refuse(
            format!("`{}` is not a capture file: {error}", path.display()),
            "only the classic pcap format is read; convert with `editcap -F pcap`",
        )
    })?;
    match reader.header().datalink {
        DataLink::ETHERNET => Ok(reader),
        other => Err(refuse(
            format!(
                "`{}` holds frames of link type {}",
                path.display(),
                u32::from(other)
            ),
            "only Ethernet (link type 1) can cross a port",
        )),
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_frame_can_be_written_under_any_clock_setting() {
        let year = Duration::from_secs(31_557_600);
        for now in [
            UNIX_EPOCH - 30 * year,
            UNIX_EPOCH + 56 * year,
            UNIX_EPOCH + 156 * year,
        ] {
            let mut writer = writer(Vec::new()).unwrap();
            let packet = PcapPacket::new(capture_time(now), 3, b"abc");
            writer.write_packet(&packet).unwrap();
        }
    }
}
