//! The owners of an attached XDP program.

use std::{fs, path::Path};

/// A process that holds a BPF program or an attachment of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Name of the program that it runs.
    pub name: String,
}

/// Returns the processes that hold the BPF program `id`, directly or through an attachment. The
/// kernel shows this only to their owner and to root. A program that was attached over netlink by
/// an exited loader has no holder.
pub fn of_program(id: u32) -> Vec<Holder> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| holds(pid, id))
        .map(|pid| Holder {
            pid,
            name: fs::read_to_string(format!("/proc/{pid}/comm"))
                .unwrap_or_default()
                .trim()
                .to_owned(),
        })
        .collect()
}

fn holds(pid: u32, program: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|descriptors| {
        descriptors
            .filter_map(Result::ok)
            .filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| is_of_bpf(&target)))
            .filter_map(|entry| {
                let name = entry.file_name();
                let name = name.to_str()?;
                fs::read_to_string(format!("/proc/{pid}/fdinfo/{name}")).ok()
            })
            .any(|description| program_id(&description) == Some(program))
    })
}

/// Returns whether a descriptor is a BPF object, from its link target (`anon_inode:bpf_link`,
/// `anon_inode:bpf-prog`). A machine has too many descriptors to read the details of each in time.
fn is_of_bpf(target: &Path) -> bool {
    target
        .to_str()
        .is_some_and(|target| target.starts_with("anon_inode:") && target.contains("bpf"))
}

/// The program that a descriptor is about, from its `fdinfo`.
fn program_id(description: &str) -> Option<u32> {
    description
        .lines()
        .find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_and_a_program_have_a_program_and_other_descriptors_none() {
        let link = "pos:\t0\nflags:\t02000000\nmnt_id:\t15\nino:\t9\nlink_type:\txdp\nlink_id:\t3\nprog_tag:\tabc\nprog_id:\t42\nifindex:\t7\n";
        assert_eq!(program_id(link), Some(42));
        assert_eq!(program_id("pos:\t0\nflags:\t02\n"), None);
    }

    #[test]
    fn only_descriptors_of_bpf_objects_are_described() {
        for (target, is) in [
            ("anon_inode:bpf_link", true),
            ("anon_inode:bpf-prog", true),
            ("anon_inode:[eventpoll]", false),
            ("/home/bpf/notes", false),
            ("socket:[4711]", false),
        ] {
            assert_eq!(is_of_bpf(Path::new(target)), is, "{target}");
        }
    }
}
