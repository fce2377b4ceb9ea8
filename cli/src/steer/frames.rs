//! Which frames a rule is about, as options.

use std::net::IpAddr;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use covalent_api::rule::{Match, Transport};
use ipnet::IpNet;

/// The matched frames. The given options determine how specific the rule is.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Frames")]
pub struct FrameArgs {
    /// Of this transport protocol; with --dst-port.
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    transport: Option<TransportName>,
    /// From this address: one connection; with --transport, --src-port, --dst and --dst-port.
    #[arg(long, value_name = "ADDRESS")]
    src: Option<IpAddr>,
    /// From this port.
    #[arg(long, value_name = "PORT")]
    src_port: Option<u16>,
    /// To this address with --dst-port, or to this prefix alone.
    #[arg(long, value_name = "ADDRESS|PREFIX")]
    dst: Option<Destination>,
    /// To this port.
    #[arg(long, value_name = "PORT")]
    dst_port: Option<u16>,
    /// With this VLAN id in the outermost tag.
    #[arg(long, value_name = "ID")]
    vlan: Option<u16>,
    /// Of this EtherType, behind any VLAN tags: 0x0806, or 2054.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    ethertype: Option<u16>,
    /// Every frame that no other rule matches.
    #[arg(long)]
    any: bool,
}

/// As the configuration file calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportName {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl From<TransportName> for Transport {
    fn from(name: TransportName) -> Self {
        match name {
            TransportName::Tcp => Self::Tcp,
            TransportName::Udp => Self::Udp,
        }
    }
}

/// An address or a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    Address(IpAddr),
    Prefix(IpNet),
}

impl std::str::FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse().map(Self::Address).ok();
        address
            .or_else(|| text.parse().map(Self::Prefix).ok())
            .ok_or_else(|| {
                "expected an address such as 192.0.2.1 or a prefix such as 10.1.0.0/16".into()
            })
    }
}

fn number(text: &str) -> Result<u16, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected an EtherType, 0x0600 to 0xffff, such as 0x0806".into())
}

impl FrameArgs {
    /// Returns the rule's match for the given options.
    ///
    /// # Errors
    /// Fails if the options form no match; the error lists all valid combinations.
    pub fn matches(&self) -> Result<Match> {
        let matches = self.combined().ok_or_else(|| {
            anyhow!(
                "these options together are no rule's; give one of\n  \
                 --transport P --src ADDRESS --src-port N --dst ADDRESS --dst-port N\n  \
                 --transport P --dst ADDRESS --dst-port N\n  \
                 --transport P --dst-port N\n  \
                 --dst PREFIX\n  --vlan ID\n  --ethertype NUMBER\n  --any"
            )
        })?;
        match matches.check() {
            Ok(()) => Ok(matches),
            Err(problem) => bail!("--{}: {problem}", problem.key()),
        }
    }

    fn combined(&self) -> Option<Match> {
        use Destination::{Address, Prefix};
        let connection = (
            self.transport,
            self.src,
            self.src_port,
            self.dst,
            self.dst_port,
        );
        Some(match (connection, self.vlan, self.ethertype, self.any) {
            (
                (Some(transport), Some(src), Some(src_port), Some(Address(dst)), Some(dst_port)),
                None,
                None,
                false,
            ) => Match::FiveTuple {
                transport: transport.into(),
                src,
                src_port,
                dst,
                dst_port,
            },
            (
                (Some(transport), None, None, Some(Address(dst)), Some(dst_port)),
                None,
                None,
                false,
            ) => Match::Destination {
                transport: transport.into(),
                dst,
                dst_port,
            },
            ((Some(transport), None, None, None, Some(dst_port)), None, None, false) => {
                Match::Port {
                    transport: transport.into(),
                    dst_port,
                }
            }
            ((None, None, None, Some(Prefix(dst)), None), None, None, false) => {
                Match::Prefix { dst }
            }
            ((None, None, None, Some(Address(dst)), None), None, None, false) => {
                Match::Prefix { dst: dst.into() }
            }
            ((None, None, None, None, None), Some(vlan), None, false) => Match::Vlan { vlan },
            ((None, None, None, None, None), None, Some(ethertype), false) => {
                Match::EtherType { ethertype }
            }
            ((None, None, None, None, None), None, None, true) => Match::Any,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        frames: FrameArgs,
    }

    fn match_or_error(options: &str) -> String {
        let words = std::iter::once("steer").chain(options.split(' '));
        match Line::try_parse_from(words) {
            Err(error) => error.to_string(),
            Ok(line) => match line.frames.matches() {
                Ok(matches) => matches.to_string(),
                Err(error) => format!("{error:#}"),
            },
        }
    }

    #[test]
    fn the_given_options_decide_the_kind_of_match() {
        for (options, wanted) in [
            ("--transport udp --dst-port 53", "Udp -> port 53"),
            (
                "--transport tcp --dst 192.0.2.1 --dst-port 80",
                "Tcp -> 192.0.2.1:80",
            ),
            (
                "--transport udp --src ::1 --src-port 1 --dst ::2 --dst-port 2",
                "Udp ::1:1 -> ::2:2",
            ),
            ("--dst 10.1.0.0/16", "-> 10.1.0.0/16"),
            ("--dst 10.1.2.3", "-> 10.1.2.3/32"),
            ("--vlan 7", "VLAN 7"),
            ("--ethertype 0x0806", "EtherType 0x0806"),
            ("--ethertype 2054", "EtherType 0x0806"),
            ("--any", "any frame"),
        ] {
            assert_eq!(match_or_error(options), wanted, "{options}");
        }
    }

    #[test]
    fn an_invalid_rule_is_reported_with_its_correction() {
        for (options, wanted) in [
            ("--transport udp", "give one of"),
            ("--dst-port 53", "give one of"),
            ("--vlan 7 --any", "give one of"),
            (
                "--transport udp --dst 10.0.0.0/8 --dst-port 1",
                "give one of",
            ),
            ("--dst 10.1.2.3/16", "did you mean `10.1.0.0/16`"),
            ("--vlan 4096", "--vlan: 4096"),
            ("--ethertype 3", "is a length"),
            ("--ethertype arp", "such as 0x0806"),
            ("--dst here", "such as 192.0.2.1"),
        ] {
            let match_or_error = match_or_error(options);
            assert!(
                match_or_error.contains(wanted),
                "{options}: {match_or_error}"
            );
        }
    }
}
