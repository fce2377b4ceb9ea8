//! Captures as files that Wireshark opens.

use std::{borrow::Cow, fs::File, io::BufWriter, path::Path, time::Duration};

use anyhow::{Context, Result};
use pcap_file::{
    DataLink,
    pcapng::{
        PcapNgBlock, PcapNgWriter,
        blocks::{
            enhanced_packet::EnhancedPacketBlock,
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
        },
    },
};

/// Timestamps are in nanoseconds: the crate writes them so, whatever an interface says of them.
const NANOSECONDS: u8 = 9;

/// A file of the format pcapng that grows.
pub struct Capture {
    writer: PcapNgWriter<BufWriter<File>>,
}

impl Capture {
    /// Begins a file with these interfaces, which are known by their place.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, interfaces: impl IntoIterator<Item = String>) -> Result<Self> {
        let file = File::create(path).with_context(|| {
            format!(
                "{} cannot be written; cure: name a file in a folder that you may write to",
                path.display()
            )
        })?;
        let mut writer = PcapNgWriter::new(BufWriter::new(file))?;
        for name in interfaces {
            let interface = InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: 0,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Owned(name)),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            };
            writer.write_block(&interface.into_block())?;
        }
        Ok(Self { writer })
    }

    /// One more frame, on the interface at place `interface`, at `at` since the epoch.
    ///
    /// # Errors
    /// The disk is full.
    pub fn frame(&mut self, interface: u32, at: Duration, bytes: &[u8]) -> Result<()> {
        let packet = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: at,
            original_len: bytes.len() as u32,
            data: Cow::Borrowed(bytes),
            options: Vec::new(),
        };
        self.writer.write_block(&packet.into_block())?;
        Ok(())
    }
}
