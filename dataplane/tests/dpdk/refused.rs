//! What cannot be opened is refused with what to do about it.

use covalent_api::config::{HugePages, PortConfig, PortKind, RxChecksum, TxChecksum};

use crate::devices::{self, number, open_all};

fn problem(ports: &[PortConfig]) -> String {
    open_all(ports, HugePages::Never)
        .map(|_| ())
        .expect_err("must be refused")
        .to_string()
}

fn with(
    device: &str,
    change: impl FnOnce(&mut u32, &mut RxChecksum, &mut TxChecksum),
) -> [PortConfig; 1] {
    let mut port = devices::port(device);
    if let PortKind::Dpdk {
        queues,
        rx_checksum,
        tx_checksum,
        ..
    } = &mut port.kind
    {
        change(queues, rx_checksum, tx_checksum);
    }
    [port]
}

#[test]
fn a_device_that_does_not_exist() {
    let told = problem(&[devices::port(&format!("net_nonsense{}", number()))]);
    assert!(
        told.contains("net_nonsense") && told.contains("cure:"),
        "{told}"
    );
    let told = problem(&[devices::port("net_af_packet9,iface=nowhere9")]);
    assert!(told.contains("no interface `nowhere9`"), "{told}");
}

#[test]
fn more_queues_than_there_are() {
    let device = format!("net_af_packet{},iface=lo", number());
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: raw sockets need root");
        return;
    }
    let told = problem(&with(&device, |queues, _, _| *queues = 8));
    assert!(told.contains("`queues = 8`, but it has 1"), "{told}");
}

#[test]
fn checksums_of_a_device_that_has_none() {
    let name = || format!("net_null{}", number());
    let told = problem(&with(&name(), |_, rx, _| *rx = RxChecksum::Drop));
    assert!(
        told.contains("rx_checksum") && told.contains("net_null"),
        "{told}"
    );
    let told = problem(&with(&name(), |_, _, tx| *tx = TxChecksum::Fill));
    assert!(told.contains("tx_checksum"), "{told}");
}

#[test]
fn a_device_that_another_port_has() {
    let device = format!("net_null{}", number());
    let first = open_all(&[devices::port(&device)], HugePages::Never).unwrap();
    let told = problem(&[devices::port(&device)]);
    assert!(
        told.contains("another port of this process has it"),
        "{told}"
    );
    drop(first);
    open_all(&[devices::port(&device)], HugePages::Never).unwrap();
}

#[test]
fn a_pci_device_that_was_not_known_when_dpdk_was_set_up() {
    drop(open_all(
        &[devices::port(&format!("net_null{}", number()))],
        HugePages::Never,
    ));
    let told = problem(&[devices::port("ffff:ff:1f.7")]);
    assert!(told.contains("set up in this process without it"), "{told}");
}
