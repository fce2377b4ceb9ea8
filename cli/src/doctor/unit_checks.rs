//! The installed units against the configuration.

use std::path::Path;

use covalent_config::Config;

use super::{
    facts::units::{Unit, Units},
    finding::Finding,
};

/// The directory that the unit makes for the sockets (`RuntimeDirectory=covalent`).
const OWN_DIRECTORY: &str = "/run/covalent";

/// Returns the findings for units that manage this node.
pub fn units(config: &Config, units: &Units) -> Vec<Finding> {
    let mut findings = Vec::new();
    if units.manage_the_node
        && let Some(unit) = &units.daemon
    {
        findings.push(daemon(config, unit));
    }
    let sockets = units.sockets.iter();
    findings.extend(sockets.filter_map(|unit| socket(config, unit, units.manage_the_node)));
    findings
}

/// Whether the daemon of the unit may write where its sockets are to be.
fn daemon(config: &Config, unit: &Unit) -> Finding {
    let check = format!("unit {}", unit.path);
    let directory = &config.node.runtime_dir;
    let writable = unit
        .values("ReadWritePaths")
        .into_iter()
        .flat_map(str::split_whitespace);
    let mut writable = writable.map(|path| path.trim_start_matches(['-', '+']));
    if directory.starts_with(OWN_DIRECTORY)
        || unit.value("ProtectSystem") != Some("strict")
        || writable.any(|path| directory.starts_with(path))
    {
        return Finding::fine(check, "may write to node.runtime_dir");
    }
    let directory = directory.display();
    Finding::failed(
        check,
        format!("may not write to node.runtime_dir = \"{directory}\" (ProtectSystem=strict)"),
        format!(
            "systemctl edit covalentd, and there: [Service] ReadWritePaths={directory}; or \
             node.runtime_dir = \"{OWN_DIRECTORY}\""
        ),
    )
}

/// Checks whether a socket that systemd creates is the node's, and admits its group. Ignores
/// sockets of other programs, and unless `must_be` also those of other nodes.
fn socket(config: &Config, unit: &Unit, must_be: bool) -> Option<Finding> {
    let path = unit.value("ListenSequentialPacket")?;
    let check = format!("unit {}", unit.path);
    let wanted = config.socket_path();
    if Path::new(path) != wanted && !must_be {
        return None;
    }
    if Path::new(path) != wanted {
        let wanted = wanted.display();
        return Some(Finding::failed(
            check,
            format!("listens at {path}, but the configuration has applications look at {wanted}"),
            format!(
                "ListenSequentialPacket={wanted} there, or another node.runtime_dir; then: \
                 systemctl daemon-reload"
            ),
        ));
    }
    let group = &config.node.group;
    let mode = unit.value("SocketMode").unwrap_or("0666");
    let bits = u32::from_str_radix(mode, 8).unwrap_or(0);
    let of_group = unit.value("SocketGroup").unwrap_or("root");
    let admits_group = if of_group == group {
        bits & 0o020 != 0
    } else {
        bits & 0o002 != 0
    };
    if group.is_empty() || admits_group {
        return Some(Finding::fine(
            check,
            format!("{path}, mode {mode}, group {of_group}"),
        ));
    }
    // The daemon gives it to the group when it starts.
    Some(Finding::warning(
        check,
        format!(
            "members of node.group = \"{group}\" do not get into {path} before the daemon has \
             started: its mode is {mode}, its group {of_group}"
        ),
        format!(
            "SocketGroup={group} and SocketMode=0660 there; then: systemctl daemon-reload && \
             systemctl restart {}",
            unit.name()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Level, samples},
        *,
    };

    fn judge(
        change: impl FnOnce(&mut Config),
        service: &str,
        socket: Option<&str>,
    ) -> Vec<Finding> {
        let mut config = samples::cable_config();
        change(&mut config);
        units(
            &config,
            &Units {
                manage_the_node: true,
                hold_the_socket: false,
                daemon: Some(Unit::sample(
                    "/usr/lib/systemd/system/covalentd.service",
                    service,
                )),
                sockets: socket
                    .map(|text| Unit::sample("/etc/systemd/system/covalentd.socket", text))
                    .into_iter()
                    .collect(),
            },
        )
    }

    const STRICT: &str = "[Service]\nProtectSystem=strict\n";

    #[test]
    fn a_runtime_directory_that_the_unit_may_not_write_is_reported() {
        assert_eq!(judge(|_| {}, STRICT, None)[0].level, Level::Fine);
        let elsewhere = |config: &mut Config| config.node.runtime_dir = "/srv/node".into();
        let judged = &judge(elsewhere, STRICT, None)[0];
        assert!(judged.level == Level::Failed && judged.cure.contains("ReadWritePaths=/srv/node"));
        let named = format!("{STRICT}ReadWritePaths=/tmp -/srv\n");
        assert_eq!(judge(elsewhere, &named, None)[0].level, Level::Fine);
    }

    #[test]
    fn the_units_own_file_is_no_obstacle_to_the_example() {
        let service = include_str!("../../../configs/covalentd.service");
        let findings = judge(|_| {}, service, None);
        assert!(
            findings.iter().all(|it| it.level == Level::Fine),
            "{findings:?}"
        );
    }

    #[test]
    fn a_socket_must_be_the_nodes_and_admit_its_group() {
        let text = |more: &str| {
            format!("[Socket]\nListenSequentialPacket=/run/covalent/covalentd.sock\n{more}")
        };
        let level = |group: &str, more: &str| {
            let set = |config: &mut Config| config.node.group = group.into();
            judge(set, STRICT, Some(&text(more)))[1].level
        };
        assert_eq!(level("", "SocketMode=0600"), Level::Fine);
        assert_eq!(level("g", ""), Level::Fine);
        assert_eq!(level("g", "SocketMode=0660"), Level::Warning);
        assert_eq!(level("g", "SocketMode=0660\nSocketGroup=g"), Level::Fine);
        let elsewhere = |config: &mut Config| config.node.runtime_dir = "/run/covalent/b".into();
        let judged = &judge(elsewhere, STRICT, Some(&text("")))[1];
        assert!(
            judged.level == Level::Failed
                && judged.found.contains("/run/covalent/b/covalentd.sock")
        );
    }
}
