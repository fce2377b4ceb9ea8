//! Properties of an interface that its driver reports: queried through ethtool's netlink family,
//! and queried again after a kernel notification.

use std::{fs, io, time::Duration};

use covalent_api::control::Channels;
use ethtool::{EthtoolAttr, EthtoolChannelAttr, EthtoolFeatureAttr, EthtoolHandle, EthtoolHeader};
use futures::{StreamExt, TryStreamExt, channel::mpsc::UnboundedReceiver};
use genetlink::message::RawGenlMessage;
use rtnetlink::{
    packet_core::{NetlinkMessage, NetlinkPayload, NlasIterator, Parseable},
    sys::{AsyncSocket, SocketAddr},
};
use tokio::time::timeout;
use tracing::debug;

use super::table::DriverFacts;

/// Time limit for a driver's reply. It replies from memory, unless the kernel's global network lock
/// (RTNL) is held.
const PATIENCE: Duration = Duration::from_secs(2);

/// Multicast group of the family `ethtool` that receives change notifications.
const MONITOR: &str = "monitor";

/// `ETHTOOL_MSG_FEATURES_NTF` and `ETHTOOL_MSG_CHANNELS_NTF` (linux/ethtool_netlink.h). They
/// contain the new values. Control queries the values anyway, so that late and lost notifications
/// have the same result.
const BELLS: [u8; 2] = [13, 19];

/// `ETHTOOL_A_FEATURES_HEADER` and `ETHTOOL_A_CHANNELS_HEADER`.
const HEADER: u16 = 1;

/// The features that matter to a port. A NIC that strips VLAN tags (`ethtool -K … rxvlan`) hides
/// them from pipes. A NIC that merges frames delivers frames that were never on the cable.
const FEATURES: [&str; 3] = ["rx-vlan-hw-parse", "rx-lro", "rx-gro-hw"];

/// Reason why drivers cannot be queried.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoEthtool {
    /// There is no socket.
    #[error("no generic netlink socket: {0}")]
    Socket(#[from] io::Error),
    /// The kernel has no such family: it is older than 5.6, or built without.
    #[error("the kernel has no ethtool netlink: {0}")]
    Family(#[from] genetlink::GenetlinkError),
    /// The family has no such group.
    #[error("ethtool's netlink family reports no changes")]
    Group,
}

/// A handle to query drivers, and a notification channel (the bell).
///
/// They use two sockets: an overrun of the bell loses notifications, but never a reply that a task
/// waits for.
pub(super) struct Ethtool {
    handle: EthtoolHandle,
    bell: UnboundedReceiver<(NetlinkMessage<RawGenlMessage>, SocketAddr)>,
}

/// Subject of a kernel notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bell {
    /// The interface with this index.
    Interface(u32),
    /// Notifications were lost. Any interface may have changed.
    Any,
    /// The socket has failed.
    Broken,
}

impl Ethtool {
    /// Opens the sockets in the network namespace of the calling thread. Needs no privilege. Their
    /// tasks stop when the value is dropped.
    ///
    /// # Errors
    /// [`NoEthtool`].
    pub(super) async fn open() -> Result<Self, NoEthtool> {
        let (connection, handle, _) = ethtool::new_connection()?;
        tokio::spawn(connection);
        let family = handle.handle.resolve_family::<ethtool::EthtoolMessage>();
        let group = family.await?.multicast_groups.get(MONITOR).copied();
        let (mut connection, _, bell) = genetlink::new_connection()?;
        let socket = connection.socket_mut().socket_mut();
        // The kernel treats a socket without its own address as its own, and excludes it from
        // multicast notifications.
        socket.bind_auto()?;
        socket.add_membership(group.ok_or(NoEthtool::Group)?)?;
        tokio::spawn(connection);
        Ok(Self { handle, bell })
    }

    /// Waits for a kernel notification about channels or features. Cancel-safe: dropping the future
    /// loses nothing.
    pub(super) async fn rings(&mut self) -> Bell {
        loop {
            let Some((message, _)) = self.bell.next().await else {
                return Bell::Broken;
            };
            match message.payload {
                NetlinkPayload::InnerMessage(news) if BELLS.contains(&news.header.cmd) => {
                    return interface_of(&news.payload).map_or(Bell::Any, Bell::Interface);
                }
                NetlinkPayload::Overrun(_) => return Bell::Any,
                _ => {}
            }
        }
    }

    /// Queries the driver of `interface`. Omits values that it does not report, or not in time.
    pub(super) async fn query(&mut self, interface: &str) -> DriverFacts {
        let channels = timeout(PATIENCE, channels(&mut self.handle, interface)).await;
        let features = timeout(PATIENCE, features(&mut self.handle, interface)).await;
        let log_missing = |what, problem: &dyn std::fmt::Display| {
            debug!(
                interface,
                "the driver does not report its {what}: {problem}"
            );
        };
        DriverFacts {
            channels: match channels {
                Ok(Ok(channels)) => channels,
                Ok(Err(problem)) => {
                    log_missing("channels", &problem);
                    None
                }
                Err(late) => {
                    log_missing("channels", &late);
                    None
                }
            },
            features: match features {
                Ok(Ok(features)) => features,
                Ok(Err(problem)) => {
                    log_missing("features", &problem);
                    None
                }
                Err(late) => {
                    log_missing("features", &late);
                    None
                }
            },
        }
    }
}

async fn channels(
    handle: &mut EthtoolHandle,
    interface: &str,
) -> Result<Option<Channels>, ethtool::EthtoolError> {
    let mut replies = Box::pin(handle.channel().get(Some(interface)).execute().await?);
    let Some(reply) = replies.try_next().await? else {
        return Ok(None);
    };
    let mut channels = Channels::default();
    for attribute in reply.payload.nlas {
        let EthtoolAttr::Channel(attribute) = attribute else {
            continue;
        };
        match attribute {
            EthtoolChannelAttr::RxCount(count) => channels.rx = count,
            EthtoolChannelAttr::TxCount(count) => channels.tx = count,
            EthtoolChannelAttr::CombinedCount(count) => channels.combined = count,
            EthtoolChannelAttr::RxMax(most) => channels.rx_max = most,
            EthtoolChannelAttr::TxMax(most) => channels.tx_max = most,
            EthtoolChannelAttr::CombinedMax(most) => channels.combined_max = most,
            _ => {}
        }
    }
    Ok(Some(channels))
}

async fn features(
    handle: &mut EthtoolHandle,
    interface: &str,
) -> Result<Option<Vec<String>>, ethtool::EthtoolError> {
    let mut replies = Box::pin(handle.feature().get(Some(interface)).execute().await?);
    let Some(reply) = replies.try_next().await? else {
        return Ok(None);
    };
    let active = reply.payload.nlas.into_iter().find_map(|attribute| {
        let EthtoolAttr::Feature(EthtoolFeatureAttr::Active(bits)) = attribute else {
            return None;
        };
        let is_on = |name: &&str| bits.iter().any(|bit| bit.value && bit.name == **name);
        let names = FEATURES.into_iter().filter(is_on);
        Some(names.map(ToOwned::to_owned).collect())
    });
    Ok(active)
}

/// The interface that a message of the family `ethtool` is about.
fn interface_of(payload: &[u8]) -> Option<u32> {
    let header = NlasIterator::new(payload)
        .filter_map(Result::ok)
        .find(|attribute| attribute.kind() == HEADER)?;
    NlasIterator::new(header.value())
        .filter_map(Result::ok)
        .find_map(|attribute| match EthtoolHeader::parse(&attribute) {
            Ok(EthtoolHeader::DevIndex(index)) => Some(index),
            _ => None,
        })
}

/// The driver of a device on a bus of the host, both by the kernel's names. The device's location
/// is the same in every network namespace.
pub(super) fn of_device(bus: &str, device: &str) -> Option<String> {
    // Names of the kernel's own, but a path is made of them.
    if [bus, device].iter().any(|name| name.contains('/')) {
        return None;
    }
    let link = fs::read_link(format!("/sys/bus/{bus}/devices/{device}/driver")).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_of_a_notification_is_found() {
        // A header (nested) with index 7 and the name "v0", as the kernel of 6.18 sends it.
        let payload = [
            20, 0, 1, 0x80, 8, 0, 1, 0, 7, 0, 0, 0, 7, 0, 2, 0, b'v', b'0', 0, 0, //
            8, 0, 6, 0, 2, 0, 0, 0,
        ];
        assert_eq!(interface_of(&payload), Some(7));
        assert_eq!(interface_of(&payload[20..]), None);
        for end in 0..payload.len() {
            // No truncation causes a panic.
            interface_of(&payload[..end]);
        }
    }

    #[test]
    fn a_device_without_a_driver_has_none() {
        assert_eq!(of_device("pci", "nothing"), None);
        assert_eq!(of_device("..", "x"), None);
        assert_eq!(of_device("pci/devices", "x"), None);
    }
}
