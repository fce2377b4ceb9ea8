//! News of interfaces from the kernel, and the request to set one up (rtnetlink(7)).

use std::{io, time::Duration};

use covalent_api::control::{InterfaceStatus, XdpProgram};
use futures::{StreamExt, TryStreamExt};
use rtnetlink::{
    Handle, LinkUnspec, MulticastGroup, new_multicast_connection,
    packet_core::NetlinkPayload,
    packet_route::{
        RouteNetlinkMessage,
        link::{
            AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkInfo,
            LinkMessage, LinkXdp,
        },
    },
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep,
};
use tracing::{debug, error, info, warn};

use super::{
    Followed,
    driver::{self, Bell, Ethtool},
    table::{Change, Interfaces, Seen},
};
use crate::metrics::OwnMetrics;

/// Between attempts to watch again, should the kernel's socket ever fail.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

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

/// Watches the interfaces that `followed` names, indefinitely. Sets each up when it appears, if
/// `followed` requests this at that time.
///
/// Interfaces are those of the network namespace of the calling thread. While no port has an
/// interface, it watches nothing and opens no socket. A sender on `requested` receives a reply
/// after all interfaces were queried again.
pub async fn watch(
    table: watch::Sender<Interfaces>,
    followed: watch::Receiver<Followed>,
    requested: mpsc::Receiver<Requester>,
    own: OwnMetrics,
) {
    let mut watcher = Watcher {
        table,
        followed,
        requested,
        own,
        complaint: String::new(),
    };
    watcher.own.interfaces(watcher.table.borrow().statuses());
    let mut complaint = String::new();
    loop {
        if watcher.await_interfaces().await.is_none() {
            return;
        }
        let problem = watcher.follow().await.to_string();
        if problem != complaint {
            error!("interfaces are not watched: {problem}");
            complaint = problem;
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Requester of a new query of the interfaces.
pub type Requester = oneshot::Sender<()>;

struct Watcher {
    table: watch::Sender<Interfaces>,
    followed: watch::Receiver<Followed>,
    requested: mpsc::Receiver<Requester>,
    own: OwnMetrics,
    /// The last reported reason why drivers are not queried.
    complaint: String,
}

/// Handles to query the kernel.
struct Kernel {
    links: Handle,
    /// Absent where the kernel has no ethtool netlink.
    drivers: Option<Ethtool>,
}

/// An input of the watcher.
enum News {
    Link(Option<NetlinkPayload<RouteNetlinkMessage>>),
    Driver(Bell),
    Requested(Requester),
    /// Another configuration is in force.
    Followed,
}

impl Watcher {
    /// Waits until there is an interface to follow. `None`: no requester is left.
    async fn await_interfaces(&mut self) -> Option<()> {
        while self.table.borrow().statuses().is_empty() {
            tokio::select! {
                changed = self.followed.changed() => {
                    changed.ok()?;
                    self.take_over();
                }
                requester = self.requested.recv() => {
                    // Nothing is to be looked at.
                    let _ = requester?.send(());
                }
            }
        }
        Some(())
    }

    /// Follows the interfaces of the configuration in force.
    fn take_over(&mut self) {
        let followed = self.followed.borrow_and_update();
        self.table
            .send_if_modified(|table| table.take_over(&followed.ports));
        drop(followed);
        self.own.interfaces(self.table.borrow().statuses());
    }

    /// Logs which followed interfaces do not exist.
    fn warn_of_absent(&self, is_news: impl Fn(&InterfaceStatus) -> bool) {
        let table = self.table.borrow();
        let absent = table.statuses().iter();
        for entry in absent.filter(|entry| entry.index.is_none() && is_news(entry)) {
            warn!(
                port = entry.port,
                interface = entry.interface,
                "the interface does not exist (yet); waiting for it"
            );
        }
    }

    /// Until the socket fails. Returns why.
    async fn follow(&mut self) -> InterfacesError {
        match self.try_follow().await {
            Ok(()) => InterfacesError::Closed,
            Err(problem) => problem,
        }
    }

    async fn try_follow(&mut self) -> Result<(), InterfacesError> {
        let (connection, links, mut news) = new_multicast_connection(&[MulticastGroup::Link])?;
        // It ends by itself when the handle and the news are dropped.
        tokio::spawn(connection);
        let drivers = self.open_ethtool().await;
        let mut kernel = Kernel { links, drivers };
        self.list(&mut kernel).await?;
        self.warn_of_absent(|_| true);
        loop {
            let news = tokio::select! {
                message = news.next() => News::Link(message.map(|(message, _)| message.payload)),
                bell = rings(&mut kernel.drivers) => News::Driver(bell),
                Some(requester) = self.requested.recv() => News::Requested(requester),
                Ok(()) = self.followed.changed() => News::Followed,
            };
            match news {
                News::Link(None) | News::Driver(Bell::Broken) => return Ok(()),
                News::Link(Some(payload)) => self.on_link(payload, &mut kernel).await?,
                News::Driver(Bell::Interface(index)) => {
                    let ours = |entry: &InterfaceStatus| entry.index == Some(index);
                    self.query_drivers(ours, &mut kernel).await;
                }
                News::Driver(Bell::Any) => self.query_drivers(|_| true, &mut kernel).await,
                News::Followed => {
                    let before = self.table.borrow().clone();
                    self.take_over();
                    self.list(&mut kernel).await?;
                    self.warn_of_absent(|entry| !before.follows(entry));
                }
                News::Requested(requester) => {
                    self.recheck(&mut kernel).await?;
                    // Concurrent requesters have their reply too, or have given up.
                    let _ = requester.send(());
                }
            }
        }
    }

    /// Opens the ethtool sockets. Logs once why drivers are not queried, if so.
    async fn open_ethtool(&mut self) -> Option<Ethtool> {
        match Ethtool::open().await {
            Ok(drivers) => Some(drivers),
            Err(problem) => {
                let problem = problem.to_string();
                if problem != self.complaint {
                    warn!("channels and features of interfaces are unknown: {problem}");
                    self.complaint = problem;
                }
                None
            }
        }
    }

    async fn on_link(
        &self,
        payload: NetlinkPayload<RouteNetlinkMessage>,
        kernel: &mut Kernel,
    ) -> Result<(), InterfacesError> {
        match payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                self.seen(&link, kernel).await
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                self.removed(link.header.index)
            }
            // The kernel's notifications overran the socket: only a new listing recovers them.
            NetlinkPayload::Overrun(_) => self.list(kernel).await?,
            _ => {}
        }
        Ok(())
    }

    async fn list(&self, kernel: &mut Kernel) -> Result<(), InterfacesError> {
        let mut links = kernel.links.link().get().execute();
        let mut indices = Vec::new();
        while let Some(link) = links.try_next().await? {
            indices.push(link.header.index);
            self.seen(&link, kernel).await;
        }
        let mut gone = Vec::new();
        self.table
            .send_modify(|table| gone = table.retain(&indices));
        for entry in gone {
            self.changed(&entry, Change::Gone);
        }
        Ok(())
    }

    /// Queries the followed interfaces that exist. This detects changes without a kernel
    /// notification.
    async fn recheck(&self, kernel: &mut Kernel) -> Result<(), InterfacesError> {
        for index in self.present(|_| true).into_iter().map(|(index, _)| index) {
            let mut links = kernel.links.link().get().match_index(index).execute();
            // An interface removed meanwhile is reported by its own notification.
            if let Ok(Some(link)) = links.try_next().await {
                self.seen(&link, kernel).await;
            }
        }
        self.query_drivers(|_| true, kernel).await;
        Ok(())
    }

    /// Index and name of existing interfaces that `wanted` selects, each once.
    fn present(&self, wanted: impl Fn(&InterfaceStatus) -> bool) -> Vec<(u32, String)> {
        let table = self.table.borrow();
        let mut present: Vec<_> = table
            .statuses()
            .iter()
            .filter(|entry| wanted(entry))
            .filter_map(|entry| Some((entry.index?, entry.interface.clone())))
            .collect();
        present.dedup();
        present
    }

    async fn query_drivers(&self, wanted: impl Fn(&InterfaceStatus) -> bool, kernel: &mut Kernel) {
        let Some(drivers) = &mut kernel.drivers else {
            return;
        };
        for (index, interface) in self.present(wanted) {
            let facts = drivers.query(&interface).await;
            let mut changes = Vec::new();
            self.table.send_if_modified(|table| {
                changes = table.apply_driver_facts(index, &facts);
                !changes.is_empty()
            });
            for (entry, change) in changes {
                self.changed(&entry, change);
            }
        }
    }

    async fn seen(&self, link: &LinkMessage, kernel: &mut Kernel) {
        let Some(seen) = read(link) else { return };
        let mut changes = Vec::new();
        self.table.send_if_modified(|table| {
            changes = table.seen(&seen);
            !changes.is_empty()
        });
        let has_changed = !changes.is_empty();
        for (entry, change) in changes {
            self.changed(&entry, change);
            if self.followed.borrow().bring_up && change == (Change::Appeared { admin_up: false }) {
                self.bring_up(&entry, seen.index, &kernel.links).await;
            }
        }
        if has_changed {
            let is_it = |entry: &InterfaceStatus| entry.index == Some(seen.index);
            self.query_drivers(is_it, kernel).await;
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
        self.own.interfaces(self.table.borrow().statuses());
        let (port, interface) = (&entry.port, &entry.interface);
        match change {
            Change::Appeared { admin_up } => info!(port, interface, admin_up, "interface found"),
            Change::Gone => warn!(port, interface, "interface removed"),
            Change::AdminUp(true) => info!(port, interface, "interface set up"),
            Change::AdminUp(false) => warn!(
                port,
                interface, "interface set down; it stays down until an administrator sets it up"
            ),
            Change::Carrier(carrier) => {
                info!(port, interface, carrier, "carrier of the interface changed")
            }
            Change::Mtu { before } => {
                let mtu_bytes = entry.mtu_bytes;
                info!(
                    port,
                    interface, mtu_bytes, before, "the interface has another MTU"
                );
            }
            Change::Address => {
                let address = entry.address.as_deref();
                info!(
                    port,
                    interface, address, "the interface has another address"
                );
            }
            Change::Programs => {
                info!(port, interface, programs = ?entry.programs, "XDP programs of the interface");
            }
            Change::Channels => {
                info!(port, interface, channels = ?entry.channels, "channels of the interface");
            }
            Change::Features => {
                info!(port, interface, features = ?entry.features, "features of the interface");
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
            "may not set the interface up: control needs CAP_NET_ADMIN in this network namespace. \
             Run it as root or from its \
             unit, or set `control.bring_up = false` and run: ip link set {interface} up"
        );
    } else {
        error!(port, interface, "cannot set the interface up: {problem}");
    }
}

/// Waits for the bell, for ever where there is none.
async fn rings(drivers: &mut Option<Ethtool>) -> Bell {
    match drivers {
        Some(drivers) => drivers.rings().await,
        None => std::future::pending().await,
    }
}

/// The relevant parts of the kernel's message. `None` without a name.
fn read(link: &LinkMessage) -> Option<Seen> {
    let (mut name, mut mtu_bytes, mut address, mut kind) = (None, 0, None, None);
    let (mut bus, mut device) = (None, None);
    let mut programs = Vec::new();
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(found) => name = Some(found.clone()),
            LinkAttribute::Mtu(mtu) => mtu_bytes = *mtu,
            LinkAttribute::Address(bytes) => address = Some(in_hex(bytes)),
            LinkAttribute::ParentDevBusName(found) => bus = Some(found),
            LinkAttribute::ParentDevName(found) => device = Some(found),
            LinkAttribute::LinkInfo(infos) => {
                kind = infos.iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
            }
            LinkAttribute::Xdp(found) => programs = found.iter().filter_map(program).collect(),
            _ => {}
        }
    }
    Some(Seen {
        index: link.header.index,
        name: name?,
        admin_up: link.header.flags.contains(LinkFlags::Up),
        // IFF_LOWER_UP: the driver has a carrier (netdevice(7)).
        carrier: link.header.flags.contains(LinkFlags::LowerUp),
        mtu_bytes,
        address,
        driver: kind.or_else(|| driver::of_device(bus?, device?)),
        programs,
    })
}

fn program(found: &LinkXdp) -> Option<XdpProgram> {
    let (mode, id) = match found {
        LinkXdp::DrvProgId(id) => ("native", *id),
        LinkXdp::SkbProgId(id) => ("generic", *id),
        LinkXdp::HwProgId(id) => ("offloaded", *id),
        _ => return None,
    };
    Some(XdpProgram {
        mode: mode.to_owned(),
        id,
    })
}

/// Bytes as `ip link` shows them.
fn in_hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}
