//! The linker that rustc calls for the BPF target. It reads rustc's linker command line and runs
//! the bpf-linker library.

use std::{collections::HashSet, env, fs, path::PathBuf, process::ExitCode};

use bpf_linker::{Cpu, Linker, LinkerInput, LinkerOptions, OptLevel, OutputType};

/// Request from rustc.
#[derive(Default)]
struct Request {
    inputs: Vec<PathBuf>,
    output: Option<PathBuf>,
    exports: HashSet<String>,
}

fn main() -> ExitCode {
    match read_request(env::args().skip(1)).and_then(|request| link(&request)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("covalent-bpf-linker: {message}");
            ExitCode::FAILURE
        }
    }
}

fn read_request(mut arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    let mut request = Request::default();
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .ok_or_else(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            "-o" => request.output = Some(value()?.into()),
            "--export-symbols" => {
                let path = value()?;
                let symbols =
                    fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
                request.exports.extend(symbols.lines().map(str::to_owned));
            }
            // rustc's choice of processor, flavor and search path; ours are fixed below.
            "-L" | "--cpu" | "-flavor" | "--emit" => drop(value()?),
            flag if flag.starts_with('-') => {}
            input => request.inputs.push(input.into()),
        }
    }
    Ok(request)
}

fn link(request: &Request) -> Result<(), String> {
    let output = request.output.as_ref().ok_or("no -o")?;
    let linker = Linker::new(LinkerOptions {
        target: Some(c"bpfel".into()),
        // Instruction set 3 (32-bit jumps): Linux 5.1.
        cpu: Cpu::V3,
        cpu_features: c"".into(),
        optimize: OptLevel::Aggressive,
        unroll_loops: false,
        ignore_inline_never: false,
        llvm_args: Vec::new(),
        // In-order expansion turns fills and moves into byte loops. Ordinary expansion inlines them
        // as wide stores.
        disable_expand_memcpy_in_order: true,
        disable_memory_builtins: false,
        btf: true,
        allow_bpf_trap: false,
    });
    let inputs = request
        .inputs
        .iter()
        .map(|path| LinkerInput::new_from_file(path));
    let exports = request.exports.iter().map(String::as_str);
    linker
        .link_to_file(inputs, output, OutputType::Object, exports)
        .map_err(|error| error.to_string())?;
    if linker.has_errors() {
        return Err("LLVM reported errors".into());
    }
    Ok(())
}
