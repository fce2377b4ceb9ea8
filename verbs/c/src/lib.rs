//! libcovalent.
