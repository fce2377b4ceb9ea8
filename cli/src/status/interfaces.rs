//! The network interfaces of a node, as its control process follows them.

use std::{path::Path, time::Duration};

use covalent_api::{
    MAX_DATAGRAM_BYTES,
    control::{Channels, ControlReply, ControlRequest, InterfaceStatus, XdpProgram},
    datagram,
};
use covalent_ipc::seqpacket::Connection;

use crate::output::{Cell, Color, Table, Theme, column, wide};

/// How long control may take. It looks at the interfaces once more before it answers.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns the interfaces known to the control process at `socket`; empty if it does not reply. A
/// node's status does not depend on control.
pub fn of_control(socket: &Path) -> Vec<InterfaceStatus> {
    query(socket).unwrap_or_default()
}

fn query(socket: &Path) -> Option<Vec<InterfaceStatus>> {
    let connection = Connection::connect_timeout(socket, PATIENCE).ok()?;
    let request = datagram::encode(&ControlRequest::Interfaces).ok()?;
    connection.send(&request, &[]).ok()?;
    if !connection.wait(Some(PATIENCE)).ok()? {
        return None;
    }
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let (length, _) = connection.recv(&mut buffer).ok()?;
    match datagram::decode(&buffer[..length]).ok()? {
        ControlReply::Interfaces { interfaces } => Some(interfaces),
        _ => None,
    }
}

/// One line for each interface.
pub fn table(theme: Theme, interfaces: &[InterfaceStatus]) -> Table {
    let mut table = theme.new_table([
        column("interface"),
        column("port"),
        column("state"),
        column("driver"),
        wide("address"),
        column("MTU"),
        column("channels"),
        column("XDP programs"),
        wide("features"),
    ]);
    for it in interfaces {
        let (state, color) = match (it.index, it.admin_up, it.carrier) {
            (None, ..) => ("absent", Color::Red),
            (_, false, _) => ("set down", Color::Red),
            (_, _, false) => ("no carrier", Color::Red),
            _ => ("up", Color::Green),
        };
        let mtu = it.index.map(|_| format!("{} B", it.mtu_bytes));
        table.add_row([
            Cell::new(&it.interface),
            Cell::new(&it.port),
            theme.cell(state, color),
            or_dash(it.driver.clone()),
            or_dash(it.address.clone()),
            or_dash(mtu),
            or_dash(it.channels.as_ref().map(channels)),
            or_dash(programs(&it.programs)),
            or_dash(it.features.as_ref().and_then(|names| joined(names))),
        ]);
    }
    table
}

fn or_dash(text: Option<String>) -> Cell {
    Cell::new(text.unwrap_or_else(|| "–".to_owned()))
}

fn joined(texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// For example `2 of 4 combined`, or `1 of 8 rx, 1 of 8 tx`.
fn channels(channels: &Channels) -> String {
    let kinds = [
        (channels.combined, channels.combined_max, "combined"),
        (channels.rx, channels.rx_max, "rx"),
        (channels.tx, channels.tx_max, "tx"),
    ];
    let texts: Vec<String> = kinds
        .iter()
        .filter(|(_, most, _)| *most > 0)
        .map(|(count, most, kind)| format!("{count} of {most} {kind}"))
        .collect();
    texts.join(", ")
}

fn programs(programs: &[XdpProgram]) -> Option<String> {
    let texts: Vec<String> = programs
        .iter()
        .map(|program| format!("{} {}", program.mode, program.id))
        .collect();
    joined(&texts)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::output::walk;

    /// The widest interface.
    pub fn widest() -> InterfaceStatus {
        InterfaceStatus {
            port: walk::NAME.into(),
            interface: walk::INTERFACE.into(),
            channels: Some(Channels {
                combined: 128,
                combined_max: 128,
                rx: 128,
                rx_max: 128,
                tx: 128,
                tx_max: 128,
            }),
            ..interface()
        }
    }

    fn interface() -> InterfaceStatus {
        InterfaceStatus {
            port: "p0".into(),
            interface: "eth1".into(),
            index: Some(3),
            admin_up: true,
            carrier: true,
            mtu_bytes: 1500,
            brought_up: false,
            address: Some("02:00:00:00:00:01".into()),
            driver: Some("ice".into()),
            programs: vec![XdpProgram {
                mode: "native".into(),
                id: 42,
            }],
            channels: Some(Channels {
                combined: 2,
                combined_max: 16,
                ..Channels::default()
            }),
            features: Some(vec!["rx-vlan-hw-parse".into()]),
        }
    }

    #[test]
    fn everything_that_is_known_of_an_interface_is_shown() {
        let text = table(Theme::PLAIN, &[interface()]).to_string();
        for wanted in [
            "eth1",
            "p0",
            "up",
            "ice",
            "02:00:00:00:00:01",
            "1500 B",
            "2 of 16 combined",
            "native 42",
            "rx-vlan-hw-parse",
        ] {
            assert!(text.contains(wanted), "`{wanted}` is missing in:\n{text}");
        }
        let veth = Channels {
            rx: 1,
            rx_max: 4,
            tx: 2,
            tx_max: 4,
            ..Channels::default()
        };
        assert_eq!(channels(&veth), "1 of 4 rx, 2 of 4 tx");
    }

    #[test]
    fn an_interface_that_is_not_there_is_called_absent() {
        let absent = InterfaceStatus {
            index: None,
            admin_up: false,
            carrier: false,
            ..interface()
        };
        let text = table(Theme::PLAIN, &[absent]).to_string();
        assert!(text.contains("absent") && !text.contains("1500"), "{text}");
    }

    #[test]
    fn where_no_control_answers_nothing_is_shown() {
        let directory = tempfile::tempdir().expect("temporary directory");
        assert_eq!(of_control(&directory.path().join("control.sock")), []);
    }
}
