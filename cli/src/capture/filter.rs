//! Which captured frames are kept.

use std::net::IpAddr;

use clap::Args;
use etherparse::{LaxNetSlice, LaxSlicedPacket, LinkSlice, TransportSlice};

/// Which frames: those that fit all that is named.
#[derive(Debug, Clone, Default, Args)]
pub struct Filter {
    /// Only frames of this EtherType, behind VLAN tags or not, such as 0x0806.
    #[arg(long, value_name = "TYPE", value_parser = ethertype)]
    pub ethertype: Option<u16>,
    /// Only packets from or to this address.
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<IpAddr>,
    /// Only UDP from or to this port.
    #[arg(long, value_name = "PORT", conflicts_with = "tcp")]
    pub udp: Option<u16>,
    /// Only TCP from or to this port.
    #[arg(long, value_name = "PORT")]
    pub tcp: Option<u16>,
}

fn ethertype(text: &str) -> Result<u16, String> {
    let hex = text.strip_prefix("0x");
    hex.map_or_else(|| text.parse(), |hex| u16::from_str_radix(hex, 16))
        .map_err(|_| "a number from 0x0600 to 0xffff, such as 0x0806".to_owned())
}

impl Filter {
    /// Returns whether the filter keeps the frame. Truncation behind the headers does not matter.
    pub fn keeps(&self, frame: &[u8]) -> bool {
        let Self {
            ethertype,
            host,
            udp,
            tcp,
        } = self;
        if ethertype.is_none() && host.is_none() && udp.is_none() && tcp.is_none() {
            return true;
        }
        let Ok(packet) = LaxSlicedPacket::from_ethernet(frame) else {
            return false;
        };
        let has_port = |port: u16, ports: [u16; 2]| ports.contains(&port);
        let has_type = |wanted: u16| {
            let outer = match &packet.link {
                Some(LinkSlice::Ethernet2(header)) => Some(header.ether_type()),
                _ => None,
            };
            let inner = packet.ether_payload().map(|payload| payload.ether_type);
            [outer, inner]
                .iter()
                .flatten()
                .any(|found| found.0 == wanted)
        };
        let has_host = |wanted: IpAddr| {
            let ends = match &packet.net {
                Some(LaxNetSlice::Ipv4(ip)) => [
                    ip.header().source_addr().into(),
                    ip.header().destination_addr().into(),
                ],
                Some(LaxNetSlice::Ipv6(ip)) => [
                    ip.header().source_addr().into(),
                    ip.header().destination_addr().into(),
                ],
                _ => return false,
            };
            ends.contains(&wanted)
        };
        let has_udp = |wanted: u16| match &packet.transport {
            Some(TransportSlice::Udp(udp)) => {
                has_port(wanted, [udp.source_port(), udp.destination_port()])
            }
            _ => false,
        };
        let has_tcp = |wanted: u16| match &packet.transport {
            Some(TransportSlice::Tcp(tcp)) => {
                has_port(wanted, [tcp.source_port(), tcp.destination_port()])
            }
            _ => false,
        };
        ethertype.is_none_or(has_type)
            && host.is_none_or(has_host)
            && udp.is_none_or(has_udp)
            && tcp.is_none_or(has_tcp)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use etherparse::PacketBuilder;

    use super::*;

    fn udp(to: u16) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(5000, to)
            .write(&mut frame, &[7; 40])
            .unwrap();
        frame
    }

    #[test]
    fn a_frame_must_fit_all_that_is_named() {
        let frame = udp(53);
        let no = Filter::default();
        assert!(no.keeps(&frame) && no.keeps(&[]));
        let host = |text: &str| Filter {
            host: Some(text.parse().unwrap()),
            ..Filter::default()
        };
        assert!(host("10.0.0.1").keeps(&frame) && host("10.0.0.2").keeps(&frame));
        assert!(!host("10.0.0.3").keeps(&frame));
        let port = |udp, tcp| Filter {
            udp,
            tcp,
            ..host("10.0.0.2")
        };
        assert!(port(Some(53), None).keeps(&frame) && port(Some(5000), None).keeps(&frame));
        assert!(!port(Some(54), None).keeps(&frame) && !port(None, Some(53)).keeps(&frame));
        let of_type = |text: &str| Filter {
            ethertype: Some(ethertype(text).unwrap()),
            ..Filter::default()
        };
        assert!(of_type("0x0800").keeps(&frame) && of_type("2048").keeps(&frame));
        assert!(!of_type("0x88b5").keeps(&frame) && !of_type("0x0800").keeps(&frame[..10]));
        assert!(
            port(Some(53), None).keeps(&frame[..44]),
            "its payload was cut off"
        );
        assert!(ethertype("0xfffff").is_err());
    }
}
