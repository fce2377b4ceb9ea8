//! Where things are: below the repository, nothing elsewhere.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The folders of the lab.
#[derive(Debug, Clone)]
pub struct Place {
    repository: PathBuf,
}

impl Place {
    /// The repository around the current directory.
    ///
    /// # Errors
    /// When there is none.
    pub fn find() -> Result<Self> {
        let here = std::env::current_dir().context("cannot get the current directory")?;
        match here
            .ancestors()
            .find(|folder| folder.join("check/guest/jobs/prelude.sh").is_file())
        {
            Some(repository) => Ok(Self::at(repository)),
            None => bail!(
                "`{}` is not in Covalent's repository\n  cure: change into the repository; `make \
                 guest-test` does",
                here.display()
            ),
        }
    }

    /// The repository at this path.
    pub fn at(repository: &Path) -> Self {
        Self {
            repository: repository.to_owned(),
        }
    }

    /// The repository itself.
    pub fn repository(&self) -> &Path {
        &self.repository
    }

    /// Returns the folder of downloads and generated files. `make clean` removes it.
    pub fn target(&self) -> PathBuf {
        self.repository.join("target/guest")
    }

    /// Returns the folder of the scripts that run in a guest.
    pub fn scripts(&self) -> PathBuf {
        self.repository.join("check/guest")
    }

    /// The results that are kept.
    pub fn results(&self) -> PathBuf {
        self.repository.join("check/guest/results")
    }

    /// The page that is made of them.
    pub fn page(&self) -> PathBuf {
        self.repository.join("docs/supported-kernels.md")
    }
}
