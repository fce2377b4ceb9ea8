//! How much memory the control groups of this process leave it.
//!
//! `fallocate` beyond the limit of a control group does not fail: the kernel kills a process of the
//! group. So the limit is checked before memory is made.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Reserve for other charges of the group: page tables, sockets, other requests.
const RESERVE_BYTES: u64 = 16 << 20;

/// Page tables take one byte for each 512, in each of two mappings.
const BYTES_PER_TABLE_BYTE: u64 = 256;

/// Version 1 has such a number where there is no limit.
const NO_LIMIT: u64 = 1 << 62;

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// The names of a version's files.
struct Names {
    limit: &'static str,
    usage: &'static str,
    /// Fields of `memory.stat` that the kernel reclaims before it kills.
    reclaimed: [&'static str; 2],
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimed: ["total_inactive_file", "total_active_file"],
};

const VERSION_2: Names = Names {
    limit: "memory.max",
    usage: "memory.current",
    reclaimed: ["inactive_file", "active_file"],
};

/// A control group whose limit the allocation would exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub(crate) group: String,
    pub(crate) room_bytes: u64,
}

/// Returns the group with the least free memory among those whose limit `bytes` more would exceed.
/// A limit that cannot be read is ignored.
pub(crate) fn exceeded_by(bytes: u64) -> Option<Exceeded> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let needed = bytes.saturating_add(bytes / BYTES_PER_TABLE_BYTE);
    tightest(Path::new(ROOT), &groups, needed)
}

/// As [`exceeded_by`], of the groups in `groups` (`/proc/self/cgroup`) and their ancestors.
fn tightest(root: &Path, groups: &str, needed: u64) -> Option<Exceeded> {
    let exceeded = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let (hierarchy, names) = if controllers.is_empty() {
            (root.to_owned(), &VERSION_2)
        } else if controllers.split(',').any(|name| name == "memory") {
            (root.join("memory"), &VERSION_1)
        } else {
            return None;
        };
        least_space(&hierarchy, group, names, needed)
    });
    exceeded.min_by_key(|exceeded| exceeded.room_bytes)
}

fn least_space(hierarchy: &Path, group: &str, names: &Names, needed: u64) -> Option<Exceeded> {
    let within = Path::new(group.trim_start_matches('/'));
    let exceeded = within.ancestors().filter_map(|group| {
        let room_bytes = too_little_space(&hierarchy.join(group), names, needed)?;
        Some(Exceeded {
            group: format!("/{}", group.display()),
            room_bytes,
        })
    });
    exceeded.min_by_key(|exceeded| exceeded.room_bytes)
}

/// Returns the free memory below the limit of one group, if it is less than `needed`.
fn too_little_space(group: &Path, names: &Names, needed: u64) -> Option<u64> {
    let limit = read_number(group.join(names.limit)).filter(|&limit| limit < NO_LIMIT)?;
    let usage = read_number(group.join(names.usage))?;
    let room = |used| limit.saturating_sub(used).saturating_sub(RESERVE_BYTES);
    if needed <= room(usage) {
        // Without `memory.stat`, which takes the kernel long to add up.
        return None;
    }
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let fields = stat.lines().filter_map(|line| line.split_once(' '));
    let reclaimed: u64 = fields
        .filter(|(name, _)| names.reclaimed.contains(name))
        .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
        .sum();
    let room_bytes = room(usage.saturating_sub(reclaimed));
    (needed > room_bytes).then_some(room_bytes)
}

/// A number; `None` for `max` too.
fn read_number(path: PathBuf) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MIB: u64 = 1 << 20;

    fn group(root: &Path, path: &str, files: &[(&str, &str)]) {
        let place = root.join(path);
        fs::create_dir_all(&place).unwrap();
        for (name, text) in files {
            fs::write(place.join(name), text).unwrap();
        }
    }

    fn mib(count: u64) -> String {
        format!("{}\n", count * MIB)
    }

    #[test]
    fn the_tightest_of_a_group_and_its_ancestors_counts() {
        let root = tempfile::tempdir().unwrap();
        let (limit, usage) = ("memory.max", "memory.current");
        group(root.path(), "", &[("memory.stat", "")]);
        group(root.path(), "a", &[(limit, &mib(100)), (usage, &mib(60))]);
        group(root.path(), "a/b", &[(limit, "max\n"), (usage, &mib(50))]);
        group(
            root.path(),
            "a/b/c",
            &[(limit, &mib(90)), (usage, &mib(10))],
        );
        let tight = |groups| {
            let exceeded = tightest(root.path(), groups, 25 * MIB);
            exceeded.map(|it| (it.group, it.room_bytes / MIB))
        };
        assert_eq!(tight("0::/a/b/c\n"), Some(("/a".to_owned(), 24)));
        assert_eq!(tight("1:name=x:/\n0::/a/b\n"), Some(("/a".to_owned(), 24)));
        assert_eq!(
            (tight("0::/\n"), tight("0::/gone\n"), tight("")),
            (None, None, None)
        );
    }

    #[test]
    fn memory_that_the_kernel_reclaims_first_counts_as_free() {
        let root = tempfile::tempdir().unwrap();
        let stat = format!(
            "cache 1\ntotal_inactive_file {}total_active_file 0\n",
            mib(30)
        );
        let limit = ("memory.limit_in_bytes", mib(100));
        let usage = ("memory.usage_in_bytes", mib(95));
        group(
            root.path(),
            "memory/x",
            &[
                (limit.0, &limit.1),
                (usage.0, &usage.1),
                ("memory.stat", &stat),
            ],
        );
        let found = tightest(root.path(), "8:pids:/x\n4:cpu,memory:/x\n", 20 * MIB).unwrap();
        assert_eq!((found.group.as_str(), found.room_bytes), ("/x", 19 * MIB));
        assert_eq!(tightest(root.path(), "4:memory:/x\n", 19 * MIB), None);
    }

    #[test]
    fn a_group_beyond_its_limit_has_no_space() {
        let root = tempfile::tempdir().unwrap();
        let files = [("memory.max", mib(10)), ("memory.current", mib(12))];
        group(
            root.path(),
            "x",
            &files.each_ref().map(|(name, text)| (*name, text.as_str())),
        );
        assert_eq!(tightest(root.path(), "0::/x", 1).unwrap().room_bytes, 0);
    }
}
