//! Owners of the XDP programs on an interface.

use std::fmt;

use aya::programs::{loaded_links, loaded_programs};

use crate::{EbpfError, interface, mode::AttachPoint};

/// An XDP program on an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedProgram {
    /// The kernel's id, as `bpftool prog show id` takes it.
    pub id: u32,
    /// Its name, at most 15 bytes. `None` if the kernel does not report it (this needs
    /// CAP_SYS_ADMIN).
    pub name: Option<String>,
    /// Where on the interface it runs.
    pub at: AttachPoint,
    /// The `bpf_link`s that hold it, on this and other interfaces. Empty if it was attached without
    /// one, or if the kernel does not report them (this needs CAP_SYS_ADMIN).
    pub link_ids: Vec<u32>,
}

impl AttachedProgram {
    /// The command that removes it from `interface`.
    #[must_use]
    pub fn how_to_detach(&self, interface: &str) -> String {
        match self.link_ids[..] {
            [] => format!(
                "if no program needs it, run `ip link set dev {interface} {} off`",
                self.at.ip_keyword()
            ),
            [link] => format!(
                "`bpftool link show id {link}` names the processes that hold it: stop them, or run \
                 `bpftool link \
                 detach id {link}`"
            ),
            _ => format!(
                "it is on several interfaces: `bpftool link show` shows which attachment holds it \
                 on {interface}"
            ),
        }
    }
}

impl fmt::Display for AttachedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "`{name}` (program id {}, {} mode)", self.id, self.at),
            None => write!(
                f,
                "program id {} ({} mode; its name needs CAP_SYS_ADMIN)",
                self.id, self.at
            ),
        }
    }
}

/// Returns the XDP programs on the interface with this index in the caller's network namespace:
/// none, one, or one for each [`AttachPoint`]. Finding them needs no privilege. Their names need
/// CAP_SYS_ADMIN.
///
/// # Errors
/// [`EbpfError::NoSuchInterface`], or [`EbpfError::Kernel`] if rtnetlink fails.
pub fn attached_programs(ifindex: u32) -> Result<Vec<AttachedProgram>, EbpfError> {
    let interface = interface::query(ifindex)
        .map_err(|source| EbpfError::Kernel {
            action: "querying rtnetlink for the interface's XDP programs",
            source,
        })?
        .ok_or(EbpfError::NoSuchInterface {
            interface: String::new(),
            ifindex,
        })?;
    Ok(interface
        .programs
        .into_iter()
        .map(|(at, id)| describe(at, id))
        .collect())
}

/// Looks up name and attachments. Both may appear and disappear meanwhile, so unreadable ones are
/// skipped.
pub(crate) fn describe(at: AttachPoint, id: u32) -> AttachedProgram {
    let program = loaded_programs()
        .filter_map(Result::ok)
        .find(|program| program.id() == id);
    let links = loaded_links()
        .filter_map(Result::ok)
        .filter(|link| link.program_id() == id);
    AttachedProgram {
        id,
        name: program.and_then(|program| program.name_as_str().map(str::to_owned)),
        at,
        link_ids: links.map(|link| link.id()).collect(),
    }
}
