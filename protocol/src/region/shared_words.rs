//! Words that two in one program have.

use alloc::rc::Rc;
use core::cell::RefCell;

use super::{Memory, Words};

/// Memory that a lane and an application share within one thread, as in a simulator. Clones refer
/// to the same words.
#[derive(Debug, Clone)]
pub struct SharedWords(Rc<RefCell<Words>>);

impl SharedWords {
    /// `count` words, all zero.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self(Rc::new(RefCell::new(Words::new(count))))
    }
}

impl Memory for SharedWords {
    fn size_bytes(&self) -> u64 {
        self.0.borrow().size_bytes()
    }

    fn load(&self, offset: u64) -> Option<u64> {
        self.0.borrow().load(offset)
    }

    fn swap(&mut self, offset: u64, value: u64) -> Option<u64> {
        self.0.borrow_mut().swap(offset, value)
    }

    fn compare_exchange(
        &mut self,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Option<Result<u64, u64>> {
        let mut words = self.0.borrow_mut();
        words.compare_exchange(offset, expected, new)
    }

    fn fetch_add(&mut self, offset: u64, delta: u64) -> Option<u64> {
        self.0.borrow_mut().fetch_add(offset, delta)
    }

    fn fetch_and(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.0.borrow_mut().fetch_and(offset, mask)
    }

    fn fetch_or(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.0.borrow_mut().fetch_or(offset, mask)
    }

    fn fetch_xor(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.0.borrow_mut().fetch_xor(offset, mask)
    }

    fn read(&self, offset: u64, target: &mut [u8]) -> Option<()> {
        self.0.borrow().read(offset, target)
    }

    fn write(&mut self, offset: u64, source: &[u8]) -> Option<()> {
        self.0.borrow_mut().write(offset, source)
    }
}
