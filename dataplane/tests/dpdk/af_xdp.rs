//! The suite on `net_af_xdp`: AF_XDP as DPDK does it, with an XDP program of its own.

use crate::{
    devices::{self, number},
    namespace::{in_new_namespace, veth_pair},
    pair::LivePair,
    suite,
};

fn pair(queues: u32) -> LivePair {
    let end = |interface: &str| {
        let mut port = devices::port(&format!(
            "net_af_xdp{},iface={interface},queue_count={queues}",
            number()
        ));
        if let covalent_api::config::PortKind::Dpdk { queues: wanted, .. } = &mut port.kind {
            *wanted = queues;
        }
        port
    };
    devices::pair(&[end("near0"), end("far0")])
}

fn on_veth(queues: u32, test: impl FnOnce(&mut LivePair) + Send) {
    in_new_namespace(|| {
        veth_pair(queues);
        test(&mut pair(queues));
    });
}

#[test]
fn frames_keep_order_and_bytes() {
    on_veth(1, |pair| suite::order_and_bytes(pair, 20_000));
}

#[test]
fn every_size_crosses() {
    on_veth(1, |pair| suite::every_size(pair));
}

#[test]
fn what_cannot_be_sent_is_refused() {
    on_veth(1, |pair| suite::refusals(pair));
}

#[test]
fn a_full_port_pushes_back_and_recovers() {
    on_veth(1, suite::back_pressure);
}

#[test]
fn frames_that_do_not_outrun_the_kernel_leak_nothing() {
    on_veth(1, |pair| suite::nothing_leaks(pair, 200_000));
}

#[test]
fn counters_conserve() {
    on_veth(1, suite::counters_conserve);
}

#[test]
fn disabling_is_pulling_the_cable() {
    on_veth(1, suite::disabling);
}

#[test]
fn no_wake_up_is_lost() {
    in_new_namespace(|| {
        veth_pair(1);
        suite::no_lost_wake_up(pair(1), 1_000);
    });
}

#[test]
fn work_forbids_sleep() {
    on_veth(1, suite::work_forbids_sleep);
}
