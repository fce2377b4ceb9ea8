//! The resolution of `auto` on an interface, and the log messages if the kernel differs.

use covalent_config::{
    CopyMode, XdpMode,
    auto::{Choices, Copying, Hook, InterfaceFacts, Linux, Wishes, choose},
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

/// Returns the choices for a port on the interface.
pub(super) fn choices(interface: &Interface, wishes: Wishes) -> Choices {
    choose(&interface.facts(), wishes)
}

/// Returns how sockets are bound. If zero-copy is chosen from known facts of a driver, the kernel
/// decides. If it is configured, it is mandatory.
pub(super) fn bound_as(configured: CopyMode, choices: &Choices) -> CopyMode {
    match (configured, choices.copy.value) {
        (CopyMode::ZeroCopy, _) => CopyMode::ZeroCopy,
        (_, Copying::Copy) => CopyMode::Copy,
        (_, Copying::ZeroCopy | Copying::Ask) => CopyMode::Auto,
    }
}

/// Checks that the driver accepts the native program on the interface as it is, as far as known in
/// advance. If the generic hook suffices, nothing is refused, and [`log_choices`] logs the
/// obstacle.
pub(super) fn limits(
    port: &str,
    interface: &Interface,
    wishes: Wishes,
    choices: &Choices,
) -> Result<(), PortError> {
    let native = wishes.xdp == XdpMode::Native || wishes.copy == CopyMode::ZeroCopy;
    match choices.obstacle(&interface.facts()).filter(|_| native) {
        None => Ok(()),
        Some(why) => Err(preflight::refuse(
            port,
            format!(
                "interface `{}` cannot have a native XDP program with its current settings: {why}",
                interface.name
            ),
            cure(interface, choices),
        )),
    }
}

/// Returns the command that makes the interface suitable for a native program.
fn cure(interface: &Interface, choices: &Choices) -> String {
    let name = &interface.name;
    if interface.mtu_bytes > choices.mtu_bytes_max.value {
        return format!("`ip link set {name} mtu {}`", choices.mtu_bytes_max.value);
    }
    let most = choices.queues_most.value;
    format!("`ethtool -L {name} combined {most}` (or `rx {most}`), or `covalent configure init`")
}

/// Logs the resolution of `auto`, and the kernel's choice if it differs.
pub(super) fn log_choices(
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
        let (why, cure) = match choices.obstacle(&interface.facts()) {
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
        // On kernels older or newer than the known ones, the kernel decides.
        assert_ne!(of("i40e", CopyMode::Auto), CopyMode::Copy);
        assert_eq!(of("i40e", CopyMode::ZeroCopy), CopyMode::ZeroCopy);
        assert_eq!(of("i40e", CopyMode::Copy), CopyMode::Copy);
        assert_eq!(of("veth", CopyMode::ZeroCopy), CopyMode::ZeroCopy);
        assert_eq!(of("unknown", CopyMode::Auto), CopyMode::Auto);
    }

    #[test]
    fn configured_native_mode_reports_obstacles_in_advance() {
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
        // With `auto` there is always a port.
        let auto = wishes(XdpMode::Auto, CopyMode::Auto);
        assert!(limits(&interface("ena", 8, 1500), auto).is_ok());
        assert!(limits(&interface("ena", 4, 1500), native).is_ok());
    }
}
