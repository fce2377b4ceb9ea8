//! The suite on capture files: the near end writes a capture, the far end reads it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use covalent_config::{PortConfig, PortKind};
use covalent_dataplane::port::{LaneMemory, Port, PortError, TxRefusal, open};
use tempfile::TempDir;

use crate::{
    frames::frame,
    pair::{FramePath, collect},
    suite,
};

fn open_pcap(input: Option<PathBuf>, output: Option<PathBuf>) -> Result<Box<dyn Port>, PortError> {
    let config = PortConfig {
        name: "file".to_owned(),
        lane: 0,
        link: false,
        kind: PortKind::Pcap { input, output },
        faults: None,
    };
    open(
        &config,
        &Default::default(),
        &Default::default(),
        &mut LaneMemory::default(),
    )
}

/// A file written by one port and read, once flushed, by another.
struct ThroughFile {
    near: Box<dyn Port>,
    path: PathBuf,
    read_before: usize,
    _directory: TempDir,
}

impl ThroughFile {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("sent.pcap");
        let near = open_pcap(None, Some(path.clone())).unwrap();
        Self {
            near,
            path,
            read_before: 0,
            _directory: directory,
        }
    }
}

impl FramePath for ThroughFile {
    fn near(&mut self) -> &mut dyn Port {
        &mut *self.near
    }

    fn transfer(&mut self, frames: &[Vec<u8>], _window: usize) -> Vec<Vec<u8>> {
        for frame in frames {
            if self.near.tx(frame) == Err(TxRefusal::Full) {
                self.near.flush().unwrap();
                self.near.tx(frame).unwrap();
            }
        }
        self.near.flush().unwrap();
        let mut arrived = read_all(&self.path).split_off(self.read_before);
        self.read_before += arrived.len();
        arrived.shrink_to_fit();
        arrived
    }
}

fn read_all(path: &Path) -> Vec<Vec<u8>> {
    let mut far = open_pcap(Some(path.to_owned()), None).unwrap();
    let mut arrived = Vec::new();
    while collect(&mut *far, 7, &mut arrived) > 0 {}
    arrived
}

#[test]
fn frames_keep_order_and_bytes() {
    suite::order_and_bytes(&mut ThroughFile::new(), 2_000);
}

#[test]
fn every_size_crosses() {
    suite::every_size(&mut ThroughFile::new());
}

#[test]
fn an_unsendable_frame_is_refused() {
    suite::refusals(&mut ThroughFile::new());
}

#[test]
fn a_full_staging_area_refuses_and_a_flush_empties_it() {
    let mut through_file = ThroughFile::new();
    let space = through_file.near.tx_space();
    let long = frame(1, 65_535);
    let mut taken = 0;
    while through_file.near.tx(&long).is_ok() {
        taken += 1;
        assert!(taken < 1_000, "the port never fills");
    }
    assert_eq!(through_file.near.tx(&long), Err(TxRefusal::Full));
    assert_eq!(taken, space);
    assert_eq!(through_file.near.tx_space(), 0);
    assert!(!through_file.near.tx_idle() && !through_file.near.prepare_sleep());
    through_file.near.flush().unwrap();
    assert!(through_file.near.tx_idle() && through_file.near.prepare_sleep());
    assert_eq!(through_file.near.tx_space(), space);
    assert!(read_all(&through_file.path) == vec![long; taken]);
}

#[test]
fn a_disabled_port_neither_reads_nor_writes() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("in.pcap");
    let mut writer = open_pcap(None, Some(path.clone())).unwrap();
    writer.tx(&frame(1, 64)).unwrap();
    drop(writer);
    let mut port = open_pcap(Some(path), None).unwrap();
    port.set_enabled(false).unwrap();
    assert!(!port.carrier());
    assert_eq!(port.tx(&frame(2, 64)), Err(TxRefusal::Down));
    let mut arrived = Vec::new();
    assert_eq!(collect(&mut *port, 8, &mut arrived), 0);
    port.set_enabled(true).unwrap();
    assert!(!port.prepare_sleep(), "there is a frame to read");
    assert_eq!(collect(&mut *port, 8, &mut arrived), 1);
    assert!(arrived == [frame(1, 64)]);
    assert_eq!(collect(&mut *port, 8, &mut arrived), 0);
    assert!(port.prepare_sleep(), "the file is read");
}

#[test]
fn a_capture_that_ends_in_the_midst_of_a_packet_is_counted_and_ends() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("in.pcap");
    let mut writer = open_pcap(None, Some(path.clone())).unwrap();
    for number in 0..3 {
        writer.tx(&frame(number, 100)).unwrap();
    }
    drop(writer);
    let whole = fs::read(&path).unwrap();
    for cut in 25..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut port = open_pcap(Some(path.clone()), None).unwrap();
        let mut arrived = Vec::new();
        while collect(&mut *port, 8, &mut arrived) > 0 {}
        assert_eq!(arrived.len(), (cut - 24) / 116, "cut at {cut}");
        let malformed = port
            .counters()
            .drops
            .iter()
            .find(|(cause, _)| *cause == "capture_malformed")
            .unwrap()
            .1;
        assert_eq!(malformed, u64::from((cut - 24) % 116 != 0), "cut at {cut}");
        assert!(port.prepare_sleep());
    }
}

#[test]
fn an_invalid_capture_is_refused_before_the_output_is_touched() {
    let directory = TempDir::new().unwrap();
    let (input, output) = (directory.path().join("in"), directory.path().join("out"));
    fs::write(&output, b"precious").unwrap();
    let refused = |input: &Path| {
        open_pcap(Some(input.to_owned()), Some(output.clone()))
            .map(|_| ())
            .expect_err("no capture")
            .to_string()
    };
    assert!(refused(&input).contains("cannot read"));
    fs::write(&input, b"neither pcap nor anything else").unwrap();
    assert!(refused(&input).contains("is not a capture file"));
    let raw_ip = [
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0,
    ];
    fs::write(&input, raw_ip).unwrap();
    assert!(refused(&input).contains("link type 101"));
    assert_eq!(fs::read(&output).unwrap(), b"precious");
    let good = directory.path().join("good.pcap");
    drop(open_pcap(None, Some(good.clone())).unwrap());
    let same = open_pcap(Some(good.clone()), Some(good))
        .map(|_| ())
        .expect_err("would overwrite its own input");
    assert!(same.to_string().contains("both input and output"), "{same}");
}

#[test]
fn captures_of_real_traffic_keep_every_byte() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("sample.pcap");
    // A big-endian capture with microseconds, as other machines write it.
    let mut bytes = vec![
        0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1,
    ];
    let frames: Vec<_> = [14_usize, 60, 1514, 9014]
        .iter()
        .map(|&len| frame(len as u64, len))
        .collect();
    for frame in &frames {
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 2]);
        bytes.extend((frame.len() as u32).to_be_bytes());
        bytes.extend((frame.len() as u32).to_be_bytes());
        bytes.extend(frame);
    }
    fs::write(&path, bytes).unwrap();
    assert!(read_all(&path) == frames);
}
