//! Ports that cannot be opened are refused with a remedy.

use covalent_config::{HugePages, PortConfig, PortKind, RxChecksum, TxChecksum};

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
    let refusal = problem(&[devices::port(&format!("net_nonsense{}", number()))]);
    assert!(
        refusal.contains("net_nonsense") && refusal.contains("cure:"),
        "{refusal}"
    );
    let refusal = problem(&[devices::port("net_af_packet9,iface=nowhere9")]);
    assert!(refusal.contains("no interface `nowhere9`"), "{refusal}");
}

#[test]
fn more_queues_than_there_are() {
    let device = format!("net_af_packet{},iface=lo", number());
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: raw sockets need root");
        return;
    }
    let refusal = problem(&with(&device, |queues, _, _| *queues = 8));
    assert!(refusal.contains("`queues = 8`, but it has 1"), "{refusal}");
}

#[test]
fn checksums_on_a_device_without_checksum_offload() {
    let name = || format!("net_null{}", number());
    let refusal = problem(&with(&name(), |_, rx, _| *rx = RxChecksum::Drop));
    assert!(
        refusal.contains("rx_checksum") && refusal.contains("net_null"),
        "{refusal}"
    );
    let refusal = problem(&with(&name(), |_, _, tx| *tx = TxChecksum::Fill));
    assert!(refusal.contains("tx_checksum"), "{refusal}");
}

#[test]
fn a_device_held_by_another_port() {
    let device = format!("net_null{}", number());
    let first = open_all(&[devices::port(&device)], HugePages::Never).unwrap();
    let refusal = problem(&[devices::port(&device)]);
    assert!(
        refusal.contains("another port of this process has it"),
        "{refusal}"
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
    let refusal = problem(&[devices::port("ffff:ff:1f.7")]);
    assert!(
        refusal.contains("set up in this process without it"),
        "{refusal}"
    );
}
