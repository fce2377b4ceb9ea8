//! What drivers ask of an interface before they take an XDP program. Their limits on the MTU are all above the daemon's own.

/// Whether XDP may use only half of a driver's queues, because it sends XDP frames on queues of its own (from the kernel's sources, 6.x):
/// `ena_xdp_legal_queue_count`, and gve's `verify_xdp_configuration`.
pub fn gives_half_of_the_queues(driver: Option<&str>) -> bool {
    matches!(driver, Some("ena" | "gve"))
}

/// Whether frames are always copied on interfaces of this driver: none of these has zero-copy (from the kernel's sources, 6.x).
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
