//! Servers that ours is compared with, as processes.

pub mod etcd;
pub mod process;
pub mod redis;

pub use self::process::Running;
