//! The XDP program that steers frames, and its typed loader.
