//! Reaching the daemon: the options about it, and how they name frames.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use covalent::{Device, Match, REQUEST_TIMEOUT, Transport};
use covalent_config::{INSTALLED_FILE, daemon_socket};

/// The options about the daemon, the same in every application. `covalent` has them too.
#[derive(Debug, Clone, Args)]
pub struct SocketArgs {
    /// The node's configuration file, which names its socket. Default:
    /// `/etc/covalent/covalent.toml` if it exists, else the socket is
    /// `/run/covalent/covalentd.sock`
    #[arg(long, env = "COVALENT_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The daemon's socket, instead of a configuration
    #[arg(long, env = "COVALENT_SOCKET", value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Seconds to wait for the daemon when it is restarted, and go on; 0 ends with it
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        env = "COVALENT_RECONNECT"
    )]
    pub reconnect: u32,
}

/// The option about the lane, for applications that need no port.
#[derive(Debug, Clone, Copy, Args)]
pub struct LaneArgs {
    /// The lane to attach to: the one whose links lead to the other nodes
    #[arg(long, default_value_t = 0)]
    pub lane: u32,
}

impl SocketArgs {
    /// Returns the given socket, else that of the given or installed configuration, else the
    /// default one.
    ///
    /// # Errors
    /// Fails if the configuration cannot be read.
    pub fn path(&self) -> Result<PathBuf> {
        self.path_beside(Path::new(INSTALLED_FILE))
    }

    fn path_beside(&self, installed: &Path) -> Result<PathBuf> {
        let installed = installed.exists().then_some(installed);
        let file = self.config.as_deref().or(installed);
        Ok(daemon_socket(self.socket.as_deref(), file)?)
    }

    /// Attaches to a lane.
    ///
    /// # Errors
    /// The configuration cannot be read, there is no daemon or no such lane, or the daemon refuses.
    pub fn attach_to_lane(&self, lane: LaneArgs, program: &str) -> Result<Device> {
        let device = Device::attach_to_lane(self.path()?, program, lane.lane, REQUEST_TIMEOUT)?;
        Ok(self.reconnecting(device))
    }

    /// Attaches to the lane that owns `port`.
    ///
    /// # Errors
    /// The configuration cannot be read, there is no daemon or no such port, or the daemon refuses.
    pub fn attach_to(&self, port: &str, program: &str) -> Result<Device> {
        let device = Device::attach_for_port(self.path()?, program, port, REQUEST_TIMEOUT)?;
        Ok(self.reconnecting(device))
    }

    /// Has `device` reconnect for the time of the option.
    fn reconnecting(&self, device: Device) -> Device {
        let patience = Duration::from_secs(self.reconnect.into());
        device.set_reconnect(Some(patience).filter(|patience| !patience.is_zero()));
        device
    }
}

/// The frames that an option selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchArg(pub Match);

/// How `--match` is written, for help texts.
pub const MATCH_HELP: &str = "any | ethertype:0x0806 | vlan:7 | prefix:10.1.0.0/16 | udp:53 | \
    tcp:192.0.2.1:80 | udp:192.0.2.7:4000->192.0.2.1:53";

impl FromStr for MatchArg {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let context = || format!("`{text}` is no match: expected {MATCH_HELP}");
        parse_match(text).with_context(context).map(Self)
    }
}

fn parse_match(text: &str) -> Result<Match> {
    if text == "any" {
        return Ok(Match::Any);
    }
    let Some((kind, value)) = text.split_once(':') else {
        bail!("no `:` in it")
    };
    let transport = match kind {
        "tcp" => Transport::Tcp,
        "udp" => Transport::Udp,
        "prefix" => {
            return Ok(Match::Prefix {
                dst: value.parse()?,
            });
        }
        "vlan" => {
            return Ok(Match::Vlan {
                vlan: value.parse()?,
            });
        }
        "ethertype" => {
            let ethertype = match value.strip_prefix("0x") {
                Some(digits) => u16::from_str_radix(digits, 16)?,
                None => value.parse()?,
            };
            return Ok(Match::EtherType { ethertype });
        }
        other => bail!("`{other}` is no kind of match"),
    };
    if let Some((src, dst)) = value.split_once("->") {
        let (src, dst): (SocketAddr, SocketAddr) = (src.parse()?, dst.parse()?);
        return Ok(Match::FiveTuple {
            transport,
            src: src.ip(),
            src_port: src.port(),
            dst: dst.ip(),
            dst_port: dst.port(),
        });
    }
    if let Ok(dst_port) = value.parse() {
        return Ok(Match::Port {
            transport,
            dst_port,
        });
    }
    let dst: SocketAddr = value.parse()?;
    Ok(Match::Destination {
        transport,
        dst: dst.ip(),
        dst_port: dst.port(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parsed(text: &str) -> Match {
        text.parse::<MatchArg>().unwrap().0
    }

    #[test]
    fn a_socket_precedes_a_configuration_which_precedes_the_installed_one() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let file = place.path().join(name);
            let text = format!(
                "[node]\nname = \"a\"\nruntime_dir = \"/run/{name}\"\n[[port]]\nname = \"p0\"\n\
                 kind = \"cable\"\npath = \"/run/{name}/cable.sock\"\n"
            );
            std::fs::write(&file, text).unwrap();
            file
        };
        let (named, installed) = (file("named"), file("installed"));
        let socket = |config: Option<&PathBuf>, socket: Option<&str>, installed: &Path| {
            let args = SocketArgs {
                config: config.cloned(),
                socket: socket.map(PathBuf::from),
                reconnect: 0,
            };
            args.path_beside(installed)
                .map_err(|error| error.to_string())
        };
        let absent = place.path().join("absent");
        for (found, expected) in [
            (socket(Some(&named), Some("/x.sock"), &installed), "/x.sock"),
            (
                socket(Some(&named), None, &installed),
                "/run/named/covalentd.sock",
            ),
            (
                socket(None, None, &installed),
                "/run/installed/covalentd.sock",
            ),
            (socket(None, None, &absent), "/run/covalent/covalentd.sock"),
        ] {
            assert_eq!(found, Ok(PathBuf::from(expected)));
        }
        let error = socket(Some(&absent), None, &installed).unwrap_err();
        assert!(error.contains("absent"), "{error}");
    }

    #[test]
    fn every_kind_of_match_can_be_written() {
        let (src, dst) = ("192.0.2.7".parse().unwrap(), "192.0.2.1".parse().unwrap());
        assert_eq!(parsed("any"), Match::Any);
        assert_eq!(parsed("vlan:7"), Match::Vlan { vlan: 7 });
        assert_eq!(
            parsed("ethertype:0x0806"),
            Match::EtherType { ethertype: 0x0806 }
        );
        assert_eq!(
            parsed("ethertype:2054"),
            Match::EtherType { ethertype: 0x0806 }
        );
        assert_eq!(
            parsed("prefix:2001:db8::/32"),
            Match::Prefix {
                dst: "2001:db8::/32".parse().unwrap()
            }
        );
        assert_eq!(
            parsed("udp:53"),
            Match::Port {
                transport: Transport::Udp,
                dst_port: 53
            }
        );
        assert_eq!(
            parsed("tcp:192.0.2.1:80"),
            Match::Destination {
                transport: Transport::Tcp,
                dst,
                dst_port: 80
            }
        );
        let transport = Transport::Udp;
        let five_tuple = Match::FiveTuple {
            transport,
            src,
            src_port: 4000,
            dst,
            dst_port: 53,
        };
        assert_eq!(parsed("udp:192.0.2.7:4000->192.0.2.1:53"), five_tuple);
    }

    #[test]
    fn the_error_for_a_bad_match_shows_the_valid_forms() {
        for text in [
            "",
            "all",
            "sctp:7",
            "udp:99999",
            "ethertype:0xfffff",
            "prefix:10.0.0.0/33",
            "udp:1->2",
        ] {
            let error = format!("{:#}", text.parse::<MatchArg>().unwrap_err());
            assert!(error.contains(text) && error.contains("udp:53"), "{error}");
        }
    }
}
