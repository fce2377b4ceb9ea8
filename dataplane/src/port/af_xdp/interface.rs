//! Properties of a network interface, queried in the network namespace of the calling thread.
//!
//! `/sys/class/net` would be easier to read but shows the namespace in which it was mounted.
//! Therefore the queries use the interface ioctls (netdevice(7)) and ethtool's `GCHANNELS`, which
//! need no privilege.

use std::{io, os::fd::AsRawFd, ptr};

use nix::{
    errno::Errno,
    net::if_::if_nametoindex,
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
};

/// ethtool's "how many queues are there" (`ETHTOOL_GCHANNELS` in `linux/ethtool.h`).
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// ethtool's "which driver is it" (`ETHTOOL_GDRVINFO` in `linux/ethtool.h`).
const ETHTOOL_GDRVINFO: u32 = 0x3;

/// ethtool's query for the enabled legacy offloads (`ETHTOOL_GFLAGS` in `linux/ethtool.h`).
const ETHTOOL_GFLAGS: u32 = 0x25;

/// The one that takes VLAN tags off received frames (`ETH_FLAG_RXVLAN` there).
const RX_VLAN: u32 = 1 << 8;

/// The state of an interface at the time of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::port) struct Interface {
    /// Its name.
    pub(in crate::port) name: String,
    /// Its index in this network namespace.
    pub(in crate::port) index: u32,
    /// Its hardware address.
    pub(in crate::port) mac: [u8; 6],
    /// Its MTU in bytes: the longest frame without the Ethernet header.
    pub(in crate::port) mtu_bytes: u32,
    /// Whether it is up and has a carrier.
    pub(in crate::port) carrier: bool,
    /// Receive queues in use by the driver; 1 if the driver does not report it.
    pub(in crate::port) rx_queues: u32,
    /// Most receive queues that it can have; 0 if the driver does not report it.
    pub(super) rx_queues_most: u32,
    /// Name of its driver; empty if it is not reported.
    pub(super) driver: String,
    /// Whether received frames lose their VLAN tags; `false` if the driver does not report it.
    pub(super) strips_tags: bool,
}

impl Interface {
    /// Queries the interface `name`.
    ///
    /// # Errors
    /// `ENODEV` if this network namespace has no such interface; else the kernel's error.
    pub(super) fn inspect(name: &str) -> io::Result<Self> {
        let index = if_nametoindex(name).map_err(|errno| match errno {
            Errno::ENXIO => Errno::ENODEV,
            other => other,
        })?;
        let ioctls = IoctlSocket::new(name)?;
        let (rx_queues, rx_queues_most) = ioctls.rx_queues().unwrap_or((1, 0));
        let flags = i32::from(ioctls.flags()?);
        let ready = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(Self {
            name: name.to_owned(),
            index,
            mac: ioctls.mac()?,
            mtu_bytes: ioctls.mtu_bytes()?,
            carrier: flags & ready == ready,
            rx_queues: rx_queues.max(1),
            rx_queues_most,
            driver: ioctls.driver().unwrap_or_default(),
            strips_tags: ioctls.strips_tags().unwrap_or(false),
        })
    }

    /// Whether it is no longer in this network namespace, under any name.
    #[cfg(feature = "dpdk")]
    pub(in crate::port) fn is_removed(&self) -> bool {
        // The library takes the system's "no" for an empty name.
        nix::net::if_::if_indextoname(self.index)
            .map_or_else(|errno| errno == Errno::ENXIO, |name| name.is_empty())
    }
}

/// `struct ethtool_channels` of `linux/ethtool.h`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    rx_max: u32,
    tx_max: u32,
    other_max: u32,
    combined_max: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo` of `linux/ethtool.h`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    /// Versions, addresses and counts that are not used here.
    rest: [u8; 160],
}

// The kernel writes as much as its structure has.
const _: () = assert!(size_of::<DriverInfo>() == 196);

/// `struct ethtool_value` of `linux/ethtool.h`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// A socket for the ioctls, and the interface name.
struct IoctlSocket {
    socket: std::os::fd::OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl IoctlSocket {
    fn new(name: &str) -> io::Result<Self> {
        let mut bytes = [0; libc::IFNAMSIZ];
        if name.len() >= bytes.len() {
            return Err(Errno::ENODEV.into());
        }
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        // Every family passes questions about interfaces on; this one can reach no network.
        let socket = socket(
            AddressFamily::Unix,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        Ok(Self {
            socket,
            name: bytes,
        })
    }

    fn ioctl_ifreq(
        &self,
        request: libc::Ioctl,
        argument: libc::__c_anonymous_ifr_ifru,
    ) -> io::Result<libc::__c_anonymous_ifr_ifru> {
        let mut ifreq_argument = libc::ifreq {
            ifr_name: self.name,
            ifr_ifru: argument,
        };
        // SAFETY: each `request` used in this file reads and writes one `ifreq`, which lives until
        // the call returns. If it carries a pointer, the caller keeps the target alive and
        // exclusive.
        let answer = unsafe {
            libc::ioctl(
                self.socket.as_raw_fd(),
                request,
                ptr::from_mut(&mut ifreq_argument),
            )
        };
        Errno::result(answer)?;
        Ok(ifreq_argument.ifr_ifru)
    }

    fn flags(&self) -> io::Result<libc::c_short> {
        let answer = self.ioctl_ifreq(libc::SIOCGIFFLAGS, empty())?;
        // SAFETY: SIOCGIFFLAGS fills `ifr_flags`, and every bit pattern of it is valid.
        Ok(unsafe { answer.ifru_flags })
    }

    fn mtu_bytes(&self) -> io::Result<u32> {
        let answer = self.ioctl_ifreq(libc::SIOCGIFMTU, empty())?;
        // SAFETY: SIOCGIFMTU fills `ifr_mtu`, and every bit pattern of it is valid.
        Ok(unsafe { answer.ifru_mtu }.cast_unsigned())
    }

    fn mac(&self) -> io::Result<[u8; 6]> {
        let answer = self.ioctl_ifreq(libc::SIOCGIFHWADDR, empty())?;
        // SAFETY: SIOCGIFHWADDR fills `ifr_hwaddr`, and every bit pattern of it is valid.
        let address = unsafe { answer.ifru_hwaddr };
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(address.sa_data) {
            *to = from.cast_unsigned();
        }
        Ok(mac)
    }

    /// How many are in use, and how many there can be.
    fn rx_queues(&self) -> io::Result<(u32, u32)> {
        let mut channels = Channels {
            command: ETHTOOL_GCHANNELS,
            ..Channels::default()
        };
        self.ioctl_ifreq(
            libc::SIOCETHTOOL,
            libc::__c_anonymous_ifr_ifru {
                ifru_data: ptr::from_mut(&mut channels).cast(),
            },
        )?;
        Ok((
            channels.rx.saturating_add(channels.combined),
            channels.rx_max.max(channels.combined_max),
        ))
    }

    fn strips_tags(&self) -> io::Result<bool> {
        let mut value = Value {
            command: ETHTOOL_GFLAGS,
            data: 0,
        };
        self.ioctl_ifreq(
            libc::SIOCETHTOOL,
            libc::__c_anonymous_ifr_ifru {
                ifru_data: ptr::from_mut(&mut value).cast(),
            },
        )?;
        Ok(value.data & RX_VLAN != 0)
    }

    fn driver(&self) -> io::Result<String> {
        let mut info = DriverInfo {
            command: ETHTOOL_GDRVINFO,
            driver: [0; 32],
            rest: [0; 160],
        };
        self.ioctl_ifreq(
            libc::SIOCETHTOOL,
            libc::__c_anonymous_ifr_ifru {
                ifru_data: ptr::from_mut(&mut info).cast(),
            },
        )?;
        let len = info.driver.iter().position(|&byte| byte == 0);
        let name = &info.driver[..len.unwrap_or(info.driver.len())];
        Ok(String::from_utf8_lossy(name).into_owned())
    }
}

fn empty() -> libc::__c_anonymous_ifr_ifru {
    libc::__c_anonymous_ifr_ifru {
        ifru_data: ptr::null_mut(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_to_every_namespace() {
        let loopback = Interface::inspect("lo").expect("every namespace has lo");
        assert_eq!(loopback.name, "lo");
        assert!(loopback.index > 0);
        assert_eq!(loopback.mac, [0; 6]);
        assert!(loopback.mtu_bytes >= 1500, "{}", loopback.mtu_bytes);
        assert_eq!(loopback.rx_queues, 1);
        assert_eq!(loopback.driver, "", "it has no driver");
    }

    #[test]
    fn a_missing_or_impossible_name_is_no_such_device() {
        for name in [
            "covalent-none",
            "a-name-longer-than-any-interface-may-have",
            "",
        ] {
            let error = Interface::inspect(name).expect_err("there is no such interface");
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{name}: {error}");
        }
    }
}
