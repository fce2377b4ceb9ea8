//! Settings: each has a value, and a command that sets it.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// The value of a drop-in that is not there.
pub const ABSENT: &str = "absent";

/// A setting of the kernel, or of systemd until the next boot. Interfaces carry their index, to
/// distinguish a new interface of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Huge pages of 2 MiB that are reserved. A number.
    HugePages,
    /// Queues of an interface. The words of `ethtool -L`: `combined 4`, or `rx 4 tx 4`.
    Channels {
        /// Its name.
        interface: String,
        /// Its index.
        index: u32,
    },
    /// Descriptors in the rings of an interface. The words of `ethtool -G`: `rx 1024 tx 1024`.
    Rings {
        /// Its name.
        interface: String,
        /// Its index.
        index: u32,
    },
    /// An offload of an interface. `on` or `off`.
    Offload {
        /// Its name.
        interface: String,
        /// Its index.
        index: u32,
        /// The kernel's name of the offload.
        feature: String,
    },
    /// The cores that take an interrupt. A list such as `0-2,5`.
    Interrupt {
        /// Its number.
        irq: u32,
    },
    /// A drop-in for a unit. Its text, or [`ABSENT`].
    DropIn {
        /// Where it lies.
        path: PathBuf,
    },
    /// The MTU of an interface. A number of bytes.
    Mtu {
        /// Its name.
        interface: String,
        /// Its index.
        index: u32,
    },
}

/// One action on the machine. Its printed form is an equivalent shell line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Runs a program with arguments.
    Run(Vec<String>),
    /// Writes text into a file of the kernel's, or a file of ours.
    Write {
        /// The file.
        path: PathBuf,
        /// The text, without its last line break.
        text: String,
    },
    /// Makes a directory and those above it.
    MakeDirectory(PathBuf),
    /// Removes a file.
    Remove(PathBuf),
    /// Removes a directory in which nothing is left.
    RemoveEmpty(PathBuf),
}

impl Setting {
    /// Returns the actions that set it to `value`.
    pub fn acts(&self, value: &str) -> Vec<Act> {
        let run = |program: &str, words: &[&str]| {
            let words = words.iter().flat_map(|word| word.split(' '));
            let all = std::iter::once(program).chain(words);
            Act::Run(all.map(str::to_owned).collect())
        };
        let write = |path: String| Act::Write {
            path: path.into(),
            text: value.to_owned(),
        };
        match self {
            Self::HugePages => vec![write(
                "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages".to_owned(),
            )],
            Self::Channels { interface, .. } => vec![run("ethtool", &["-L", interface, value])],
            Self::Rings { interface, .. } => vec![run("ethtool", &["-G", interface, value])],
            Self::Offload {
                interface, feature, ..
            } => vec![run("ethtool", &["-K", interface, feature, value])],
            Self::Interrupt { irq } => vec![write(format!("/proc/irq/{irq}/smp_affinity_list"))],
            Self::Mtu { interface, .. } => {
                vec![run("ip", &["link", "set", "dev", interface, "mtu", value])]
            }
            Self::DropIn { path } => {
                let directory = path.parent().map(PathBuf::from).unwrap_or_default();
                let mut acts = match value {
                    ABSENT => vec![Act::Remove(path.clone()), Act::RemoveEmpty(directory)],
                    text => vec![
                        Act::MakeDirectory(directory),
                        Act::Write {
                            path: path.clone(),
                            text: text.to_owned(),
                        },
                    ],
                };
                acts.push(run("systemctl", &["daemon-reload"]));
                acts
            }
        }
    }

    /// The line that gives it `value`.
    pub fn command(&self, value: &str) -> String {
        let acts = self.acts(value);
        let lines: Vec<String> = acts.iter().map(ToString::to_string).collect();
        lines.join(" && ")
    }

    /// Returns whether a killed process may have left `now` on the path from `before` to `wanted`:
    /// the kernel reserves pages one by one.
    pub fn may_be_intermediate(&self, before: &str, wanted: &str, now: &str) -> bool {
        let number = |text: &str| text.parse::<u64>().ok();
        match (self, number(before), number(wanted), number(now)) {
            (Self::HugePages, Some(before), Some(wanted), Some(now)) => {
                (before.min(wanted)..=before.max(wanted)).contains(&now)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HugePages => f.write_str("reserved huge pages"),
            Self::Channels { interface, .. } => write!(f, "queues of {interface}"),
            Self::Rings { interface, .. } => write!(f, "rings of {interface}"),
            Self::Offload {
                interface, feature, ..
            } => write!(f, "{feature} of {interface}"),
            Self::Interrupt { irq } => write!(f, "cores of interrupt {irq}"),
            Self::DropIn { path } => write!(f, "{}", path.display()),
            Self::Mtu { interface, .. } => write!(f, "MTU of {interface}"),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(words) => f.write_str(&words.join(" ")),
            Self::Write { path, text } if text.contains('\n') => {
                let text = text.replace('\n', "\\n");
                write!(f, "printf '{text}\\n' > {}", path.display())
            }
            Self::Write { path, text } => write!(f, "echo {text} > {}", path.display()),
            Self::MakeDirectory(path) => write!(f, "mkdir -p {}", path.display()),
            Self::Remove(path) => write!(f, "rm -f {}", path.display()),
            Self::RemoveEmpty(path) => {
                write!(f, "rmdir --ignore-fail-on-non-empty {}", path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_has_its_shell_command() {
        let (interface, index) = (|| "eth1".to_owned(), 2);
        let cases = [
            (
                Setting::HugePages,
                "12",
                "echo 12 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            ),
            (
                Setting::Channels {
                    interface: interface(),
                    index,
                },
                "rx 2 tx 2",
                "ethtool -L eth1 rx 2 tx 2",
            ),
            (
                Setting::Rings {
                    interface: interface(),
                    index,
                },
                "rx 2048 tx 2048",
                "ethtool -G eth1 rx 2048 tx 2048",
            ),
            (
                Setting::Offload {
                    interface: interface(),
                    index,
                    feature: "rx-lro".to_owned(),
                },
                "off",
                "ethtool -K eth1 rx-lro off",
            ),
            (
                Setting::Interrupt { irq: 41 },
                "0-2,5",
                "echo 0-2,5 > /proc/irq/41/smp_affinity_list",
            ),
            (
                Setting::Mtu {
                    interface: interface(),
                    index,
                },
                "1770",
                "ip link set dev eth1 mtu 1770",
            ),
        ];
        for (setting, value, command) in cases {
            assert_eq!(setting.command(value), command);
        }
        let drop_in = Setting::DropIn {
            path: "/run/systemd/system/x.service.d/y.conf".into(),
        };
        assert_eq!(
            drop_in.command("[Service]\nLimitMEMLOCK=infinity"),
            "mkdir -p /run/systemd/system/x.service.d && printf \
             '[Service]\\nLimitMEMLOCK=infinity\\n' > \
             /run/systemd/system/x.service.d/y.conf && systemctl daemon-reload"
        );
        assert_eq!(
            drop_in.command(ABSENT),
            "rm -f /run/systemd/system/x.service.d/y.conf && rmdir --ignore-fail-on-non-empty \
             /run/systemd/system/x.service.d && \
             systemctl daemon-reload"
        );
    }

    #[test]
    fn pages_that_were_reserved_one_by_one_are_ones_own() {
        let intermediate = |now| Setting::HugePages.may_be_intermediate("3", "9", now);
        assert!(intermediate("3") && intermediate("5") && intermediate("9"));
        assert!(!intermediate("2") && !intermediate("10") && !intermediate("many"));
        let interrupt = Setting::Interrupt { irq: 1 };
        assert!(!interrupt.may_be_intermediate("0", "2", "1"));
    }
}
