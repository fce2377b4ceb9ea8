//! Gives the shared library its name for the loader, so that programs are not bound to whatever file was there when they were linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The number goes up when a program that was linked before would not work any more; the Makefile and debian/ have it too.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcovalent.so.0");
}
