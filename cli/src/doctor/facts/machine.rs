//! The machine and this process, independent of the configuration.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use procfs::process::Process;

use crate::cores;

/// The directory where the kernel reports the numbers of huge pages, with one subdirectory for each
/// size.
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";

/// The machine and this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Version of the kernel.
    pub kernel: (u32, u32),
    /// Whether the kernel has AF_XDP.
    pub af_xdp: bool,
    /// Whether the kernel has BPF with its JIT.
    pub bpf_jit: bool,
    /// Effective capabilities of this process, one bit each (`capabilities(7)`).
    pub capabilities: u64,
    /// How much memory this process may lock, in bytes; `None` for no limit.
    pub memlock_bytes: Option<u64>,
    /// How many descriptors this process may raise its limit to.
    pub descriptors_max: u64,
    /// Cores that this process may run on.
    pub cores: BTreeSet<u32>,
    /// Cores that the scheduler leaves alone (`isolcpus=`).
    pub isolated: BTreeSet<u32>,
    /// 2 MiB pages reserved and free.
    pub huge_pages_free: u64,
    /// 1 GiB pages reserved and free.
    pub giant_pages_free: u64,
    /// Available memory, in bytes; `None` if unknown.
    pub available_bytes: Option<u64>,
}

impl Machine {
    /// Looks at this machine.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn gather() -> Result<Self> {
        let status = Process::myself()
            .and_then(|own| own.status())
            .context("cannot read /proc/self/status")?;
        let (memlock, _) = getrlimit(Resource::RLIMIT_MEMLOCK)
            .context("cannot read the limit on locked memory")?;
        let (_, descriptors_max) =
            getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit on descriptors")?;
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Ok(Self {
            kernel: kernel_version(
                nix::sys::utsname::uname()?
                    .release()
                    .to_string_lossy()
                    .as_ref(),
            ),
            af_xdp: fs::read_to_string("/proc/net/protocols").is_ok_and(|text| lists_af_xdp(&text)),
            bpf_jit: has_bpf_jit(Path::new("/proc/sys/net/core")),
            capabilities: status.capeff,
            memlock_bytes: (memlock != RLIM_INFINITY).then_some(memlock),
            descriptors_max,
            cores: cores::allowed()?,
            isolated: fs::read_to_string("/sys/devices/system/cpu/isolated")
                .map(|text| core_list(&text))
                .unwrap_or_default(),
            huge_pages_free: free_pages("hugepages-2048kB"),
            giant_pages_free: free_pages("hugepages-1048576kB"),
            available_bytes: available_bytes(&meminfo),
        })
    }
}

/// Pages of one size that are reserved and free.
fn free_pages(size: &str) -> u64 {
    fs::read_to_string(format!("{HUGE_PAGES}/{size}/free_hugepages"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// `MemAvailable` of `/proc/meminfo`.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Parses a list of cores as the kernel writes it: `0-3,8`. Omits malformed parts.
fn core_list(text: &str) -> BTreeSet<u32> {
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

/// Returns whether the kernel has the BPF JIT, from the existence of its setting. Only the first
/// network namespace shows that setting and others of the same table. If those are missing too, the
/// answer is unknown and the JIT is assumed.
fn has_bpf_jit(settings: &Path) -> bool {
    let has = |name: &str| settings.join(name).exists();
    has("bpf_jit_enable") || !has("netdev_max_backlog")
}

/// Returns the major and minor number of a release such as `6.1.0-28-amd64`. A malformed number is
/// 0.
fn kernel_version(release: &str) -> (u32, u32) {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|digits| digits.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Whether `/proc/net/protocols` lists the protocol that AF_XDP registers under the name `XDP`.
fn lists_af_xdp(protocols: &str) -> bool {
    protocols
        .lines()
        .any(|line| line.split_whitespace().next() == Some("XDP"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_hides_the_jit_setting_is_no_finding() {
        let settings = tempfile::tempdir().expect("temporary directory");
        assert!(has_bpf_jit(settings.path()), "as in another namespace");
        fs::write(settings.path().join("netdev_max_backlog"), "1000").expect("written");
        assert!(!has_bpf_jit(settings.path()), "as in a kernel without it");
        fs::write(settings.path().join("bpf_jit_enable"), "1").expect("written");
        assert!(has_bpf_jit(settings.path()));
    }

    #[test]
    fn kernel_releases_of_several_makers_are_read() {
        assert_eq!(kernel_version("6.1.0-28-amd64"), (6, 1));
        assert_eq!(kernel_version("6.18.44-fc"), (6, 18));
        assert_eq!(kernel_version("5.15"), (5, 15));
        assert_eq!(kernel_version("strange"), (0, 0));
    }

    #[test]
    fn lists_of_cores_and_amounts_of_memory_are_read() {
        assert_eq!(core_list("0-2,8\n"), [0, 1, 2, 8].into());
        assert_eq!(core_list("\n"), BTreeSet::new());
        let meminfo = "MemTotal:  8 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available_bytes(meminfo), Some(2 << 20));
        assert_eq!(available_bytes("MemTotal: 8 kB\n"), None);
    }

    #[test]
    fn af_xdp_is_seen_in_the_kernels_own_list() {
        let header = "protocol  size sockets  memory press maxhdr  slab module\n";
        assert!(lists_af_xdp(&format!(
            "{header}XDP  960  0  -1  NI  0  no  kernel\n"
        )));
        assert!(!lists_af_xdp(&format!(
            "{header}XDPLIKE  960  0\nTCP 2304 0\n"
        )));
    }

    #[test]
    fn this_machine_can_be_inspected() {
        let machine = Machine::gather().expect("every Linux has /proc");
        assert!(machine.kernel.0 >= 4 && !machine.cores.is_empty());
    }
}
