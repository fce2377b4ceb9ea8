//! The words in which DPDK names a device: its name or PCI address, then arguments behind commas.

/// Valid values of the key.
pub(super) const EXPECTED: &str = "a device as DPDK names it: a virtual one \
    (`net_memif0,role=server,...`) or a PCI address (`0000:03:00.0`)";

const DEVICE_BYTES_MAX: usize = 1024;

/// Drivers that sit on an interface of the kernel, which their argument `iface` names.
const ON_AN_INTERFACE: [&str; 2] = ["net_af_packet", "net_af_xdp"];

/// The name or address, without the arguments.
pub(crate) fn name(device: &str) -> &str {
    device.split_once(',').map_or(device, |(name, _)| name)
}

/// Whether the device is one on PCI: `0000:03:00.0`, or `03:00.0` in domain 0.
pub(super) fn is_pci(device: &str) -> bool {
    let hex = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let Some((place, function)) = name(device).rsplit_once('.') else {
        return false;
    };
    let parts: Vec<&str> = place.split(':').collect();
    let fits = match parts[..] {
        [bus, device] => hex(bus, 2..=2) && hex(device, 2..=2),
        [domain, bus, device] => hex(domain, 4..=8) && hex(bus, 2..=2) && hex(device, 2..=2),
        _ => false,
    };
    fits && matches!(function.as_bytes(), [b'0'..=b'7'])
}

/// The value of the argument `key`.
pub(super) fn argument<'a>(device: &'a str, key: &str) -> Option<&'a str> {
    device
        .split(',')
        .skip(1)
        .filter_map(|argument| argument.split_once('='))
        .find_map(|(found, value)| (found == key).then_some(value))
}

/// The interface of the kernel under a device, by name.
pub(super) fn kernel_interface(device: &str) -> Option<&str> {
    ON_AN_INTERFACE
        .iter()
        .any(|driver| name(device).starts_with(driver))
        .then(|| argument(device, "iface"))
        .flatten()
}

/// Checks whether DPDK could accept this device, judging by its name only.
pub(super) fn check(device: &str) -> Result<(), String> {
    if device.len() > DEVICE_BYTES_MAX {
        return Err(format!(
            "{} bytes long; expected {EXPECTED}, at most {DEVICE_BYTES_MAX} bytes",
            device.len()
        ));
    }
    if device.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!(
            "{device:?} has blanks in it; arguments stand behind commas"
        ));
    }
    let name = name(device);
    if is_pci(name) {
        return Ok(());
    }
    if !name.starts_with("net_") && !name.starts_with("eth_") && !name.starts_with("virtio_user") {
        return Err(format!(
            "{name:?} is no device of DPDK's; expected {EXPECTED}"
        ));
    }
    if ON_AN_INTERFACE
        .iter()
        .any(|driver| name.starts_with(driver))
        && argument(device, "iface").is_none_or(str::is_empty)
    {
        return Err(format!(
            "{name:?} needs the name of an interface: `{name},iface=eth1`"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pci_address_is_distinguished_from_a_virtual_device() {
        for address in [
            "0000:03:00.0",
            "03:00.7",
            "10000:e1:1f.1",
            "0000:03:00.0,a=b",
        ] {
            assert!(is_pci(address), "{address}");
        }
        for other in [
            "net_ring0",
            "0000:03:00",
            "3:00.0",
            "0000:03:00.8",
            "",
            ".",
            "0000:03:0g.0",
        ] {
            assert!(!is_pci(other), "{other}");
        }
    }

    #[test]
    fn only_two_drivers_sit_on_an_interface_of_the_kernel() {
        assert_eq!(
            kernel_interface("net_af_packet0,qpairs=2,iface=eth1"),
            Some("eth1")
        );
        assert_eq!(kernel_interface("net_af_xdp_p0,iface=eth2"), Some("eth2"));
        assert_eq!(
            kernel_interface("net_tap0,iface=tap0"),
            None,
            "it makes the interface"
        );
        assert_eq!(kernel_interface("net_af_packet0"), None);
    }

    #[test]
    fn an_invalid_device_is_refused_with_a_reason() {
        for (device, reason) in [
            ("", "no device"),
            ("eth1", "no device"),
            ("net_memif0, role=server", "blanks"),
            ("net_af_xdp0", "iface="),
            ("net_af_packet0,iface=", "iface="),
        ] {
            let refused = check(device).expect_err(device);
            assert!(refused.contains(reason), "{device}: {refused}");
        }
        assert!(check(&"n".repeat(1025)).is_err());
        assert_eq!(check("net_af_xdp0,iface=eth1"), Ok(()));
        assert_eq!(check("virtio_user0,path=/x"), Ok(()));
    }
}
