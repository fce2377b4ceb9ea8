//! Rebuilds `ebpf/object/steer.bpf.o` from `ebpf/program`. With `--check` it reports whether the
//! two still agree.
//!
//! The program needs a `core` compiled for the BPF target. Debian ships one with its rustc for
//! browsers, so no nightly compiler is involved. The build needs only that compiler, LLVM 22 and
//! the bpf-linker library (through `ebpf/builder/linker`).

mod compile;
mod packages;
mod provenance;
mod toolchain;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use provenance::Provenance;

/// Where things are.
struct Layout {
    room: PathBuf,
    builder: PathBuf,
    program: PathBuf,
    object: PathBuf,
    provenance: PathBuf,
}

impl Layout {
    fn new() -> Self {
        let builder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let room = builder.parent().unwrap_or(&builder).to_path_buf();
        Self {
            program: room.join("program"),
            object: room.join("object/steer.bpf.o"),
            provenance: room.join("object/PROVENANCE"),
            builder,
            room,
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => rebuild(&Layout::new()),
        ["--check"] => check(&Layout::new()),
        _ => Err("usage: covalent-ebpf-builder [--check]".into()),
    };
    match result {
        Ok(message) => {
            eprintln!("{message}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn rebuild(layout: &Layout) -> Result<String, String> {
    let object = build(layout)?;
    let provenance = Provenance::of(&layout.room)?;
    write(&layout.object, &object)?;
    write(&layout.provenance, provenance.to_string().as_bytes())?;
    Ok(format!(
        "wrote {} ({} bytes)",
        layout.object.display(),
        object.len()
    ))
}

fn check(layout: &Layout) -> Result<String, String> {
    let recorded = Provenance::parse(&String::from_utf8_lossy(&read(&layout.provenance)?))?;
    let here = Provenance::of(&layout.room)?;
    if recorded.sources != here.sources {
        return Err("the committed object was built from other sources than those in ebpf/program \
            and ebpf/builder: run `make ebpf` and commit \
                    ebpf/object"
            .into());
    }
    let object = build(layout)?;
    if object == read(&layout.object)? {
        return Ok(format!(
            "{} equals the output of its source, byte for byte",
            layout.object.display()
        ));
    }
    if recorded.toolchain != here.toolchain {
        // Another compiler produces different bytes from the same source, which is not an error.
        return Ok(format!(
            "warning: bytes not comparable. The committed object was built from these very \
             sources, but by\n{}\nand \
             this machine has\n{}\nRun `make ebpf` and commit ebpf/object to move to it.",
            recorded.toolchain, here.toolchain
        ));
    }
    Err("the committed object differs from the output of this toolchain, although its record names \
         this toolchain: run `make ebpf` and examine the difference with llvm-objdump-22 -d"
        .into())
}

fn build(layout: &Layout) -> Result<Vec<u8>, String> {
    packages::require()?;
    let linker = compile::linker(&layout.builder)?;
    let unstripped = compile::program(
        &layout.program,
        &layout.builder.join("target/program"),
        &linker,
    )?;
    compile::strip(&unstripped)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}
