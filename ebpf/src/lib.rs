//! The XDP program that steers frames, and its typed loader.
//!
//! One [`Steering`] serves one interface. It loads the program, attaches it, and owns the maps from
//! which the program reads its sockets and rules. The program sends a frame to the `AF_XDP` socket
//! of the queue on which it arrived, or passes it to the kernel. It drops a frame if a rule or the
//! default action requires it.
//!
//! ```no_run
//! use covalent_ebpf::{Action, AttachMode, Key, Steering};
//!
//! # fn main() -> Result<(), covalent_ebpf::EbpfError> {
//! let mut steering = Steering::load()?;
//! steering.set_link_ethertype(0x88b5)?;
//! steering.insert(&Key::Port { proto: 17, dst_port: 4789 }, Action::Dataplane)?;
//! let mode = steering.attach(3, "eth0", AttachMode::Auto)?;
//! println!("attached in {mode} mode");
//! // steering.set_socket(queue, socket) for each queue, once its AF_XDP socket is bound.
//! # Ok(())
//! # }
//! ```
//!
//! The program is compiled from `ebpf/program`. The embedded object is committed as
//! `ebpf/object/steer.bpf.o`, so building this crate needs no BPF toolchain.
//!
//! A frame larger than one buffer cannot be steered. At an MTU that allows one, the driver refuses
//! the program in native mode ([`EbpfError::NativeRefused`]). In generic mode the kernel joins the
//! pieces first.
//!
//! Kernel: Linux 5.9 or newer (XDP through a `bpf_link`). Changing rules after the process dropped
//! its capabilities needs Linux 5.19.

mod action;
mod counters;
mod error;
mod heap;
mod holder;
mod interface;
mod key;
#[allow(dead_code, reason = "shared with the program, which uses the rest")]
#[path = "../program/src/layout.rs"]
mod layout;
mod link;
mod mode;
mod owner;
mod privilege;
mod steering;
mod tables;

pub use action::Action;
pub use counters::{Counters, Verdicts};
pub use error::EbpfError;
pub use holder::{Holder, holders};
pub use key::{Key, KeyError};
pub use layout::{
    DESTINATIONS_MAX, ETHERTYPES_MAX, FIVE_TUPLES_MAX, PORTS_MAX, PREFIXES_MAX, QUEUES_MAX,
    VLANS_MAX,
};
pub use mode::{AttachMode, AttachPoint, EffectiveMode};
pub use owner::{AttachedProgram, attached_programs};
pub use privilege::Refusal;
pub use steering::Steering;
