//! Reads `.pcap` files, including broken ones.
//!
//! Format: <https://datatracker.ietf.org/doc/html/draft-ietf-opsawg-pcap>. Both byte orders, micro-
//! and nanoseconds.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use pcap_file::{PcapError, pcap::PcapParser};
use serde::Serialize;

/// Longest file that is read, in bytes: the frames are kept in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Longest record that is believed, in bytes: libpcap's own bound.
const RECORD_BYTES_MAX: u32 = 256 * 1024;

/// LINKTYPE_ETHERNET.
const LINKTYPE_ETHERNET: u32 = 1;

/// Mask of the link type in its header word. The other bits specify whether frames end in an FCS.
const LINKTYPE_MASK: u32 = 0x0000_ffff;

/// First word of a pcapng file, in either byte order.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// One file's frames, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// The name of the file or of the sample.
    pub name: String,
    /// Frames as they were captured, without FCS. Some are shorter than the wire had them.
    pub frames: Vec<Box<[u8]>>,
}

/// A file that is not a complete capture. The frames before `problem` are used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadCapture {
    /// The file.
    pub file: PathBuf,
    /// Frames read before the problem.
    pub frames_read: usize,
    /// The problem and its place in the file.
    pub problem: String,
}

/// Everything that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Captures with at least one frame, in order of their paths.
    pub captures: Vec<Capture>,
    /// Files that are broken somewhere.
    pub bad: Vec<BadCapture>,
}

/// Reads every file in `paths`, and every `.pcap` file directly in a directory in `paths`.
///
/// # Errors
/// A path does not exist or cannot be read. Broken *contents* are no error but a [`BadCapture`].
pub fn load(paths: &[PathBuf]) -> io::Result<Loaded> {
    let mut loaded = Loaded::default();
    for path in paths {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        if path.is_dir() {
            let mut files = Vec::new();
            for entry in fs::read_dir(path).map_err(named)? {
                let file = entry.map_err(named)?.path();
                if file
                    .extension()
                    .is_some_and(|extension| extension == "pcap")
                {
                    files.push(file);
                }
            }
            files.sort();
            for file in files {
                add(&mut loaded, &file)?;
            }
        } else {
            add(&mut loaded, path)?;
        }
    }
    Ok(loaded)
}

fn add(loaded: &mut Loaded, path: &Path) -> io::Result<()> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let length = fs::metadata(path).map_err(named)?.len();
    let (frames, problem) = if length > FILE_BYTES_MAX {
        (
            Vec::new(),
            Some(format!(
                "{length} bytes are more than the {FILE_BYTES_MAX} that are read"
            )),
        )
    } else {
        parse(&fs::read(path).map_err(named)?)
    };
    if let Some(problem) = problem {
        loaded.bad.push(BadCapture {
            file: path.to_owned(),
            frames_read: frames.len(),
            problem,
        });
    }
    if !frames.is_empty() {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy()
            .into_owned();
        loaded.captures.push(Capture { name, frames });
    }
    Ok(())
}

/// Returns the frames of one file's contents, and the problem that stopped the parser, if any.
#[must_use]
pub fn parse(contents: &[u8]) -> (Vec<Box<[u8]>>, Option<String>) {
    let mut frames = Vec::new();
    if contents.starts_with(&PCAPNG_MAGIC) {
        return (
            frames,
            Some("is pcapng; convert it with `editcap -F pcap`".to_owned()),
        );
    }
    let (mut rest, parser) = match PcapParser::new(contents) {
        Ok(parsed) => parsed,
        Err(PcapError::IncompleteBuffer) => {
            return (
                frames,
                Some(format!(
                    "{} bytes are too few for a header of 24",
                    contents.len()
                )),
            );
        }
        Err(error) => return (frames, Some(error.to_string())),
    };
    let link_type = u32::from(parser.header().datalink) & LINKTYPE_MASK;
    if link_type != LINKTYPE_ETHERNET {
        return (
            frames,
            Some(format!(
                "holds frames of link type {link_type}, not Ethernet (1)"
            )),
        );
    }
    while !rest.is_empty() {
        let at = contents.len() - rest.len();
        match parser.next_raw_packet(rest) {
            Ok((_, packet)) if packet.incl_len > RECORD_BYTES_MAX => {
                return (
                    frames,
                    Some(format!(
                        "the record at byte {at} claims {} bytes",
                        packet.incl_len
                    )),
                );
            }
            Ok((after, packet)) => {
                // An empty record is a packet of which nothing was captured: there is nothing to
                // send.
                if !packet.data.is_empty() {
                    frames.push(packet.data.into());
                }
                rest = after;
            }
            Err(PcapError::IncompleteBuffer) => {
                return (
                    frames,
                    Some(format!("ends in the middle of the record at byte {at}")),
                );
            }
            Err(error) => return (frames, Some(format!("the record at byte {at}: {error}"))),
        }
    }
    (frames, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use pcap_file::{
        DataLink, Endianness, TsResolution,
        pcap::{PcapHeader, PcapPacket, PcapWriter},
    };
    use proptest::prelude::*;

    use super::*;

    fn file(endianness: Endianness, ts_resolution: TsResolution, frames: &[&[u8]]) -> Vec<u8> {
        let header = PcapHeader {
            endianness,
            ts_resolution,
            ..PcapHeader::default()
        };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        for frame in frames {
            writer
                .write_packet(&PcapPacket::new(
                    Default::default(),
                    frame.len() as u32,
                    frame,
                ))
                .unwrap();
        }
        writer.into_writer()
    }

    #[test]
    fn both_byte_orders_and_both_clocks_give_the_same_frames() {
        for endianness in [Endianness::Big, Endianness::Little] {
            for clock in [TsResolution::MicroSecond, TsResolution::NanoSecond] {
                let (frames, problem) = parse(&file(endianness, clock, &[b"first", b"second"]));
                assert_eq!(problem, None);
                assert_eq!(
                    frames,
                    [Box::from(&b"first"[..]), Box::from(&b"second"[..])]
                );
            }
        }
    }

    #[test]
    fn a_snapped_frame_is_a_frame() {
        let mut contents = file(
            Endianness::Little,
            TsResolution::MicroSecond,
            &[b"0123456789"],
        );
        contents[24 + 12..24 + 16].copy_from_slice(&1500u32.to_le_bytes());
        contents[16..20].copy_from_slice(&96u32.to_le_bytes());
        assert_eq!(
            parse(&contents),
            (vec![Box::from(&b"0123456789"[..])], None)
        );
    }

    #[test]
    fn an_fcs_length_in_the_link_type_field_is_ignored() {
        let mut contents = file(Endianness::Little, TsResolution::MicroSecond, &[b"frame"]);
        contents[20..24].copy_from_slice(&0x3000_0001u32.to_le_bytes());
        assert_eq!(parse(&contents).1, None);
    }

    #[test]
    fn broken_files_keep_their_frames_and_name_the_problem() {
        let whole = file(
            Endianness::Little,
            TsResolution::MicroSecond,
            &[b"first", b"second"],
        );
        let (frames, problem) = parse(&whole[..whole.len() - 1]);
        assert_eq!(frames.len(), 1);
        assert_eq!(
            problem.unwrap(),
            "ends in the middle of the record at byte 45"
        );

        let mut claims = whole.clone();
        claims[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(parse(&claims).1.unwrap().contains("byte 24"));

        assert!(parse(b"").1.unwrap().contains("too few"));
        assert!(parse(&[0; 64]).1.unwrap().contains("magic"));
        let ng = [&PCAPNG_MAGIC[..], &[0; 60]].concat();
        assert!(parse(&ng).1.unwrap().contains("editcap"));

        let mut header = PcapHeader {
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        header.datalink = DataLink::IEEE802_11;
        let radio = PcapWriter::with_header(Vec::new(), header)
            .unwrap()
            .into_writer();
        assert!(parse(&radio).1.unwrap().contains("105"));
    }

    #[test]
    fn files_are_taken_in_order_and_missing_ones_named() {
        let folder = tempfile::tempdir().unwrap();
        let good = file(Endianness::Big, TsResolution::MicroSecond, &[b"frame"]);
        fs::write(folder.path().join("b.pcap"), &good).unwrap();
        fs::write(folder.path().join("a.pcap"), &good).unwrap();
        fs::write(folder.path().join("broken.pcap"), &good[..30]).unwrap();
        fs::write(folder.path().join("notes.txt"), "not a capture").unwrap();
        let loaded = load(&[folder.path().to_owned()]).unwrap();
        assert_eq!(
            loaded
                .captures
                .iter()
                .map(|c| c.name.as_str())
                .collect::<Vec<_>>(),
            ["a.pcap", "b.pcap"]
        );
        assert_eq!(loaded.bad.len(), 1);
        assert!(loaded.bad[0].file.ends_with("broken.pcap"));

        let error = load(&[folder.path().join("absent")]).unwrap_err();
        assert!(error.to_string().contains("absent"), "{error}");
    }

    proptest! {
        #[test]
        fn the_reader_survives_any_bytes(
            mut contents in prop::collection::vec(any::<u8>(), 0..512),
            pretend: bool,
        ) {
            if pretend && contents.len() >= 24 {
                contents[..4].copy_from_slice(&0xa1b2_c3d4u32.to_le_bytes());
                contents[20..24].copy_from_slice(&1u32.to_le_bytes());
            }
            let (frames, _) = parse(&contents);
            prop_assert!(frames.iter().map(|frame| frame.len()).sum::<usize>() <= contents.len());
        }
    }
}
