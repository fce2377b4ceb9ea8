//! Queries the driver of an interface over ethtool's netlink family. Needs no privilege.

use std::{future::Future, time::Duration};

use anyhow::{Context, Result};
use covalent_api::control::Channels;
use ethtool::{
    EthtoolAttr, EthtoolChannelAttr, EthtoolError, EthtoolFeatureAttr, EthtoolHandle,
    EthtoolRingAttr,
};
use futures::TryStreamExt;
use tokio::time::timeout;

/// Longest time until a driver replies. It replies from stored state, unless another process holds
/// the kernel's single network lock.
const PATIENCE: Duration = Duration::from_millis(250);

/// A driver's description of its interface. Unknown or late values are omitted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nic {
    /// Its queues.
    pub channels: Option<Channels>,
    /// Its rings of descriptors.
    pub rings: Option<Rings>,
    /// The features that are on, by the kernel's names, for example `rx-lro`.
    pub features: Option<Vec<String>>,
    /// The features that may be switched on and off.
    pub changeable: Option<Vec<String>>,
}

/// How many descriptors the rings of each queue have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rings {
    /// For receiving.
    pub rx: u32,
    /// For sending.
    pub tx: u32,
    /// The most for receiving; 0 where the device has no such ring.
    pub rx_max: u32,
    /// The most for sending; 0 where the device has no such ring.
    pub tx_max: u32,
}

impl Nic {
    /// Whether the feature is on.
    pub fn has(&self, feature: &str) -> bool {
        let mut names = self.features.iter().flatten();
        names.any(|name| name == feature)
    }

    /// Whether the feature may be switched.
    pub fn may_switch(&self, feature: &str) -> bool {
        let mut names = self.changeable.iter().flatten();
        names.any(|name| name == feature)
    }
}

/// Queries the drivers of these interfaces in the calling thread's network namespace. The results
/// have the same order.
///
/// # Errors
/// Fails if the kernel has no generic netlink.
pub fn query(interfaces: &[&str]) -> Result<Vec<Nic>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(async {
        let (connection, mut handle, _) =
            ethtool::new_connection().context("cannot open a generic netlink socket")?;
        let connection = tokio::spawn(connection);
        let mut nics = Vec::with_capacity(interfaces.len());
        for interface in interfaces {
            let channels = within(channels(&mut handle, interface)).await;
            let rings = within(rings(&mut handle, interface)).await;
            let (features, changeable) = within(features(&mut handle, interface)).await.unzip();
            nics.push(Nic {
                channels,
                rings,
                features,
                changeable,
            });
        }
        connection.abort();
        Ok(nics)
    })
}

async fn within<T>(answer: impl Future<Output = Result<Option<T>, EthtoolError>>) -> Option<T> {
    timeout(PATIENCE, answer).await.ok()?.ok()?
}

async fn channels(
    handle: &mut EthtoolHandle,
    interface: &str,
) -> Result<Option<Channels>, EthtoolError> {
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

async fn rings(handle: &mut EthtoolHandle, interface: &str) -> Result<Option<Rings>, EthtoolError> {
    let mut replies = Box::pin(handle.ring().get(Some(interface)).execute().await?);
    let Some(reply) = replies.try_next().await? else {
        return Ok(None);
    };
    let mut rings = Rings::default();
    for attribute in reply.payload.nlas {
        let EthtoolAttr::Ring(attribute) = attribute else {
            continue;
        };
        match attribute {
            EthtoolRingAttr::Rx(slots) => rings.rx = slots,
            EthtoolRingAttr::Tx(slots) => rings.tx = slots,
            EthtoolRingAttr::RxMax(slots) => rings.rx_max = slots,
            EthtoolRingAttr::TxMax(slots) => rings.tx_max = slots,
            _ => {}
        }
    }
    Ok(Some(rings))
}

/// Names of features.
type Features = Vec<String>;

/// Those that are on, and those that may be switched.
async fn features(
    handle: &mut EthtoolHandle,
    interface: &str,
) -> Result<Option<(Features, Features)>, EthtoolError> {
    let mut replies = Box::pin(handle.feature().get(Some(interface)).execute().await?);
    let Some(reply) = replies.try_next().await? else {
        return Ok(None);
    };
    let (mut on, mut changeable) = (Features::new(), Features::new());
    for attribute in reply.payload.nlas {
        let (bits, names) = match attribute {
            EthtoolAttr::Feature(EthtoolFeatureAttr::Active(bits)) => (bits, &mut on),
            EthtoolAttr::Feature(EthtoolFeatureAttr::Hw(bits)) => (bits, &mut changeable),
            _ => continue,
        };
        let set = bits.into_iter().filter(|bit| bit.value);
        names.extend(set.map(|bit| bit.name));
    }
    Ok(Some((on, changeable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_channels_and_an_absent_interface_no_facts() {
        let nics = query(&["lo", "covalent-none"]).expect("generic netlink");
        assert_eq!((nics[0].channels.as_ref(), nics[0].rings), (None, None));
        assert!(!nics[0].may_switch("rx-vlan-hw-parse"));
        assert_eq!(nics[1], Nic::default());
        assert!(!nics[1].has("rx-lro"));
    }
}
