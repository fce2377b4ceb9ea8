//! A pipe's memory, for the model checker: no descriptors, and both sides' at once.

use crate::{Direction, PipeError, control::Control, ring::Ring, shared::Shared};

/// One side's view of a pipe's memory.
#[derive(Debug)]
pub struct PipeMemory {
    pub(crate) shared: Shared,
    direction: Direction,
}

impl PipeMemory {
    /// Returns the memory of a pipe for its two sides. `capacity_bytes` is a power of two, at least
    /// 128.
    #[must_use]
    pub fn both_sides(direction: Direction, capacity_bytes: usize) -> [Self; 2] {
        let alignment = direction.alignment();
        let control = Control::new(capacity_bytes);
        let ring = Ring::new(capacity_bytes, alignment as usize);
        [(); 2].map(|()| Self {
            shared: Shared {
                control: control.clone(),
                ring: ring.clone(),
                alignment,
            },
            direction,
        })
    }

    pub(crate) const fn direction(&self) -> Direction {
        self.direction
    }

    pub(crate) fn into_shared(self, expected: Direction) -> Result<Shared, PipeError> {
        if self.direction != expected {
            return Err(PipeError::Direction {
                found: self.direction,
                expected,
            });
        }
        Ok(self.shared)
    }
}
