//! What the figures were measured on: without it they mean nothing.

use std::fs;

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
    /// Load average of the last minute, as the kernel writes it: what else was running.
    pub load_average: String,
    /// Version of this program.
    pub version: String,
    /// This program's command line.
    pub command: Vec<String>,
    /// What else it did meanwhile; absent in results of before this was watched.
    #[serde(default)]
    pub watched: Option<Watched>,
}

impl Host {
    /// Looks around. What cannot be read is left empty.
    pub fn look() -> Self {
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

    /// The same, with what `watch` has seen.
    pub fn seen_by(mut self, watch: Watch) -> Result<Self> {
        self.watched = Some(watch.end()?);
        Ok(self)
    }

    /// The machine, and what else it did.
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
    fn this_host_has_a_kernel_and_cores() {
        let host = Host::look();
        assert!(
            !host.kernel.is_empty() && host.cores > 0 && host.memory_mib > 0,
            "{host:?}"
        );
    }
}
