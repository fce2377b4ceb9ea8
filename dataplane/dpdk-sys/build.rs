//! Finds DPDK, compiles the shims and generates their bindings. Does nothing without the feature
//! `dpdk`.

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

    /// The shim sources, by topic.
    const SOURCES: [&str; 6] = [
        "burst.c",
        "device.c",
        "events.c",
        "flow.c",
        "process.c",
        "turns.c",
    ];

    /// Flags that DPDK's `libdpdk.pc` requires of every compiler that reads its headers.
    /// `pkg-config` passes on neither of them.
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
                    "the feature `dpdk` needs DPDK {FLOOR} or newer, and pkg-config does not find \
                     its `libdpdk.pc`. Cure: `apt-get install libdpdk-dev` (Debian 12 or newer), \
                     or build without the feature. pkg-config reported: {}",
                    error
                        .to_string()
                        .lines()
                        .find(|line| !line.trim().is_empty())
                        .unwrap_or_default()
                )
            })?;
        // A function of this library creates the ring device. `libdpdk.pc` does not list the
        // library, because it is a driver.
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
            // Opaque: only the shims access the fields of these types, so a newer DPDK may change
            // the layout.
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
