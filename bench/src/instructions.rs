//! What `scripts/count-instructions` counted, and its section of the page about performance.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;
use serde::Deserialize;

use crate::{host::Host, kept, streams::told_command};

/// The name of results of this kind, and of their files.
const NAME: &str = "instructions";

/// A whole run. The script writes it; unknown fields are its own affair.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Results {
    /// Where.
    host: Host,
    /// The compiler and its version.
    compiler: String,
    /// What the compiler makes code for.
    target: String,
    /// What counts, and its version.
    counter: String,
    /// Packets or verbs of the shorter and of the longer run whose difference is counted.
    rounds: [u64; 2],
    /// What was counted.
    cases: Vec<Case>,
}

/// What one contestant spends.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Case {
    /// The contestant.
    name: String,
    /// What it does.
    what: String,
    /// Of what each: a packet, a verb.
    each: String,
    /// Of both sides together, for each.
    instructions: f64,
    /// The most at which `make test` passes; `None` for who is shown for comparison only.
    ceiling: Option<u64>,
}

/// The section from the last result beside `results`; empty if there is none.
pub fn section(results: &Path) -> Result<String> {
    let last = kept::last_beside(results, NAME, "scripts/count-instructions")?;
    Ok(last.as_ref().map_or_else(String::new, text))
}

fn text(results: &Results) -> String {
    let Results {
        host,
        compiler,
        target,
        counter,
        rounds: [few, many],
        cases,
    } = results;
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "\n## Instructions\n\n\
         What one packet of 64 B and one verb take, both sides together. A count does not depend on how busy the machine is; it says nothing of waiting for\n\
         memory or for the other core.\n\n\
         | | each | instructions | ceiling of `make test` |\n|---|---|---:|---:|"
    );
    for case in cases {
        let ceiling = match case.ceiling {
            None => "compared only".to_owned(),
            Some(ceiling) if case.instructions > ceiling as f64 => {
                format!("**{ceiling}, broken**")
            }
            Some(ceiling) => ceiling.to_string(),
        };
        let _ = writeln!(
            out,
            "| **{}**: {} | {} | {:.1} | {ceiling} |",
            case.name, case.what, case.each, case.instructions
        );
    }
    let _ = writeln!(
        out,
        "\nOf a packet are included the copy into the ring and its bookkeeping (for the others the buffer's), showing a burst of 64 to the other side, the\n\
         application's look at a byte of each packet (echo: its change, and the daemon's side's look at what comes back), giving the room back, and the\n\
         loops around all that. Not included are notifications, doorbells, system calls, and starting the process: both sides run in one thread, and only\n\
         the difference between a run of {few} and one of {many} counts. Of a verb are included both nodes with their frames and CRCs, and the engine that\n\
         executes it; not the port, the cable and the application. The counter's processor has no AVX-512, so the CRCs are those of SSE.\n\n\
         | | |\n|---|---|\n\
         | counted | `scripts/{}`; for each line `valgrind --tool=callgrind target/release/examples/EACH_instructions NAME COUNT`, twice |\n\
         | counter | {counter} |\n\
         | compiler | {compiler}, release build for {target} |\n\
         | machine | {}, Linux {} |\n\
         | program | `bench/instructions`, version {} |",
        told_command(&host.command),
        host.cpu,
        host.kernel,
        host.version
    );
    out
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// As the script writes it.
    const KEPT: &str = r#"{
        "name": "instructions",
        "began_unix_ms": 1790000000000,
        "host": {
            "kernel": "6.1",
            "cpu": "Some CPU",
            "cores": 2,
            "memory_mib": 1024,
            "load_average": "0.10",
            "version": "0.1.0",
            "command": ["/a/scripts/count-instructions", "--results", "bench/results"]
        },
        "compiler": "rustc 1.95.0",
        "target": "x86_64-unknown-linux-gnu",
        "counter": "valgrind-3.19.0",
        "rounds": [6400, 70400],
        "cases": [
            {"name": "pipe-echo", "what": "there and back", "each": "packet", "instructions": 123.5, "ceiling": 128},
            {"name": "pipe-one-way", "what": "there", "each": "packet", "instructions": 74.1, "ceiling": 74},
            {"name": "mbuf-echo", "what": "by pointers", "each": "packet", "instructions": 81.3, "ceiling": null}
        ]
    }"#;

    #[test]
    fn the_section_tells_counts_ceilings_and_how_it_was_counted() {
        let folder = tempfile::tempdir().expect("a directory");
        let place = folder.path();
        let older = KEPT.replace("123.5", "999.9");
        fs::write(place.join("instructions-1790000000000.json"), older).expect("written");
        fs::write(place.join("instructions-1790000000001.json"), KEPT).expect("written");
        let section = section(&place.join("pipes-1.json")).expect("a section");
        for words in [
            "\n## Instructions\n",
            "| **pipe-echo**: there and back | packet | 123.5 | 128 |",
            "| **pipe-one-way**: there | packet | 74.1 | **74, broken** |",
            "| **mbuf-echo**: by pointers | packet | 81.3 | compared only |",
            "`scripts/count-instructions --results bench/results`",
            "valgrind --tool=callgrind",
            "a run of 6400 and one of 70400",
            "| compiler | rustc 1.95.0, release build for x86_64-unknown-linux-gnu |",
            "| machine | Some CPU, Linux 6.1 |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn without_a_result_there_is_no_section_and_a_broken_one_is_named() {
        let folder = tempfile::tempdir().expect("a directory");
        assert_eq!(section(folder.path()).expect("no problem"), "");
        let path = folder.path().join("instructions-1.json");
        for wrong in [KEPT.replace("\"cases\"", "\"things\""), "{}".to_owned()] {
            fs::write(&path, wrong).expect("written");
            let problem = section(folder.path()).expect_err("no result");
            assert!(
                problem.to_string().contains("instructions-1.json"),
                "{problem}"
            );
        }
    }
}
