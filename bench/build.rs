//! Compiles the glue for systems that are C libraries, if the features `peers` and `ibverbs` are
//! enabled.
//!
//! A library that is not installed is skipped with a warning that names its package. The program
//! then reports the gap in each result.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_ucx, has_libfabric, has_ibverbs)");
    println!("cargo::rerun-if-changed=peers");
    #[cfg(feature = "peers")]
    {
        peer("ucx", "ucx", "1.13", "libucx-dev", "has_ucx");
        peer(
            "libfabric",
            "libfabric",
            "1.17",
            "libfabric-dev",
            "has_libfabric",
        );
    }
    #[cfg(feature = "ibverbs")]
    peer("rxe", "libibverbs", "1.14", "libibverbs-dev", "has_ibverbs");
}

/// Compiles `peers/NAME.c` and links the library, if it is there.
#[cfg(any(feature = "peers", feature = "ibverbs"))]
fn peer(name: &str, library: &str, at_least: &str, package: &str, cfg: &str) {
    let found = pkg_config::Config::new()
        .atleast_version(at_least)
        // Its answer is needed for the compiler first.
        .cargo_metadata(false)
        .probe(library);
    let found = match found {
        Ok(found) => found,
        Err(_) => {
            println!(
                "cargo::warning={library} {at_least} or newer is not installed, so the peer \
                 `{name}` is left out; \
                 cure: apt-get install {package} (scripts/install-packages bench) and build again"
            );
            return;
        }
    };
    cc::Build::new()
        .file(format!("peers/{name}.c"))
        .includes(&found.include_paths)
        .std("gnu11")
        .extra_warnings(true)
        // As its makers' own benchmarks are compiled, in a debug build too.
        .opt_level(3)
        .compile(&format!("covalent_bench_{name}"));
    for path in &found.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for name in &found.libs {
        println!("cargo::rustc-link-lib=dylib={name}");
    }
    println!("cargo::rustc-cfg={cfg}");
}
