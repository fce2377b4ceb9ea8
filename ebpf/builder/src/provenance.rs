//! Sources and tools of the committed object.

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
    /// SHA-256 over the names and contents of the files that make up the program, its linker and
    /// their build.
    pub sources: String,
}

impl Provenance {
    /// Returns the provenance of the current sources and of the tools installed here.
    pub fn of(room: &Path) -> Result<Self, String> {
        crate::packages::require()?;
        Ok(Self {
            toolchain: toolchain::versions()?,
            sources: hash(room)?,
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

/// Files besides the tools that determine the object's bytes, relative to `ebpf`. A directory
/// stands for the files in it.
const INPUTS: [&str; 7] = [
    "program/Cargo.toml",
    "program/Cargo.lock",
    "program/src",
    "builder/src/compile.rs",
    "builder/linker/Cargo.toml",
    "builder/linker/Cargo.lock",
    "builder/linker/src",
];

fn hash(room: &Path) -> Result<String, String> {
    let mut hasher = Sha256::new();
    for input in INPUTS {
        for file in files(&room.join(input))? {
            hash_file(&mut hasher, room, &file)?;
        }
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn files(input: &Path) -> Result<Vec<PathBuf>, String> {
    if !input.is_dir() {
        return Ok(vec![input.to_owned()]);
    }
    let entries =
        fs::read_dir(input).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut files: Vec<PathBuf> =
        entries.map_err(|error| format!("{}: {error}", input.display()))?;
    files.sort();
    Ok(files)
}

fn hash_file(hasher: &mut Sha256, room: &Path, file: &Path) -> Result<(), String> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let name = file.strip_prefix(room).unwrap_or(file).to_string_lossy();
    // Hash lengths first, so that no two lists of files have the same hash.
    hasher.update((name.len() as u64).to_le_bytes());
    hasher.update(name.as_bytes());
    hasher.update((bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
    Ok(())
}
