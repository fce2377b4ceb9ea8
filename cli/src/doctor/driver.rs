//! Requirements of drivers on an interface before they accept an XDP program. Their MTU limits are
//! all above the daemon's own.

/// Returns whether XDP may use only half of a driver's queues, because the driver sends XDP frames
/// on separate queues. From the kernel's sources, 6.x: `ena_xdp_legal_queue_count`, and gve's
/// `verify_xdp_configuration`.
pub fn gives_half_of_the_queues(driver: Option<&str>) -> bool {
    matches!(driver, Some("ena" | "gve"))
}

/// Returns whether frames are always copied with this driver: none of these has zero-copy (from the
/// kernel's sources, 6.x).
pub fn never_without_copies(driver: Option<&str>) -> bool {
    matches!(
        driver,
        Some(
            "veth"
                | "tun"
                | "bonding"
                | "bridge"
                | "ena"
                | "hv_netvsc"
                | "xen_netfront"
                | "vmxnet3"
                | "netkit"
                | "dummy"
                | "macvlan"
                | "vlan"
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_drivers_keep_half_of_their_queues() {
        assert!(gives_half_of_the_queues(Some("ena")) && gives_half_of_the_queues(Some("gve")));
        assert!(!gives_half_of_the_queues(Some("veth")) && !gives_half_of_the_queues(None));
    }
}
