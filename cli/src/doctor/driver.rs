//! What drivers ask of an interface before they take an XDP program whose frames lie in one buffer.

/// A driver's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest MTU, in bytes.
    pub mtu_bytes_max: u32,
    /// Whether XDP may use only half of the queues, because the driver sends XDP frames on queues of its own.
    pub half_of_the_queues: bool,
}

/// The page (4096 B) less Ethernet header (14), FCS and a VLAN tag (4 each), XDP head room (256) and `skb_shared_info` (320):
/// what one buffer holds where a driver has no tighter rule.
const ONE_PAGE: Limits = Limits {
    mtu_bytes_max: 3498,
    half_of_the_queues: false,
};

/// The limits of `driver`, from the kernel's sources (6.x).
pub fn limits(driver: Option<&str>) -> Limits {
    match driver {
        // i40e_max_xdp_frame_size and ice_max_xdp_frame_size: 3072 B with headers (14 + 4 + 2 × 4).
        Some("i40e" | "ice") => Limits {
            mtu_bytes_max: 3046,
            ..ONE_PAGE
        },
        // ENA_XDP_MAX_MTU; ena_xdp_legal_queue_count.
        Some("ena") => Limits {
            half_of_the_queues: true,
            ..ONE_PAGE
        },
        // verify_xdp_configuration: a 2048 B buffer less Ethernet header and padding; as many queues again for XDP_TX.
        Some("gve") => Limits {
            mtu_bytes_max: 2032,
            half_of_the_queues: true,
        },
        _ => ONE_PAGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_drivers_have_their_own_limits_and_others_those_of_a_page() {
        assert_eq!(limits(Some("ice")).mtu_bytes_max, 3046);
        assert!(limits(Some("ena")).half_of_the_queues);
        assert_eq!(limits(Some("veth")), ONE_PAGE);
        assert_eq!(limits(None), ONE_PAGE);
    }
}
