//! Whether an init system looks after the node: then starting and ending it is its business.

use std::path::Path;

use super::PROGRAMS;

/// Directories that contain units, in search order: the administrator's first (`systemd.unit(5)`).
pub const UNIT_DIRECTORIES: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
];

/// The units of the node, if systemd runs this machine and both are installed.
pub fn units() -> Option<String> {
    units_below(Path::new("/"))
}

fn units_below(root: &Path) -> Option<String> {
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let installed = |unit: &str| {
        UNIT_DIRECTORIES
            .iter()
            .any(|directory| below(directory).join(unit).exists())
    };
    // This directory exists if and only if systemd is the init system (`sd_booted(3)`).
    let booted = below("/run/systemd/system").is_dir();
    let units = PROGRAMS
        .each_ref()
        .map(|program| format!("{}.service", program.name));
    (booted && units.iter().all(|unit| installed(unit))).then(|| units.join(" "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_units_and_a_running_systemd_are_needed() {
        let root = tempfile::tempdir().expect("temporary directory");
        let units = root.path().join("etc/systemd/system");
        fs::create_dir_all(&units).expect("made");
        fs::write(units.join("covalentd.service"), "").expect("written");
        fs::create_dir_all(root.path().join("run/systemd/system")).expect("made");
        assert_eq!(units_below(root.path()), None);
        fs::write(units.join("covalent-control.service"), "").expect("written");
        assert_eq!(
            units_below(root.path()).as_deref(),
            Some("covalentd.service covalent-control.service")
        );
        fs::remove_dir(root.path().join("run/systemd/system")).expect("removed");
        assert_eq!(units_below(root.path()), None);
    }
}
