//! Finds DPDK, compiles the shims and writes their bindings. Does nothing without the feature `dpdk`.

fn main() {
    println!("cargo::rerun-if-changed=shim");
    #[cfg(feature = "dpdk")]
    if let Err(problem) = with_dpdk::build() {
        // A panic would bury the cure under a backtrace.
        println!("cargo::error={problem}");
        std::process::exit(1);
    }
}

#[cfg(feature = "dpdk")]
mod with_dpdk {
    use std::{env, error::Error, path::PathBuf};

    /// Debian 12 has 22.11, which upstream keeps for three years.
    const FLOOR: &str = "22.11";

    /// The shims, by what they are about.
    const SOURCES: [&str; 6] = [
        "burst.c",
        "device.c",
        "events.c",
        "flow.c",
        "process.c",
        "turns.c",
    ];

    /// What DPDK's own `libdpdk.pc` asks of every compiler that reads its headers; `pkg-config` hands on neither.
    fn flags() -> Vec<&'static str> {
        let mut flags = vec!["-include", "rte_config.h"];
        if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
            flags.push("-march=corei7");
        }
        flags
    }

    pub fn build() -> Result<(), Box<dyn Error>> {
        let dpdk = pkg_config::Config::new()
            .atleast_version(FLOOR)
            .probe("libdpdk")
            .map_err(|error| {
                format!(
                    "the feature `dpdk` needs DPDK {FLOOR} or newer, and pkg-config does not find its `libdpdk.pc`. Cure: `apt-get install libdpdk-dev` \
                     (Debian 12 or newer), or build without the feature. pkg-config said: {}",
                    error.to_string().lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
                )
            })?;
        // The ring device is made by a function of its library, which `libdpdk.pc` does not name: it is one of the drivers.
        println!("cargo::rustc-link-lib=dylib=rte_net_ring");
        println!("cargo::rustc-link-lib=dylib=rte_bus_vdev");

        let mut shims = cc::Build::new();
        for source in SOURCES {
            shims.file(format!("shim/{source}"));
        }
        for flag in flags() {
            shims.flag(flag);
        }
        shims
            .includes(&dpdk.include_paths)
            // DPDK's headers are not clean under all warnings of a newer compiler.
            .flag("-Wno-deprecated-declarations")
            .opt_level(3)
            .try_compile("covalent_dpdk_shim")?;

        let bindings = bindgen::Builder::default()
            .header("shim/shim.h")
            .clang_args(flags())
            .clang_args(
                dpdk.include_paths
                    .iter()
                    .map(|path| format!("-I{}", path.display())),
            )
            .allowlist_file(".*shim/shim\\.h")
            // Opaque on purpose: what lies in them is the shims' business, so that a newer DPDK may move it.
            .opaque_type("rte_mbuf")
            .opaque_type("rte_mempool")
            .use_core()
            .layout_tests(false)
            .derive_default(true)
            .generate_cstr(true)
            .generate()?;
        bindings.write_to_file(PathBuf::from(env::var("OUT_DIR")?).join("dpdk.rs"))?;
        Ok(())
    }
}
