//! `[dpdk]`: settings shared by all ports of the kind `dpdk`.

use serde::Serialize;

use super::table::Table;

/// EAL options of DPDK that the daemon sets itself, and the replacement for each.
const OURS: [(&str, &str); 14] = [
    ("-a", "name the device in a `[[port]]`"),
    ("--allow", "name the device in a `[[port]]`"),
    ("--vdev", "name the device in a `[[port]]`"),
    ("-l", "lanes are the daemon's own threads: `[[lane]] core`"),
    ("-c", "lanes are the daemon's own threads: `[[lane]] core`"),
    (
        "--lcores",
        "lanes are the daemon's own threads: `[[lane]] core`",
    ),
    (
        "--main-lcore",
        "lanes are the daemon's own threads: `[[lane]] core`",
    ),
    ("-m", "set `memory_mib`"),
    ("--socket-mem", "set `memory_mib`"),
    ("--no-huge", "set `dataplane.huge_pages`"),
    ("--in-memory", "set `dataplane.huge_pages`"),
    (
        "--proc-type",
        "the daemon is a primary process and nothing else",
    ),
    ("--telemetry", "the daemon has its own metrics"),
    ("--file-prefix", "the daemon leaves no files behind"),
];

/// Settings shared by all DPDK ports. DPDK is initialized once for the process, and only if there
/// is such a port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DpdkConfig {
    /// Memory for packets and rings of all DPDK ports, in MiB, 64 to 1,048,576. 0 (the default): as
    /// much as the ports need.
    pub memory_mib: u32,
    /// Additional EAL arguments, appended to those of the daemon. None by default.
    pub eal_arguments: Vec<String>,
}

impl DpdkConfig {
    pub(super) fn read(table: &mut Table<'_, '_>) -> Self {
        let memory_mib = table
            .integer(
                "memory_mib",
                0..=1 << 20,
                " (MiB; 0 for as much as the ports need)",
            )
            .unwrap_or(0);
        if (1..64).contains(&memory_mib) {
            table.refuse(
                "memory_mib",
                "DPDK itself needs 64; expected that or more, or 0 for as much as the ports need",
            );
        }
        let eal_arguments = table
            .texts("eal_arguments", "an argument of DPDK's environment layer")
            .unwrap_or_default();
        for argument in &eal_arguments {
            if let Some(message) = refusal(argument) {
                table.refuse("eal_arguments", message);
            }
        }
        Self {
            memory_mib,
            eal_arguments,
        }
    }
}

/// Why an argument is not for the file to set.
fn refusal(argument: &str) -> Option<String> {
    if argument.is_empty() || argument.contains(['\0', '\n']) {
        return Some(format!("{argument:?} is no argument"));
    }
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    let instead = OURS
        .iter()
        .find_map(|(ours, instead)| (*ours == name).then_some(instead))?;
    Some(format!("`{name}` is the daemon's to set: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_the_daemon_sets_are_refused_with_an_alternative() {
        assert!(refusal("--proc-type=secondary").is_some_and(|advice| advice.contains("primary")));
        assert!(refusal("-a").is_some_and(|advice| advice.contains("[[port]]")));
        assert!(refusal("").is_some() && refusal("a\0").is_some());
        assert_eq!(refusal("--log-level=pmd.net.memif:debug"), None);
        assert_eq!(refusal("-n4"), None);
    }
}
