//! News of interfaces from the kernel, and the request to set one up (rtnetlink(7)).

use std::{io, time::Duration};

use covalent_api::control::InterfaceStatus;
use futures::{StreamExt, TryStreamExt};
use rtnetlink::{
    Handle, LinkUnspec, MulticastGroup, new_multicast_connection,
    packet_core::NetlinkPayload,
    packet_route::{
        RouteNetlinkMessage,
        link::{AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkMessage},
    },
};
use tokio::{sync::watch, time::sleep};
use tracing::{debug, error, info, warn};

use super::table::{Change, Interfaces, Seen};
use crate::metrics::OwnMetrics;

/// Between attempts to watch again, should the kernel's socket ever fail.
const AGAIN: Duration = Duration::from_secs(1);

/// Why interfaces cannot be watched or set up.
#[derive(Debug, thiserror::Error)]
pub enum InterfacesError {
    /// There is no socket to the kernel.
    #[error("no rtnetlink socket: {0}")]
    Socket(#[from] io::Error),
    /// The kernel refused a request.
    #[error("rtnetlink: {0}")]
    Request(#[from] rtnetlink::Error),
    /// The socket failed later.
    #[error("the rtnetlink socket was closed")]
    Closed,
}

/// Watches the interfaces of `table` for ever, and sets each up when it appears if `bring_up` says so then.
///
/// Interfaces are those of the network namespace of the calling thread. Without AF_XDP ports there is nothing to watch and
/// the call returns.
pub async fn watch(
    table: watch::Sender<Interfaces>,
    bring_up: watch::Receiver<bool>,
    own: OwnMetrics,
) {
    if table.borrow().statuses().is_empty() {
        return;
    }
    let watcher = Watcher {
        table,
        bring_up,
        own,
    };
    watcher.own.interfaces(&watcher.table.borrow());
    let mut complaint = String::new();
    loop {
        let problem = watcher.follow().await.to_string();
        if problem != complaint {
            error!("interfaces are not watched: {problem}");
            complaint = problem;
        }
        sleep(AGAIN).await;
    }
}

struct Watcher {
    table: watch::Sender<Interfaces>,
    bring_up: watch::Receiver<bool>,
    own: OwnMetrics,
}

impl Watcher {
    /// Until the socket fails. Returns why.
    async fn follow(&self) -> InterfacesError {
        match self.try_follow().await {
            Ok(()) => InterfacesError::Closed,
            Err(problem) => problem,
        }
    }

    async fn try_follow(&self) -> Result<(), InterfacesError> {
        let (connection, handle, mut news) = new_multicast_connection(&[MulticastGroup::Link])?;
        // It ends by itself when the handle and the news are dropped.
        tokio::spawn(connection);
        self.list(&handle).await?;
        for entry in self
            .table
            .borrow()
            .statuses()
            .iter()
            .filter(|entry| entry.index.is_none())
        {
            warn!(
                port = entry.port,
                interface = entry.interface,
                "the interface does not exist (yet); waiting for it"
            );
        }
        while let Some((message, _)) = news.next().await {
            match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                    self.seen(&link, &handle).await
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                    self.removed(link.header.index)
                }
                // The kernel had more news than room: only a new listing tells what was lost.
                NetlinkPayload::Overrun(_) => self.list(&handle).await?,
                _ => {}
            }
        }
        Ok(())
    }

    async fn list(&self, handle: &Handle) -> Result<(), InterfacesError> {
        let mut links = handle.link().get().execute();
        let mut indices = Vec::new();
        while let Some(link) = links.try_next().await? {
            indices.push(link.header.index);
            self.seen(&link, handle).await;
        }
        let mut gone = Vec::new();
        self.table
            .send_modify(|table| gone = table.retain(&indices));
        for entry in gone {
            self.changed(&entry, Change::Gone);
        }
        Ok(())
    }

    async fn seen(&self, link: &LinkMessage, handle: &Handle) {
        let Some(seen) = read(link) else { return };
        let mut changes = Vec::new();
        self.table.send_if_modified(|table| {
            changes = table.seen(&seen);
            !changes.is_empty()
        });
        for (entry, change) in changes {
            self.changed(&entry, change);
            if *self.bring_up.borrow() && change == (Change::Appeared { admin_up: false }) {
                self.bring_up(&entry, seen.index, handle).await;
            }
        }
    }

    fn removed(&self, index: u32) {
        let mut gone = None;
        self.table.send_if_modified(|table| {
            gone = table.removed(index);
            gone.is_some()
        });
        if let Some(entry) = gone {
            self.changed(&entry, Change::Gone);
        }
    }

    fn changed(&self, entry: &InterfaceStatus, change: Change) {
        self.own.interfaces(&self.table.borrow());
        let (port, interface) = (&entry.port, &entry.interface);
        match change {
            Change::Appeared { admin_up } => info!(port, interface, admin_up, "interface found"),
            Change::Gone => warn!(port, interface, "interface gone"),
            Change::AdminUp(true) => info!(port, interface, "interface set up"),
            Change::AdminUp(false) => warn!(
                port,
                interface, "interface set down; it stays so until somebody sets it up"
            ),
            Change::Carrier(carrier) => {
                info!(port, interface, carrier, "carrier of the interface changed")
            }
        }
    }

    async fn bring_up(&self, entry: &InterfaceStatus, index: u32, handle: &Handle) {
        let no_address = LinkUnspec::new_with_index(index)
            .append_extra_attribute(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(
                vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)],
            )]))
            .build();
        // Fails where the kernel has no IPv6; then it makes no address either.
        if let Err(problem) = handle.link().set(no_address).execute().await {
            debug!(
                interface = entry.interface,
                "no IPv6 address generation to switch off: {problem}"
            );
        }
        let up = LinkUnspec::new_with_index(index).up().build();
        match handle.link().set(up).execute().await {
            Ok(()) => self.table.send_modify(|table| table.brought_up(index)),
            Err(problem) => complain(entry, &problem),
        }
    }
}

fn complain(entry: &InterfaceStatus, problem: &rtnetlink::Error) {
    let (port, interface) = (&entry.port, &entry.interface);
    let denied = matches!(problem, rtnetlink::Error::NetlinkError(message)
        if message.to_io().kind() == io::ErrorKind::PermissionDenied);
    if denied {
        error!(
            port,
            interface,
            "may not set the interface up: control needs CAP_NET_ADMIN in this network namespace. Run it as root or from its \
             unit, or set `control.bring_up = false` and run: ip link set {interface} up"
        );
    } else {
        error!(port, interface, "cannot set the interface up: {problem}");
    }
}

/// What is of interest in the kernel's message; `None` without a name.
fn read(link: &LinkMessage) -> Option<Seen> {
    let name = link
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        })?;
    let mtu_bytes = link
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
    Some(Seen {
        index: link.header.index,
        name,
        admin_up: link.header.flags.contains(LinkFlags::Up),
        // IFF_LOWER_UP: the driver has a carrier (netdevice(7)).
        carrier: link.header.flags.contains(LinkFlags::LowerUp),
        mtu_bytes: mtu_bytes.unwrap_or(0),
    })
}
