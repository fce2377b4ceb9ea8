//! The network interfaces of AF_XDP ports: set up without addresses, and watched.
//!
//! Control sets an interface up once, when control starts or when the interface appears, and only
//! if it was down. Before that, control disables its IPv6 link-local address, so that only our
//! frames cross the cable. If an administrator sets the interface down afterwards, it stays down.
//! Control never sets an interface down, even one that it set up itself, and even at exit: its
//! restart must not cut the dataplane's links. An interface that is up without an address is
//! harmless.
//!
//! Control also follows each interface's address, MTU, driver and XDP programs (rtnetlink), and its
//! channels and features (ethtool's netlink family). It compares facts and never relies on an
//! event's contents, so repeated, lost and late notifications have the same result.

mod driver;
mod followed;
mod netlink;
mod table;

pub use self::{
    followed::Followed,
    netlink::{InterfacesError, Requester, watch},
    table::{Change, DriverFacts, Interfaces, Seen},
};
