//! Sets the shared library's soname. Without it, the loader binds programs to the file name that
//! existed when they were linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Increase the number when programs linked before would stop working. The Makefile and debian/
    // contain it too.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcovalent.so.0");
}
