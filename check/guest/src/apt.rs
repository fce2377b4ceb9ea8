//! Debian packages by name, without changing the installed ones.
//!
//! Each [`Archive`] is a private apt root with its own lists. Its source lines are the machine's
//! own Debian line with the suite replaced, so the machine's mirror is used here too. apt checks
//! packages against the archive's signature. They are kept in a folder and unpacked elsewhere;
//! nothing is installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::command::output;

/// Keys of Debian's archive, of the package `debian-archive-keyring`, which every Debian has.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A file to download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Name of the file, with version and architecture.
    pub file: String,
    /// Its length.
    pub size_bytes: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Archive {
    root: PathBuf,
}

impl Archive {
    /// Opens an archive of these suites, with its lists and packages below `root`. Fetches the
    /// lists if there are none.
    ///
    /// # Errors
    /// The machine has no Debian line, or apt fails.
    pub fn open(root: &Path, suites: &[&str]) -> Result<Self> {
        let lines = sources(&machine_lines()?, suites)?;
        let archive = Self {
            root: root.to_owned(),
        };
        for folder in ["lists/partial", "no-parts"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let list = root.join("sources.list");
        if fs::read_to_string(&list).is_ok_and(|known| known == lines) {
            return Ok(archive);
        }
        fs::write(&list, &lines).with_context(|| format!("cannot write {}", list.display()))?;
        archive.renew().inspect_err(|_| {
            // The next attempt must fetch the lists again.
            let _ = fs::remove_file(&list);
        })?;
        Ok(archive)
    }

    /// Fetches the lists anew.
    ///
    /// # Errors
    /// Apt's own words.
    pub fn renew(&self) -> Result<()> {
        output(self.run("apt-get").args(["-q", "update"])).map(|_| ())
    }

    /// The folder for a set of packages, which it makes.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self, set: &str) -> Result<PathBuf> {
        let folder = self.root.join("packages").join(set);
        let partial = folder.join("partial");
        fs::create_dir_all(&partial)
            .with_context(|| format!("cannot make {}", partial.display()))?;
        Ok(folder)
    }

    /// Returns the newest version of a package in these suites, and the names of its dependencies.
    ///
    /// # Errors
    /// None of the suites has the package.
    pub fn newest(&self, package: &str, suites: &[&str]) -> Result<(String, Vec<String>)> {
        let known = output(self.run("apt-cache").args(["madison", package]))?;
        let Some(version) = version_in(&known, suites) else {
            bail!("no package `{package}` in {suites:?}");
        };
        let record = output(
            self.run("apt-cache")
                .args(["show", &format!("{package}={version}")]),
        )?;
        Ok((version, dependencies(&record)))
    }

    /// The files that [`Archive::download`] would fetch into `folder`: those packages alone.
    ///
    /// # Errors
    /// When one is not known.
    pub fn files(&self, packages: &[String], folder: &Path) -> Result<Vec<Package>> {
        let mut command = self.run("apt-get");
        command.args(["download", "--print-uris"]).args(packages);
        let text = output(&mut command)?;
        Ok(text
            .lines()
            .filter_map(package)
            .filter(|package| !folder.join(&package.file).is_file())
            .collect())
    }

    /// Fetches those packages alone into `folder`.
    ///
    /// # Errors
    /// Apt's own words.
    pub fn download(&self, packages: &[String], folder: &Path) -> Result<()> {
        let mut command = self.run("apt-get");
        command
            .args(["-q", "download"])
            .args(packages)
            .current_dir(folder);
        output(&mut command).map(|_| ())
    }

    /// The files that [`Archive::download_with_dependencies`] would fetch.
    ///
    /// # Errors
    /// When apt finds no solution.
    pub fn files_with_dependencies(
        &self,
        suite: &str,
        packages: &[&str],
        folder: &Path,
    ) -> Result<Vec<Package>> {
        let mut command = self.install(suite, folder);
        command.args(["--print-uris", "install"]).args(packages);
        Ok(output(&mut command)?.lines().filter_map(package).collect())
    }

    /// Downloads the packages from `suite`, and their dependencies that are not installed on the
    /// machine, into `folder`.
    ///
    /// # Errors
    /// The output of apt.
    pub fn download_with_dependencies(
        &self,
        suite: &str,
        packages: &[&str],
        folder: &Path,
    ) -> Result<()> {
        let mut command = self.install(suite, folder);
        command.args(["--download-only", "install"]).args(packages);
        output(&mut command).map(|_| ())
    }

    fn install(&self, suite: &str, folder: &Path) -> Command {
        let mut command = self.run("apt-get");
        command
            .args(["-q", "-y", "--no-install-recommends", "-t", suite])
            .arg("-o")
            .arg(format!("Dir::Cache::archives={}", folder.display()));
        command
    }

    /// Returns a command for an apt program with this root. apt knows the packages installed on the
    /// machine and does not download them again.
    fn run(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let at = |name: &str| self.root.join(name).display().to_string();
        for option in [
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            format!("Dir::Etc::sourceparts={}", at("no-parts")),
            format!("Dir::Etc::preferencesparts={}", at("no-parts")),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::Cache={}", at("")),
            // Keep downloaded packages. Also make a private root usable without root privileges.
            "APT::Keep-Downloaded-Packages=true".to_owned(),
            "Debug::NoLocking=true".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        command
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }
}

/// Returns the machine's own package sources: address and suite of each.
fn machine_lines() -> Result<Vec<(String, String)>> {
    let text = output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI) $(RELEASE) $(COMPONENT)",
        "Created-By: Packages",
    ]))?;
    Ok(text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(uri), Some(suite), Some("main")) => Some((uri.to_owned(), suite.to_owned())),
                _ => None,
            }
        })
        .collect())
}

/// Returns the source lines of `suites`: each at the machine's address for it, else at the address
/// of the machine's own Debian.
fn sources(machine: &[(String, String)], suites: &[&str]) -> Result<String> {
    let at = |wanted: &str| {
        machine
            .iter()
            .find(|(_, suite)| suite == wanted)
            .map(|(uri, _)| uri.as_str())
    };
    let Some(own) = at("bookworm") else {
        bail!(
            "the suite `bookworm` is not among apt's sources\n  cure: the lab runs on Debian 12; \
             add Debian's own line for it"
        );
    };
    let mut lines = String::new();
    for suite in suites {
        // Security has an archive of its own, so it is left out where the machine has it not.
        let uri = match at(suite) {
            Some(uri) => uri,
            None if suite.ends_with("-security") => continue,
            None => own,
        };
        lines += &format!("deb [signed-by={KEYRING}] {uri} {suite} main\n");
    }
    Ok(lines)
}

/// Returns the newest version that `apt-cache madison` prints for one of `suites`. It prints the
/// newest version first.
fn version_in(madison: &str, suites: &[&str]) -> Option<String> {
    madison.lines().find_map(|line| {
        let mut fields = line.split('|').map(str::trim);
        let (_, version, origin) = (fields.next()?, fields.next()?, fields.next()?);
        let suite = origin.split_whitespace().nth(1)?.split('/').next()?;
        suites.contains(&suite).then(|| version.to_owned())
    })
}

/// Names in the line `Depends` of a package's record; of alternatives the first.
fn dependencies(record: &str) -> Vec<String> {
    let line = record
        .lines()
        .find_map(|line| line.strip_prefix("Depends: "));
    line.unwrap_or_default()
        .split(',')
        .filter_map(|name| name.split_whitespace().next().map(str::to_owned))
        .collect()
}

/// One line of `--print-uris`: `'URI' FILE SIZE HASH`.
fn package(line: &str) -> Option<Package> {
    let mut words = line.strip_prefix('\'')?.split_whitespace().skip(1);
    Some(Package {
        file: words.next()?.to_owned(),
        size_bytes: words.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_come_from_the_machines_own_mirror() {
        let machine = [
            ("http://mirror/debian/".to_owned(), "bookworm".to_owned()),
            (
                "http://security/".to_owned(),
                "bookworm-security".to_owned(),
            ),
        ];
        let lines = sources(
            &machine,
            &["bookworm", "bookworm-security", "trixie-backports"],
        )
        .expect("bookworm is there");
        let ends: Vec<_> = lines
            .lines()
            .filter_map(|line| line.split_once("] ").map(|(_, end)| end))
            .collect();
        assert_eq!(
            ends,
            [
                "http://mirror/debian/ bookworm main",
                "http://security/ bookworm-security main",
                "http://mirror/debian/ trixie-backports main"
            ]
        );
        let without = sources(&machine[..1], &["bookworm", "bookworm-security"]);
        assert_eq!(without.expect("bookworm is there").lines().count(), 1);
        assert!(sources(&machine[1..], &["bookworm"]).is_err());
    }

    #[test]
    fn apts_words_are_read() {
        let madison = "linux-image-amd64 | 6.12.95-1~bpo12+1 | http://m/debian \
            bookworm-backports/main amd64 Packages\n\
                       linux-image-amd64 | 6.1.192-2 | http://s/debian-security \
                       bookworm-security/main amd64 Packages\n\
                       linux-image-amd64 | 6.1.176-1 | http://m/debian bookworm/main amd64 \
                       Packages\n";
        let of = |suites: &[&str]| version_in(madison, suites);
        assert_eq!(
            of(&["bookworm", "bookworm-security"]).as_deref(),
            Some("6.1.192-2")
        );
        assert_eq!(
            of(&["bookworm-backports"]).as_deref(),
            Some("6.12.95-1~bpo12+1")
        );
        assert_eq!(of(&["trixie"]), None);
        assert_eq!(
            dependencies("Package: a\nDepends: b (= 1), c | d, e\n"),
            ["b", "c", "e"]
        );
        assert_eq!(
            package("'http://m/p/a_1%3a2_amd64.deb' a_1%3a2_amd64.deb 266940 SHA256:0a"),
            Some(Package {
                file: "a_1%3a2_amd64.deb".to_owned(),
                size_bytes: 266_940
            })
        );
        assert_eq!(package("Reading package lists..."), None);
    }
}
