//! The components of the lab: QEMU, tools, kernels. Fetched once and unpacked below `target/guest`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::{
    apt::{Archive, Package},
    command::output,
    kernel::Kernel,
    place::Place,
};

/// Suites of the machine's own Debian.
const DEBIAN: [&str; 3] = ["bookworm", "bookworm-updates", "bookworm-security"];

/// Where newer packages for it are.
const BACKPORTS: &str = "bookworm-backports";

/// Packages of tools that run in the guest: the shell that starts it, and the systems of its
/// measurements.
const TOOLS: [&str; 6] = [
    "busybox-static",
    "ibverbs-providers",
    "perftest",
    "rdma-core",
    "ibverbs-utils",
    "sockperf",
];

/// Packages of the machine that it runs on. Those before 10 have no igb.
const QEMU: [&str; 1] = ["qemu-system-x86"];

/// A stock kernel, by where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// Debian 12's own.
    Bookworm,
    /// The kernel of Debian 13, backported to Debian 12.
    BookwormBackports,
    /// Backported to Debian 13: the newest.
    TrixieBackports,
}

impl Line {
    /// All of them, the oldest first.
    pub const ALL: [Self; 3] = [
        Self::Bookworm,
        Self::BookwormBackports,
        Self::TrixieBackports,
    ];

    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::BookwormBackports => "bookworm-backports",
            Self::TrixieBackports => "trixie-backports",
        }
    }

    fn suites(self) -> &'static [&'static str] {
        match self {
            Self::Bookworm => &DEBIAN,
            Self::BookwormBackports => &[BACKPORTS],
            Self::TrixieBackports => &["trixie-backports"],
        }
    }
}

/// The fetched components, stored between runs.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifest {
    /// For each line the release of its kernel (`uname -r`).
    kernels: Vec<(Line, String)>,
}

/// Everything, ready to use.
#[derive(Debug)]
pub struct Stock {
    target: PathBuf,
    scripts: PathBuf,
    manifest: Manifest,
}

impl Stock {
    /// Opens the existing components. If there are none, prints the names and sizes and fetches
    /// them. `renew` looks for newer packages.
    ///
    /// # Errors
    /// The error of apt, dpkg or the file system.
    pub fn open(place: &Place, renew: bool) -> Result<Self> {
        let target = place.target();
        let known = fs::read_to_string(target.join("stock.json"))
            .ok()
            .and_then(|text| serde_json::from_str::<Manifest>(&text).ok());
        if let (Some(manifest), false) = (known, renew) {
            return Ok(Self {
                target,
                scripts: place.scripts(),
                manifest,
            });
        }
        let mut stock = Self {
            target,
            scripts: place.scripts(),
            manifest: Manifest::default(),
        };
        stock.fetch(renew)?;
        let text = serde_json::to_string_pretty(&stock.manifest)?;
        let file = stock.target.join("stock.json");
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(stock)
    }

    /// The kernel of a line.
    ///
    /// # Errors
    /// When it was never fetched.
    pub fn kernel(&self, line: Line) -> Result<Kernel> {
        let release = self
            .manifest
            .kernels
            .iter()
            .find(|(known, _)| *known == line)
            .map(|(_, release)| release)
            .ok_or_else(|| {
                anyhow!(
                    "the kernel of {} was not fetched\n  cure: covalent-guest fetch",
                    line.name()
                )
            })?;
        Ok(Kernel::at(
            &self.target.join("kernels").join(release),
            release,
        ))
    }

    /// Returns where QEMU is unpacked. Its dependencies that are installed on the machine are not
    /// there.
    pub fn qemu(&self) -> PathBuf {
        self.target.join("qemu")
    }

    /// Returns where the guest's tools are unpacked.
    pub fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    fn fetch(&mut self, renew: bool) -> Result<()> {
        let root = self.target.join("apt");
        let twelve = Archive::open(
            &root.join("debian-12"),
            &[&DEBIAN[..], &[BACKPORTS]].concat(),
        )?;
        let thirteen = Archive::open(&root.join("debian-13"), Line::TrixieBackports.suites())?;
        if renew {
            twelve.renew()?;
            thirteen.renew()?;
        }
        let mut kernels = Vec::new();
        for line in Line::ALL {
            let archive = match line {
                Line::TrixieBackports => &thirteen,
                _ => &twelve,
            };
            let (release, packages) = kernel_packages(archive, line)?;
            kernels.push((line, archive, release, packages));
        }

        let sets = [
            ("qemu", BACKPORTS, &QEMU[..], self.qemu()),
            ("tools", DEBIAN[0], &TOOLS[..], self.tools()),
        ];
        let mut wanted = Vec::new();
        for (set, suite, packages, _) in &sets {
            wanted.extend(twelve.files_with_dependencies(suite, packages, &twelve.folder(set)?)?);
        }
        for (line, archive, _, packages) in &kernels {
            wanted.extend(archive.files(packages, &archive.folder(line.name())?)?);
        }
        print(&wanted);

        for (set, suite, packages, unpacked) in sets {
            let folder = twelve.folder(set)?;
            twelve.download_with_dependencies(suite, packages, &folder)?;
            unpack(&folder, &unpacked)?;
        }
        for (line, archive, release, packages) in kernels {
            let folder = archive.folder(line.name())?;
            archive.download(&packages, &folder)?;
            let kernel = self.target.join("kernels").join(&release);
            unpack(&folder, &kernel.join("unpacked"))?;
            Kernel::at(&kernel, &release).prepare(&self.tools(), &self.scripts)?;
            self.manifest.kernels.push((line, release));
        }
        Ok(())
    }
}

/// Returns the release of a line's newest kernel, and its packages. Newer kernels consist of
/// several packages, whose names end in the release.
fn kernel_packages(archive: &Archive, line: Line) -> Result<(String, Vec<String>)> {
    let (_, depends) = archive.newest("linux-image-amd64", line.suites())?;
    let image = depends
        .iter()
        .find(|name| name.starts_with("linux-image-"))
        .ok_or_else(|| anyhow!("linux-image-amd64 of {} names no kernel", line.name()))?;
    let release = image.trim_start_matches("linux-image-").to_owned();
    let (_, depends) = archive.newest(image, line.suites())?;
    let mut packages = vec![image.clone()];
    packages.extend(
        depends
            .into_iter()
            .filter(|name| name.starts_with("linux-") && name.ends_with(&release)),
    );
    packages.sort();
    packages.dedup();
    Ok((release, packages))
}

/// Unpacks every package of a folder into an empty folder.
fn unpack(folder: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let file = entry?.path();
        if file.extension().is_some_and(|end| end == "deb") {
            output(Command::new("dpkg").arg("-x").arg(file).arg(to))?;
        }
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the downloads are listed first")]
fn print(wanted: &[Package]) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    if wanted.is_empty() {
        println!("nothing is to be downloaded");
        return;
    }
    println!("to be downloaded, by name, from this machine's own Debian line:");
    for package in wanted {
        println!("  {:8.1} MiB  {}", mib(package.size_bytes), package.file);
    }
    let total = wanted.iter().map(|package| package.size_bytes).sum();
    println!("  {:8.1} MiB  in all", mib(total));
}
