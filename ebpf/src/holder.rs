//! The owners of an attached XDP program.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The program name of the dataplane.
const DAEMON: &str = "covalentd";

/// A process that holds a BPF program or an attachment of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Name of the program that it runs.
    pub name: String,
}

impl Holder {
    /// Whether it is the dataplane of a node.
    #[must_use]
    pub fn is_daemon(&self) -> bool {
        self.name == DAEMON
    }

    /// The configuration file that a dataplane was started with. `None` if its command line and its
    /// environment name none, or cannot be read.
    #[must_use]
    pub fn config(&self) -> Option<PathBuf> {
        let read = |what: &str| fs::read(format!("/proc/{}/{what}", self.pid)).unwrap_or_default();
        let named = config_of(&read("cmdline"), &read("environ"))?;
        // A relative path is relative to its working directory.
        let directory = fs::read_link(format!("/proc/{}/cwd", self.pid)).unwrap_or_default();
        Some(directory.join(named))
    }
}

/// The value of `--config`, or else of its environment variable.
fn config_of(command_line: &[u8], environment: &[u8]) -> Option<PathBuf> {
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let mut words = command_line.split(|byte| *byte == 0);
    while let Some(word) = words.next() {
        if word == b"--config" {
            return words.next().map(path);
        }
        if let Some(value) = word.strip_prefix(b"--config=") {
            return Some(path(value));
        }
    }
    let mut variables = environment.split(|byte| *byte == 0);
    variables
        .find_map(|variable| variable.strip_prefix(b"COVALENT_CONFIG="))
        .map(path)
}

/// Returns the processes that hold the BPF program `id`, directly or through an attachment. The
/// kernel shows this only to their owner and to root. A program that was attached over netlink by
/// an exited loader has no holder.
#[must_use]
pub fn holders(id: u32) -> Vec<Holder> {
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
    fn the_file_of_a_daemon_is_on_its_command_line_or_in_its_environment() {
        let of = |line: &str, environment: &str| {
            let zeros = |text: &str| text.replace(' ', "\0").into_bytes();
            config_of(&zeros(line), &zeros(environment))
        };
        let file = Some(PathBuf::from("/a.toml"));
        assert_eq!(of("covalentd --config /a.toml --check", ""), file);
        assert_eq!(of("covalentd --config=/a.toml", "COVALENT_CONFIG=/b"), file);
        assert_eq!(of("covalentd", "HOME=/ COVALENT_CONFIG=/a.toml"), file);
        assert_eq!(of("covalentd", "HOME=/"), None);
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
