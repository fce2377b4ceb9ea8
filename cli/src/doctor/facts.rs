//! What the doctor looks at, gathered once and then only judged.

use std::{collections::BTreeSet, fs, os::unix::fs::FileTypeExt, path::Path};

use anyhow::{Context, Result};
use covalent_api::config::{Config, PortKind};
use covalent_ebpf::{AttachedProgram, attached_programs};
use nix::{
    sys::resource::{RLIM_INFINITY, Resource, getrlimit},
    unistd::Group,
};
use procfs::process::Process;

use super::holder::{self, Holder};
use crate::{client, cores, netlink};

const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// The machine and this process, whatever the configuration says.
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
    /// Cores that this process may run on.
    pub cores: BTreeSet<u32>,
    /// 2 MiB pages reserved and free.
    pub huge_pages_free: u64,
}

/// What the configuration names, as it is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The interfaces of AF_XDP ports, one for each such port, in the order of the file.
    pub interfaces: Vec<NamedInterface>,
    /// The node's two sockets.
    pub sockets: Vec<NamedSocket>,
    /// Whether the configured group exists; true if none is configured.
    pub group_exists: bool,
}

/// The interface of one AF_XDP port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedInterface {
    /// The port's name.
    pub port: String,
    /// The interface's configured name.
    pub interface: String,
    /// What the kernel says of it; `None` if there is no such interface.
    pub found: Option<netlink::Interface>,
    /// Its driver, for example `ice` or `veth`, where known.
    pub driver: Option<String>,
    /// The XDP programs attached to it.
    pub programs: Vec<HeldProgram>,
}

/// An XDP program on an interface, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldProgram {
    /// The program.
    pub program: AttachedProgram,
    /// The processes that hold it.
    pub holders: Vec<Holder>,
}

/// A Unix socket of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSocket {
    /// Its path.
    pub path: String,
    /// What is there.
    pub state: SocketState,
}

/// What is at a socket's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketState {
    /// Nothing.
    Absent,
    /// A socket on which somebody listens.
    Answers,
    /// A socket on which nobody listens.
    Stale,
    /// Something else than a socket.
    NotASocket,
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
            cores: cores::allowed()?,
            huge_pages_free: fs::read_to_string(format!("{HUGE_PAGES}/free_hugepages"))
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0),
        })
    }
}

/// Whether the BPF JIT is in the kernel, told by its setting. Only the machine's first network namespace shows that setting, and beside it
/// others of the same table: where those are missing too, nothing can be told, and nothing speaks against the JIT.
fn has_bpf_jit(settings: &Path) -> bool {
    let has = |name: &str| settings.join(name).exists();
    has("bpf_jit_enable") || !has("netdev_max_backlog")
}

impl Named {
    /// Looks at what `config` names.
    ///
    /// # Errors
    /// When netlink refuses.
    pub fn gather(config: &Config) -> Result<Self> {
        let known = netlink::interfaces()?;
        let interfaces = config
            .port
            .iter()
            .filter_map(|port| match &port.kind {
                PortKind::AfXdp { interface, .. } => Some((port, interface)),
                PortKind::Cable { .. } | PortKind::Dpdk { .. } | PortKind::Pcap { .. } => None,
            })
            .map(|(port, name)| -> Result<NamedInterface> {
                let found = known
                    .iter()
                    .find(|interface| interface.name == *name)
                    .cloned();
                Ok(NamedInterface {
                    port: port.name.clone(),
                    interface: name.clone(),
                    driver: found
                        .as_ref()
                        .and_then(|found| found.kind.clone())
                        .or_else(|| driver(name)),
                    programs: found
                        .as_ref()
                        .map(|found| programs(found.index))
                        .transpose()?
                        .unwrap_or_default(),
                    found,
                })
            })
            .collect::<Result<_>>()?;
        let sockets = [config.socket_path(), config.control_socket_path()];
        let group = &config.node.group;
        Ok(Self {
            interfaces,
            sockets: sockets
                .iter()
                .map(|path| NamedSocket {
                    path: path.display().to_string(),
                    state: socket_state(path),
                })
                .collect(),
            group_exists: group.is_empty()
                || Group::from_name(group).is_ok_and(|found| found.is_some()),
        })
    }
}

fn programs(interface: u32) -> Result<Vec<HeldProgram>> {
    let programs = attached_programs(interface)?;
    Ok(programs
        .into_iter()
        .map(|program| HeldProgram {
            holders: holder::of_program(program.id),
            program,
        })
        .collect())
}

fn driver(interface: &str) -> Option<String> {
    let link = fs::read_link(format!("/sys/class/net/{interface}/device/driver")).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

fn socket_state(path: &Path) -> SocketState {
    match fs::symlink_metadata(path) {
        Err(_) => SocketState::Absent,
        Ok(metadata) if !metadata.file_type().is_socket() => SocketState::NotASocket,
        Ok(_) if client::answers(path) => SocketState::Answers,
        Ok(_) => SocketState::Stale,
    }
}

/// Major and minor number of a release such as `6.1.0-28-amd64`; what cannot be read is 0.
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
    fn a_network_namespace_that_hides_the_jits_setting_does_not_speak_against_it() {
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
    fn this_machine_can_be_looked_at() {
        let machine = Machine::gather().expect("every Linux has /proc");
        assert!(machine.kernel.0 >= 4 && !machine.cores.is_empty());
    }

    #[test]
    fn what_is_at_a_sockets_path_is_told() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("node.sock");
        assert_eq!(socket_state(&path), SocketState::Absent);
        fs::write(&path, "").expect("written");
        assert_eq!(socket_state(&path), SocketState::NotASocket);
        fs::remove_file(&path).expect("removed");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        assert_eq!(socket_state(&path), SocketState::Stale);
    }
}
