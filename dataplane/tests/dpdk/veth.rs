//! The suite on DPDK devices that use a kernel interface, here the two ends of a veth pair with one
//! queue.

use covalent_dataplane::port::{PortError, TxRefusal};

use crate::{
    devices::{self, number},
    frames::frame,
    namespace::{in_new_namespace, ip, veth_pair},
    pair::{LivePair, until},
    suite,
};

/// Opens a port on each end. `device` holds a driver, and that driver's argument for one queue.
fn pair([driver, one_queue]: [&str; 2]) -> LivePair {
    let end = |interface: &str| {
        devices::port(&format!(
            "{driver}{},iface={interface},{one_queue}",
            number()
        ))
    };
    devices::pair(&[end("near0"), end("far0")])
}

fn on_veth(device: [&str; 2], test: impl FnOnce(&mut LivePair) + Send) {
    in_new_namespace(|| {
        veth_pair(1);
        test(&mut pair(device));
    });
}

fn no_wake_up_is_lost(device: [&str; 2]) {
    in_new_namespace(|| {
        veth_pair(1);
        suite::no_lost_wake_up(pair(device), 1_000);
    });
}

/// As in the daemon, which gets the carrier from the kernel.
fn check_removed_interface_is_gone(device: [&str; 2]) {
    on_veth(device, |pair| {
        pair.near.set_carrier(false);
        pair.near
            .receive(32, |_| {})
            .expect("the interface is there");
        ip(&["link", "del", "near0"]);
        until("the interface is missed", || {
            matches!(pair.near.receive(32, |_| {}), Err(PortError::Gone { .. }))
        });
        assert_eq!(pair.near.tx(&frame(1, 64)), Err(TxRefusal::Down));
        assert!(matches!(pair.near.flush(), Err(PortError::Gone { .. })));
    });
}

/// A module with every test of the suite on one such device.
macro_rules! on_a_driver {
    ($(#[$about:meta])* $name:ident, $device:expr) => {
        $(#[$about])*
        mod $name {
            use super::{
                check_removed_interface_is_gone as removed, no_wake_up_is_lost as wake_ups, on_veth,
            };
            use crate::suite;

            const DEVICE: [&str; 2] = $device;

            #[test]
            fn frames_keep_order_and_bytes() {
                on_veth(DEVICE, |pair| suite::order_and_bytes(pair, 20_000));
            }

            #[test]
            fn every_size_crosses() {
                on_veth(DEVICE, |pair| suite::every_size(pair));
            }

            #[test]
            fn an_unsendable_frame_is_refused() {
                on_veth(DEVICE, |pair| suite::refusals(pair));
            }

            #[test]
            fn a_full_port_pushes_back_and_recovers() {
                on_veth(DEVICE, suite::back_pressure);
            }

            #[test]
            fn frames_that_do_not_outrun_the_kernel_leak_nothing() {
                on_veth(DEVICE, |pair| suite::nothing_leaks(pair, 200_000));
            }

            #[test]
            fn counters_conserve() {
                on_veth(DEVICE, suite::counters_conserve);
            }

            #[test]
            fn disabling_is_pulling_the_cable() {
                on_veth(DEVICE, suite::disabling);
            }

            #[test]
            fn no_wake_up_is_lost() {
                wake_ups(DEVICE);
            }

            #[test]
            fn a_removed_interface_is_reported_gone() {
                removed(DEVICE);
            }

            #[test]
            fn work_forbids_sleep() {
                on_veth(DEVICE, suite::work_forbids_sleep);
            }

            #[test]
            fn a_burst_stays_until_the_next() {
                on_veth(DEVICE, suite::a_burst_stays_until_the_next);
            }
        }
    };
}

on_a_driver! {
    /// A raw socket on an interface. The kernel gets its frames as well.
    af_packet, ["net_af_packet", "qpairs=1"]
}
on_a_driver! {
    /// AF_XDP as DPDK does it, with an XDP program of its own.
    af_xdp, ["net_af_xdp", "queue_count=1"]
}
