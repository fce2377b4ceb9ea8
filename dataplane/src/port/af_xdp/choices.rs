//! What `auto` becomes on an interface, and what is said when the kernel sees it otherwise.

use covalent_api::{
    auto::{Choices, Copying, Hook, InterfaceFacts, Linux, Wishes, choose},
    config::{CopyMode, XdpMode},
};
use covalent_ebpf::{EbpfError, EffectiveMode};

use super::{interface::Interface, preflight};
use crate::port::PortError;

impl Interface {
    fn facts(&self) -> InterfaceFacts<'_> {
        InterfaceFacts {
            linux: Linux::running(),
            driver: &self.driver,
            mtu_bytes: self.mtu_bytes,
            queues: self.rx_queues,
            queues_most: self.rx_queues_most,
        }
    }
}

/// What a port on the interface is to be.
pub(super) fn choices(interface: &Interface, wishes: Wishes) -> Choices {
    choose(&interface.facts(), wishes)
}

/// How sockets are bound: who chose zero-copy from what is known of a driver lets the kernel have the last word, who configured it does not.
pub(super) fn bound_as(configured: CopyMode, choices: &Choices) -> CopyMode {
    match (configured, choices.copy.value) {
        (CopyMode::ZeroCopy, _) => CopyMode::ZeroCopy,
        (_, Copying::Copy) => CopyMode::Copy,
        (_, Copying::ZeroCopy | Copying::Ask) => CopyMode::Auto,
    }
}

/// That the driver takes the program on the interface as it is, as far as that is known beforehand. Where the generic hook will do, nothing is refused, and
/// [`tell`] says what was in the way.
pub(super) fn limits(
    port: &str,
    interface: &Interface,
    wishes: Wishes,
    choices: &Choices,
) -> Result<(), PortError> {
    let native = wishes.xdp == XdpMode::Native || wishes.copy == CopyMode::ZeroCopy;
    match choices.in_the_way(&interface.facts()).filter(|_| native) {
        None => Ok(()),
        Some(why) => Err(preflight::refuse(
            port,
            format!(
                "interface `{}` cannot have a native XDP program as it is: {why}",
                interface.name
            ),
            cure(interface, choices),
        )),
    }
}

/// What makes the interface one that a driver takes the program on.
fn cure(interface: &Interface, choices: &Choices) -> String {
    let name = &interface.name;
    if interface.mtu_bytes > choices.mtu_bytes_max.value {
        return format!("`ip link set {name} mtu {}`", choices.mtu_bytes_max.value);
    }
    let most = choices.queues_most.value;
    format!("`ethtool -L {name} combined {most}` (or `rx {most}`), or `covalent configure init`")
}

/// Says what `auto` became, and what the kernel made of it where that is another thing.
pub(super) fn tell(
    port: &str,
    interface: &Interface,
    choices: &Choices,
    effective: EffectiveMode,
    native_refusal: Option<&EbpfError>,
    zero_copy: bool,
) {
    let name = &interface.name;
    tracing::info!(
        port,
        interface = name,
        xdp = %effective,
        zero_copy,
        "xdp: {}; copy: {}",
        choices.xdp.why,
        choices.copy.why
    );
    if effective == EffectiveMode::Generic && choices.xdp.value != Hook::Generic {
        let refusal = native_refusal.map(ToString::to_string).unwrap_or_default();
        let (why, cure) = match choices.in_the_way(&interface.facts()) {
            Some(why) => (why, cure(interface, choices)),
            None => (choices.xdp.why.clone(), String::new()),
        };
        tracing::warn!(
            port,
            interface = name,
            refusal,
            cure,
            "the generic XDP hook is used, several times slower than a driver's own: {why}"
        );
    } else if !zero_copy && choices.copy.value == Copying::ZeroCopy {
        tracing::warn!(
            port,
            interface = name,
            "the kernel copies each frame, although {}",
            choices.copy.why
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(driver: &str, rx_queues: u32, mtu_bytes: u32) -> Interface {
        Interface {
            name: "eth0".to_owned(),
            index: 2,
            mac: [2, 0, 0, 0, 0, 1],
            mtu_bytes,
            carrier: true,
            rx_queues,
            rx_queues_most: 8,
            driver: driver.to_owned(),
            strips_tags: false,
        }
    }

    const fn wishes(xdp: XdpMode, copy: CopyMode) -> Wishes {
        Wishes {
            xdp,
            copy,
            queues: 0,
        }
    }

    #[test]
    fn sockets_are_bound_as_is_known_and_as_is_configured() {
        let of = |driver, copy| {
            let choices = choices(&interface(driver, 1, 1500), wishes(XdpMode::Auto, copy));
            bound_as(copy, &choices)
        };
        // Older and later kernels than those that are known are asked.
        assert_ne!(of("i40e", CopyMode::Auto), CopyMode::Copy);
        assert_eq!(of("i40e", CopyMode::ZeroCopy), CopyMode::ZeroCopy);
        assert_eq!(of("i40e", CopyMode::Copy), CopyMode::Copy);
        assert_eq!(of("veth", CopyMode::ZeroCopy), CopyMode::ZeroCopy);
        assert_eq!(of("unknown", CopyMode::Auto), CopyMode::Auto);
    }

    #[test]
    fn whoever_configured_native_is_told_beforehand_what_is_in_the_way() {
        let limits = |interface: &Interface, wishes| {
            limits("p0", interface, wishes, &choices(interface, wishes))
        };
        let native = wishes(XdpMode::Native, CopyMode::Auto);
        let error = limits(&interface("ena", 8, 1500), native).expect_err("8 of 8 queues");
        let text = error.to_string();
        assert!(
            text.contains("8 queues") && text.contains("ethtool -L eth0 combined 4"),
            "{text}"
        );
        let error = limits(&interface("igc", 1, 1600), native).expect_err("1600 of 1500");
        assert!(
            error.to_string().contains("ip link set eth0 mtu 1500"),
            "{error}"
        );
        // Whoever left it open gets a port.
        let auto = wishes(XdpMode::Auto, CopyMode::Auto);
        assert!(limits(&interface("ena", 8, 1500), auto).is_ok());
        assert!(limits(&interface("ena", 4, 1500), native).is_ok());
    }
}
