//! The network interfaces of AF_XDP ports: set up without any address, and watched.
//!
//! An interface is set up once, when control starts or when the interface appears, and only if it was down. Before that the
//! kernel is told to make no IPv6 link-local address on it, so that nothing but our frames crosses the cable. One
//! that somebody sets down afterwards stays down: it was meant. Control never sets one down, not even one that it set
//! up itself and not when it ends, because its restart must not cut the dataplane's links; an interface that is up and
//! has no address harms nobody.
//!
//! What an interface is made of is followed too: its address, MTU, driver, XDP programs (rtnetlink), channels and features (ethtool's netlink
//! family). Facts are compared, and no event is believed to say all: repeated, lost and late news end alike.

mod driver;
mod followed;
mod netlink;
mod table;

pub use self::{
    followed::Followed,
    netlink::{Asker, InterfacesError, watch},
    table::{Change, DriverFacts, Interfaces, Seen},
};
