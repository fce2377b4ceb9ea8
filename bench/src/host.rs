//! The machine on which the figures were measured, needed to interpret them.

use std::{fs, path::Path};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::watch::{Watch, Watched};

/// The machine and its state at the start of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release.
    pub kernel: String,
    /// Model of the first core.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Load average of the last minute, as the kernel prints it: other work on the machine.
    pub load_average: String,
    /// Version of this program.
    pub version: String,
    /// This program's command line.
    pub command: Vec<String>,
    /// Other activity during the run. Absent in results from before this was recorded.
    #[serde(default)]
    pub watched: Option<Watched>,
}

impl Host {
    /// Collects the values. A value that cannot be read stays empty.
    pub fn observed() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: core_affinity::get_core_ids().map_or(0, |cores| cores.len()),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
                .unwrap_or_default()
                >> 10,
            load_average: read("/proc/loadavg")
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: std::env::args().collect(),
            watched: None,
        }
    }

    /// Adds the observations of `watch`.
    pub fn seen_by(mut self, watch: Watch) -> Result<Self> {
        self.watched = Some(watch.end()?);
        Ok(self)
    }

    /// This program's command line, without its folder, as code.
    pub fn measured(&self) -> String {
        format!("`{}`", printed_command(&self.command))
    }

    /// Describes the machine and its other activity.
    pub fn words(&self) -> String {
        let Self {
            cpu,
            cores,
            kernel,
            load_average,
            ..
        } = self;
        let watched = self
            .watched
            .map_or_else(String::new, |watched| format!("; {}", watched.words()));
        format!("{cpu} ({cores} cores), Linux {kernel}, load {load_average} before{watched}")
    }
}

/// The first value called `name` in lines of `name : value`.
pub fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The command line, with the program's name alone instead of where it lay.
pub fn printed_command(command: &[String]) -> String {
    let program = command.first().map(|program| {
        let name = Path::new(program).file_name();
        name.map_or_else(|| program.clone(), |name| name.to_string_lossy().into())
    });
    let words = command.iter().skip(1);
    words.fold(program.unwrap_or_default(), |line, word| line + " " + word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 143\nmodel name\t: Some CPU\nMemTotal:       100 kB\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU"));
        assert_eq!(field(text, "MemTotal").as_deref(), Some("100 kB"));
        assert_eq!(field(text, "name"), None);
    }

    #[test]
    fn the_host_has_a_kernel_and_cores() {
        let host = Host::observed();
        assert!(
            !host.kernel.is_empty() && host.cores > 0 && host.memory_mib > 0,
            "{host:?}"
        );
    }
}
