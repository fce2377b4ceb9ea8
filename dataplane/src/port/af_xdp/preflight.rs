//! Checks before any change. Each failed check reports the finding and the remedy.

use caps::{CapSet, Capability};
use covalent_config::{
    CHUNK_FRAME_BYTES, LINK_MTU_BYTES_MIN, MTU_BYTES_MAX, QUEUES_MAX, auto::Wishes,
};
use covalent_protocol::FRAME_BYTES_MAX;
use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit},
};

use super::{choices::choices, interface::Interface};
use crate::port::PortError;

/// The smallest and largest rings that may be configured.
const RING_SLOTS: std::ops::RangeInclusive<u32> = 64..=32_768;

/// A setup error of one port.
pub(super) fn refuse(
    port: &str,
    problem: impl Into<String>,
    remedy: impl Into<String>,
) -> PortError {
    PortError::Setup {
        port: port.to_owned(),
        problem: problem.into(),
        remedy: remedy.into(),
    }
}

/// The interface called `name`, which must exist here.
pub(in crate::port) fn interface(port: &str, name: &str) -> Result<Interface, PortError> {
    Interface::inspect(name).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => PortError::NoInterface {
            port: port.to_owned(),
            interface: name.to_owned(),
        },
        _ => PortError::Io {
            port: port.to_owned(),
            doing: "querying the interface",
            source: error,
        },
    })
}

/// How many queues to use of the interface called `name`; `configured` 0 means all.
pub(in crate::port) fn queue_count(
    port: &str,
    name: &str,
    configured: u32,
) -> Result<u32, PortError> {
    queues(port, &interface(port, name)?, configured)
}

/// How large a chunk must be for the interface called `name`.
pub(in crate::port) fn chunk_bytes(
    port: &str,
    name: &str,
    wishes: Wishes,
) -> Result<u32, PortError> {
    let interface = interface(port, name)?;
    Ok(choices(&interface, wishes).chunk_bytes.value)
}

/// As [`queue_count`], for an interface that was already queried.
pub(super) fn queues(port: &str, interface: &Interface, configured: u32) -> Result<u32, PortError> {
    let there = interface.rx_queues;
    match configured {
        0 if there > QUEUES_MAX => Err(refuse(
            port,
            format!(
                "interface `{}` has {there} queues, but {QUEUES_MAX} can be steered",
                interface.name
            ),
            format!(
                "give it {QUEUES_MAX} or fewer with `ethtool -L {} rx {QUEUES_MAX}`",
                interface.name
            ),
        )),
        0 => Ok(there),
        wanted if wanted > there => Err(refuse(
            port,
            format!(
                "`queues = {wanted}`, but interface `{}` has {there}",
                interface.name
            ),
            format!(
                "set `queues` to {there} or less (0 for all), or give the interface more with \
                 `ethtool -L {} rx {wanted}`",
                interface.name
            ),
        )),
        wanted => {
            if wanted < there {
                tracing::warn!(
                    port,
                    interface = interface.name,
                    queues = wanted,
                    there,
                    "frames of the omitted queues go to the kernel, those of the link and of pipes \
                     too: set `queues = 0`, or remove the other queues with `ethtool -L`"
                );
            }
            Ok(wanted)
        }
    }
}

/// Logs a warning if frames arrive without their VLAN tags. Between the ends of a virtual cable the
/// tags stay in the frame, whatever the setting.
pub(super) fn tags(port: &str, interface: &Interface) {
    if interface.strips_tags && interface.driver != "veth" {
        tracing::warn!(
            port,
            interface = interface.name,
            "the NIC strips VLAN tags from received frames before AF_XDP: pipes get such frames \
             without tags, and no `vlan` match finds them; cure: `ethtool -K {} rxvlan off`",
            interface.name
        );
    }
}

/// Rings have a size that the kernel takes.
pub(super) fn ring_slots(port: &str, slots: u32) -> Result<(), PortError> {
    if RING_SLOTS.contains(&slots) && slots.is_power_of_two() {
        return Ok(());
    }
    Err(refuse(
        port,
        format!("`ring_slots = {slots}`"),
        format!(
            "choose a power of two from {} to {}",
            RING_SLOTS.start(),
            RING_SLOTS.end()
        ),
    ))
}

const _: () = assert!(LINK_MTU_BYTES_MIN as usize == FRAME_BYTES_MAX - 14);

/// Checks that every frame of the interface fits one chunk, and every frame of a `link` fits the
/// interface. A smaller MTU would let few records pass, and the link would fail repeatedly under
/// load. Frames of several chunks are not supported.
pub(super) fn mtu(port: &str, interface: &Interface, link: bool) -> Result<(), PortError> {
    let mtu = interface.mtu_bytes;
    if link && mtu < LINK_MTU_BYTES_MIN {
        return Err(refuse(
            port,
            format!(
                "interface `{}` has MTU {mtu}, but the frames of a link need {LINK_MTU_BYTES_MIN}",
                interface.name
            ),
            format!(
                "set its MTU to {LINK_MTU_BYTES_MIN} or more, at both ends of the cable: `ip link \
                 set {} mtu 1500`; or `link = false` for a port without one",
                interface.name
            ),
        ));
    }
    if mtu <= MTU_BYTES_MAX {
        return Ok(());
    }
    Err(refuse(
        port,
        format!(
            "interface `{}` has MTU {mtu}, but a frame must fit {CHUNK_FRAME_BYTES} bytes of \
             packet memory with its Ethernet header \
             and two VLAN tags",
            interface.name
        ),
        format!(
            "set its MTU to {MTU_BYTES_MAX} or less: `ip link set {} mtu {MTU_BYTES_MAX}`",
            interface.name
        ),
    ))
}

/// The process may make AF_XDP sockets and load XDP programs.
pub(super) fn capabilities(port: &str) -> Result<(), PortError> {
    let missing: Vec<String> = [
        Capability::CAP_NET_ADMIN,
        Capability::CAP_NET_RAW,
        Capability::CAP_BPF,
        Capability::CAP_PERFMON,
    ]
    .into_iter()
    .filter(|&wanted| !held(wanted))
    .map(|capability| capability.to_string())
    .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(refuse(
        port,
        format!(
            "AF_XDP needs {}, which this process does not have",
            missing.join(" and ")
        ),
        "run as root, or give them to the service (`AmbientCapabilities=` in its systemd unit)",
    ))
}

/// CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON, as in the kernel.
fn held(wanted: Capability) -> bool {
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    let included = matches!(wanted, Capability::CAP_BPF | Capability::CAP_PERFMON);
    has(wanted) || (included && has(Capability::CAP_SYS_ADMIN))
}

/// The lane's packet memory may be locked.
pub(in crate::port) fn locked_memory(port: &str, needed_bytes: u64) -> Result<(), PortError> {
    if held(Capability::CAP_IPC_LOCK) {
        return Ok(());
    }
    let Ok((limit_bytes, _)) = getrlimit(Resource::RLIMIT_MEMLOCK) else {
        return Ok(());
    };
    if needed_bytes <= limit_bytes {
        return Ok(());
    }
    Err(refuse(
        port,
        format!(
            "the lane's packet memory has {} KiB, but only {} KiB may be locked",
            needed_bytes >> 10,
            limit_bytes >> 10
        ),
        "raise the limit (`ulimit -l`, or `LimitMEMLOCK=infinity` in the systemd unit), give \
         CAP_IPC_LOCK, or set a smaller \
         `ring_slots`",
    ))
}

/// Explains the kernel's refusal of the packet memory.
pub(in crate::port) fn explain_memory(port: &str, bytes: u64, error: std::io::Error) -> PortError {
    let mib = bytes >> 20;
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOBUFS) => refuse(
            port,
            format!("the limit on locked memory is below the {mib} MiB of a queue's packet memory"),
            "raise it (`LimitMEMLOCK=infinity` in the systemd unit) or give CAP_IPC_LOCK",
        ),
        Some(Errno::ENOMEM) => refuse(
            port,
            format!("there are no {mib} MiB of memory of the configured page size"),
            "reserve 2 MiB pages (`sysctl vm.nr_hugepages`), or set `huge_pages = \"auto\"`",
        ),
        Some(Errno::EPERM) => refuse(
            port,
            "AF_XDP sockets need CAP_NET_RAW",
            "run as root, or give it to the service",
        ),
        Some(Errno::EAFNOSUPPORT) => refuse(
            port,
            "this kernel has no AF_XDP",
            "use one with CONFIG_XDP_SOCKETS, or another kind of port",
        ),
        _ => PortError::Io {
            port: port.to_owned(),
            doing: "registering packet memory",
            source: error,
        },
    }
}

/// Explains the kernel's refusal of one queue.
pub(super) fn explain_bind(
    port: &str,
    interface: &Interface,
    queue: u32,
    zero_copy_wanted: bool,
    error: std::io::Error,
) -> PortError {
    let name = &interface.name;
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EBUSY) => refuse(
            port,
            format!("queue {queue} of interface `{name}` belongs to another AF_XDP socket"),
            "stop the program that has it (`ss --xdp -p` lists them)",
        ),
        Some(Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT) if zero_copy_wanted => refuse(
            port,
            format!("interface `{name}` has no zero-copy mode on queue {queue}"),
            "set `copy = \"auto\"` or `\"copy\"`",
        ),
        Some(Errno::EOPNOTSUPP) => refuse(
            port,
            format!("the driver of interface `{name}` cannot be used like this on queue {queue}"),
            "set `copy = \"copy\"`",
        ),
        Some(Errno::EINVAL | Errno::ERANGE) => refuse(
            port,
            format!("interface `{name}` has no queue {queue} now"),
            format!(
                "it had {} queues at the previous check: see `ethtool -l {name}`",
                interface.rx_queues
            ),
        ),
        Some(Errno::ENODEV) => refuse(
            port,
            format!("interface `{name}` was removed while it was opened"),
            "start again when it returns",
        ),
        _ => PortError::Io {
            port: port.to_owned(),
            doing: "binding an AF_XDP socket",
            source: error,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface() -> Interface {
        Interface {
            name: "eth0".to_owned(),
            index: 2,
            mac: [2, 0, 0, 0, 0, 1],
            mtu_bytes: 1500,
            carrier: true,
            rx_queues: 4,
            rx_queues_most: 8,
            driver: "veth".into(),
            strips_tags: true,
        }
    }

    #[test]
    fn too_many_queues_are_refused_with_the_number_that_exists() {
        assert_eq!(queues("p0", &interface(), 0).ok(), Some(4));
        assert_eq!(queues("p0", &interface(), 4).ok(), Some(4));
        let wide = Interface {
            rx_queues: QUEUES_MAX + 1,
            ..interface()
        };
        assert!(queues("p0", &wide, 0).is_err() && queues("p0", &wide, 64).is_ok());
        let text = queues("p0", &interface(), 5)
            .expect_err("there are only four")
            .to_string();
        assert!(
            text.contains("`queues = 5`, but interface `eth0` has 4"),
            "{text}"
        );
    }

    #[test]
    fn an_mtu_too_small_for_a_link_is_refused_where_there_is_one() {
        let small = Interface {
            mtu_bytes: LINK_MTU_BYTES_MIN - 1,
            ..interface()
        };
        assert!(mtu("p0", &small, false).is_ok());
        let text = mtu("p0", &small, true)
            .expect_err("one byte too few")
            .to_string();
        assert!(
            text.contains("MTU 1471") && text.contains("need 1472") && text.contains("both ends"),
            "{text}"
        );
        let fits = Interface {
            mtu_bytes: LINK_MTU_BYTES_MIN,
            ..interface()
        };
        assert!(mtu("p0", &fits, true).is_ok());
    }

    #[test]
    fn an_mtu_too_large_is_refused_with_the_one_that_fits() {
        let fits = Interface {
            mtu_bytes: MTU_BYTES_MAX,
            ..interface()
        };
        assert!(mtu("p0", &fits, true).is_ok());
        let jumbo = Interface {
            mtu_bytes: MTU_BYTES_MAX + 1,
            ..interface()
        };
        let text = mtu("p0", &jumbo, false)
            .expect_err("one byte too many")
            .to_string();
        assert!(
            text.contains("MTU 1771") && text.contains("ip link set eth0 mtu 1770"),
            "{text}"
        );
    }

    #[test]
    fn rings_are_powers_of_two_within_bounds() {
        for good in [64, 2048, 32_768] {
            assert!(ring_slots("p0", good).is_ok(), "{good}");
        }
        for bad in [0, 32, 65, 65_536] {
            assert!(ring_slots("p0", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn refusals_of_the_kernel_are_explained() {
        let text =
            |errno: Errno| explain_bind("p0", &interface(), 3, false, errno.into()).to_string();
        assert!(text(Errno::EBUSY).contains("queue 3 of interface `eth0` belongs to another"));
        assert!(text(Errno::EINVAL).contains("has no queue 3 now"));
        assert!(text(Errno::EOPNOTSUPP).contains("copy = \"copy\""));
    }
}
