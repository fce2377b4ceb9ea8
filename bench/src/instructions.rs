//! The counts of `scripts/count-instructions`, and their section of the performance page.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;
use serde::Deserialize;

use crate::{
    host::{Host, printed_command},
    kept,
};

/// The name of results of this kind, and of their files.
const NAME: &str = "instructions";

/// A whole run. The script writes it; unknown fields are its own affair.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Results {
    /// Where.
    host: Host,
    /// The compiler and its version.
    compiler: String,
    /// The target of the compiler.
    target: String,
    /// The counting tool and its version.
    counter: String,
    /// Packets or verbs of the shorter and of the longer run. The count is the difference of the
    /// two runs.
    rounds: [u64; 2],
    /// The counted cases.
    cases: Vec<Case>,
}

/// The instructions of one contestant.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Case {
    /// The contestant.
    name: String,
    /// Its description.
    what: String,
    /// The unit of work: a packet or a verb.
    each: String,
    /// Of both sides together, for each.
    instructions: f64,
    /// The upper limit for `make test` to pass. `None` if the case is only for comparison.
    ceiling: Option<u64>,
}

/// The section from the result in `results`; empty if there is none.
pub fn section(results: &Path) -> Result<String> {
    let last = kept::read(results, NAME, "scripts/count-instructions")?;
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
         Instructions for one packet of 64 B and for one verb, both sides together. The count\n\
         does not depend on the load of the machine. It excludes the time spent waiting for\n\
         memory or for the other core.\n\n\
         | | each | instructions | ceiling of `make test` |\n\
         |---|---|---:|---:|"
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
        "\nA packet includes: the copy into the ring and its bookkeeping (for the others, the\n\
         buffer's); publishing a burst of 64 to the other side; the application's access to a\n\
         byte of each packet (echo: its change, and the daemon side's read of the returned\n\
         packet); releasing the space; and the surrounding loops. It excludes notifications,\n\
         doorbells, system calls and process start: both sides run in one thread, and only the\n\
         difference between a run of {few} and one of {many} counts. A verb includes both\n\
         nodes with their frames and CRCs, and the engine that executes it. It excludes the\n\
         port, the cable and the application. The counter's processor has no AVX-512, so the\n\
         CRCs are those of SSE.\n\n\
         | | |\n\
         |---|---|\n\
         | counted | `scripts/{}`; for each line `valgrind --tool=callgrind \
         target/release/examples/EACH_instructions NAME COUNT`, twice |\n\
         | counter | {counter} |\n\
         | compiler | {compiler}, release build for {target} |\n\
         | machine | {}, Linux {} |\n\
         | program | `bench/instructions`, version {} |",
        printed_command(&host.command),
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
            {
                "name": "pipe-echo",
                "what": "there and back",
                "each": "packet",
                "instructions": 123.5,
                "ceiling": 128
            },
            {
                "name": "pipe-one-way",
                "what": "there",
                "each": "packet",
                "instructions": 74.1,
                "ceiling": 74
            },
            {
                "name": "mbuf-echo",
                "what": "by pointers",
                "each": "packet",
                "instructions": 81.3,
                "ceiling": null
            }
        ]
    }"#;

    #[test]
    fn the_section_has_counts_ceilings_and_the_counting_method() {
        let folder = tempfile::tempdir().expect("a directory");
        let place = folder.path();
        fs::write(place.join("instructions.json"), KEPT).expect("written");
        let section = section(place).expect("a section");
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
        let path = folder.path().join("instructions.json");
        for wrong in [KEPT.replace("\"cases\"", "\"things\""), "{}".to_owned()] {
            fs::write(&path, wrong).expect("written");
            let problem = section(folder.path()).expect_err("no result");
            assert!(
                problem.to_string().contains("instructions.json"),
                "{problem}"
            );
        }
    }
}
