//! What the committed object was made from and by.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::toolchain;

const SOURCES: &str = "sources sha256 ";

/// The record beside the object: two lines of tool versions, one of the sources' hash.
#[derive(Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Versions of the compiler and of LLVM.
    pub toolchain: String,
    /// SHA-256 over the names and contents of the program's manifest, lock file and sources.
    pub sources: String,
}

impl Provenance {
    /// That of `program` as it is now and of the tools installed here.
    pub fn of(program: &Path) -> Result<Self, String> {
        crate::packages::require()?;
        Ok(Self {
            toolchain: toolchain::versions()?,
            sources: hash(program)?,
        })
    }

    /// Reads the record.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (toolchain, sources) = text
            .trim_end()
            .rsplit_once('\n')
            .ok_or("ebpf/object/PROVENANCE has fewer than two lines")?;
        let sources = sources
            .strip_prefix(SOURCES)
            .ok_or("ebpf/object/PROVENANCE ends without a hash")?;
        Ok(Self {
            toolchain: toolchain.to_owned(),
            sources: sources.to_owned(),
        })
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{SOURCES}{}", self.toolchain, self.sources)
    }
}

fn hash(program: &Path) -> Result<String, String> {
    let mut files = vec![program.join("Cargo.toml"), program.join("Cargo.lock")];
    let sources = program.join("src");
    let entries =
        fs::read_dir(&sources).map_err(|error| format!("{}: {error}", sources.display()))?;
    files.extend(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())));
    files.sort();
    let mut hasher = Sha256::new();
    for file in files {
        hash_file(&mut hasher, program, &file)?;
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn hash_file(hasher: &mut Sha256, program: &Path, file: &PathBuf) -> Result<(), String> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let name = file.strip_prefix(program).unwrap_or(file).to_string_lossy();
    // Lengths first, so that no two lists of files hash alike.
    hasher.update((name.len() as u64).to_le_bytes());
    hasher.update(name.as_bytes());
    hasher.update((bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
    Ok(())
}
