//! The action of a rule.

use crate::layout::{ACTION_DATAPLANE, ACTION_DROP, ACTION_KERNEL};

/// Destination of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The kernel's network stack.
    Kernel,
    /// The socket of the queue that the frame arrived on; the kernel if that queue has none.
    Dataplane,
    /// No destination: the frame is dropped and counted.
    Drop,
}

impl Action {
    /// The value in the program's maps.
    pub(crate) const fn value(self) -> u32 {
        match self {
            Self::Kernel => ACTION_KERNEL,
            Self::Dataplane => ACTION_DATAPLANE,
            Self::Drop => ACTION_DROP,
        }
    }
}
