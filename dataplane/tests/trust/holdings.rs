//! The resources that a daemon holds, as the system sees them from outside.

use std::{fs, os::fd::RawFd, path::Path};

/// Memory of the ports that the daemon may have touched for the first time, in KiB.
const TOUCHED_KIB: u64 = 4 * 1024;
/// Memory that may stay with the daemon's allocator, in KiB.
const ALLOCATOR_KIB: u64 = 4 * 1024;

/// Values that must be the same again when all applications are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holdings {
    /// Open descriptors.
    pub descriptors: usize,
    /// Mappings of shared memory.
    pub mappings: usize,
    /// Resident shared memory, in KiB.
    pub shared_kib: u64,
    /// Resident memory, in KiB.
    pub resident_kib: u64,
    /// Rules in the maps of the XDP program; 0 without one, and where this process may not look.
    pub rules: usize,
}

impl Holdings {
    /// Returns the holdings of process `pid`.
    pub fn of(pid: u32) -> Self {
        let proc = Path::new("/proc").join(pid.to_string());
        let maps = fs::read_to_string(proc.join("maps")).expect("the daemon runs");
        let rollup = fs::read_to_string(proc.join("smaps_rollup")).expect("the daemon runs");
        let kib = |field: &str| -> u64 {
            let line = rollup.lines().find_map(|line| line.strip_prefix(field));
            let digits = line.expect("a field of smaps_rollup").trim();
            digits.trim_end_matches(" kB").parse().expect("a number")
        };
        Self {
            descriptors: fs::read_dir(proc.join("fd"))
                .expect("the daemon runs")
                .count(),
            mappings: maps.matches("memfd:").count(),
            shared_kib: kib("Pss_Shmem:"),
            resident_kib: kib("Rss:"),
            rules: rules(&proc),
        }
    }
}

impl Holdings {
    /// Whether this is no more than `before`, except for memory that the ports may have touched and
    /// the allocator may keep.
    pub fn is_no_more_than(self, before: Self) -> bool {
        self.descriptors <= before.descriptors
            && self.mappings == before.mappings
            && self.rules == before.rules
            && self.shared_kib <= before.shared_kib + TOUCHED_KIB
            && self.resident_kib <= before.resident_kib + TOUCHED_KIB + ALLOCATOR_KIB
    }
}

/// Counts the entries of the hash maps and tries that the process holds: there are the rules.
fn rules(proc: &Path) -> usize {
    let infos = fs::read_dir(proc.join("fdinfo")).expect("the daemon runs");
    let mut rules = 0;
    for info in infos.flatten() {
        let Ok(text) = fs::read_to_string(info.path()) else {
            continue;
        };
        let field = |name: &str| -> Option<u32> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().parse().ok()
        };
        // BPF_MAP_TYPE_HASH and BPF_MAP_TYPE_LPM_TRIE.
        if let (Some(1 | 11), Some(key_bytes), Some(id)) =
            (field("map_type"), field("key_size"), field("map_id"))
        {
            rules += entries(id, key_bytes as usize);
        }
    }
    rules
}

/// Commands of bpf(2).
const BPF_MAP_GET_NEXT_KEY: libc::c_int = 4;
const BPF_MAP_GET_FD_BY_ID: libc::c_int = 14;

/// The fields of `union bpf_attr` that both commands take.
#[repr(C)]
struct Attributes {
    id_or_fd: u32,
    _unused: u32,
    key: u64,
    next_key: u64,
}

fn bpf(command: libc::c_int, attributes: &mut Attributes) -> Option<libc::c_long> {
    // SAFETY: `attributes` is a live, zero-extended prefix of `union bpf_attr` of the given size.
    // The keys that it names live in the caller and are as long as the map's keys.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<Attributes>(),
        )
    };
    (result >= 0).then_some(result)
}

fn entries(id: u32, key_bytes: usize) -> usize {
    use std::os::fd::{FromRawFd, OwnedFd};
    let mut attributes = Attributes {
        id_or_fd: id,
        _unused: 0,
        key: 0,
        next_key: 0,
    };
    let Some(fd) = bpf(BPF_MAP_GET_FD_BY_ID, &mut attributes) else {
        return 0;
    };
    // SAFETY: The kernel has just created this descriptor, and no other code has it.
    let map = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    let (mut key, mut next) = (vec![0_u8; key_bytes], vec![0_u8; key_bytes]);
    let mut count = 0;
    loop {
        let mut attributes = Attributes {
            id_or_fd: std::os::fd::AsRawFd::as_raw_fd(&map) as u32,
            _unused: 0,
            key: if count == 0 { 0 } else { key.as_ptr() as u64 },
            next_key: next.as_mut_ptr() as u64,
        };
        if bpf(BPF_MAP_GET_NEXT_KEY, &mut attributes).is_none() {
            return count;
        }
        key.copy_from_slice(&next);
        count += 1;
    }
}
