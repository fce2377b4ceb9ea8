//! The machine: reads the settings and changes them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, anyhow, bail};

use super::{
    cores::CoreList,
    facts,
    setting::{ABSENT, Act, Setting},
    stages::{channels, rings},
};
use crate::{
    netlink,
    nic::{self, Nic},
};

/// Where settings are.
pub trait World {
    /// Returns the value of a setting, or `None` if the object that it belongs to is gone.
    ///
    /// # Errors
    /// Fails if the value cannot be read.
    fn now(&self, setting: &Setting) -> Result<Option<String>>;

    /// Executes one action.
    ///
    /// # Errors
    /// Returns the system's error.
    fn act(&mut self, act: &Act) -> Result<()>;
}

/// This machine, or one that a test made of files.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// Returns the machine whose `/proc`, `/sys` and `/run` are below `root`.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The path below the root.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the text of a file, without the line break at its end, or `None` if it cannot be
    /// read.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = fs::read_to_string(self.at(path)).ok()?;
        Some(text.trim_end_matches('\n').to_owned())
    }
}

impl World for Machine {
    fn now(&self, setting: &Setting) -> Result<Option<String>> {
        Ok(match setting {
            Setting::HugePages => self.text(facts::NR_HUGE_PAGES),
            Setting::Interrupt { irq } => self
                .text(format!("/proc/irq/{irq}/smp_affinity_list"))
                .and_then(|list| Some(list.parse::<CoreList>().ok()?.to_string())),
            Setting::DropIn { path } => Some(self.text(path).unwrap_or_else(|| ABSENT.to_owned())),
            Setting::Mtu { interface, index } => {
                found(interface, *index)?.map(|found| found.mtu_bytes.to_string())
            }
            Setting::Channels { interface, index } => find_nic(interface, *index)?
                .and_then(|nic| Some(channels::words(nic.channels.as_ref()?))),
            Setting::Rings { interface, index } => {
                find_nic(interface, *index)?.and_then(|nic| Some(rings::words(nic.rings.as_ref()?)))
            }
            Setting::Offload {
                interface,
                index,
                feature,
            } => find_nic(interface, *index)?
                .map(|nic| if nic.has(feature) { "on" } else { "off" }.to_owned()),
        })
    }

    fn act(&mut self, act: &Act) -> Result<()> {
        let write_error = |path: &Path, error: io::Error| {
            let why = match error.raw_os_error() {
                Some(code) if code == nix::libc::EIO => {
                    " (the driver manages this interrupt itself)"
                }
                _ => "",
            };
            anyhow!(error).context(format!("cannot write {}{why}", path.display()))
        };
        match act {
            Act::Run(words) => run(words),
            Act::Write { path, text } => {
                let path = self.at(path);
                fs::write(&path, format!("{text}\n")).map_err(|error| write_error(&path, error))
            }
            Act::MakeDirectory(path) => {
                let path = self.at(path);
                fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))
            }
            Act::Remove(path) => match fs::remove_file(self.at(path)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(error).with_context(|| format!("cannot remove {}", path.display()))
                }
                _ => Ok(()),
            },
            Act::RemoveEmpty(path) => {
                // Fails if other programs have files in it.
                let _ = fs::remove_dir(self.at(path));
                Ok(())
            }
        }
    }
}

/// The interface of that name, if it is still the one with that index.
fn found(interface: &str, index: u32) -> Result<Option<netlink::Interface>> {
    let all = netlink::interfaces()?;
    let is_it = |it: &netlink::Interface| it.name == interface && it.index == index;
    Ok(all.into_iter().find(is_it))
}

fn find_nic(interface: &str, index: u32) -> Result<Option<Nic>> {
    match found(interface, index)? {
        None => Ok(None),
        Some(_) => Ok(nic::query(&[interface])?.pop()),
    }
}

/// Runs a program without a shell and without input. If it fails, its standard error is the reason.
fn run(words: &[String]) -> Result<()> {
    let [program, arguments @ ..] = words else {
        bail!("there is nothing to run");
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{program}`"))?;
    if output.status.success() {
        return Ok(());
    }
    let error_output = String::from_utf8_lossy(&output.stderr);
    bail!(
        "{}: {}",
        output.status,
        error_output.trim().replace('\n', "; ")
    )
}
