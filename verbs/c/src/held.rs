//! Objects that borrow a device, without a lifetime.

use std::rc::Rc;

use covalent::Device;

use crate::status::Result;

/// An object that borrows a device, and the device. C has no lifetimes, so a reference count keeps
/// the borrow valid. The device is dropped once its own handle and all objects opened through it
/// are closed.
pub(crate) struct Held<T> {
    // Dropped first: it borrows the device.
    object: T,
    _device: Rc<Device>,
}

impl<T> Held<T> {
    /// Opens an object through a device. `open` must keep its borrow in the object only.
    pub(crate) fn open(
        device: &Rc<Device>,
        open: impl FnOnce(&'static Device) -> covalent::Result<T>,
    ) -> Result<Self> {
        let device = Rc::clone(device);
        // SAFETY: the `Rc` keeps the device in place while this `Held` exists. `open` may keep the
        // borrow only in `object`. `object` is a field that is dropped before the `Rc`, and it is
        // lent out only for less than the lifetime of `self`.
        let borrowed: &'static Device = unsafe { &*Rc::as_ptr(&device) };
        let object = open(borrowed)?;
        Ok(Self {
            object,
            _device: device,
        })
    }

    /// Makes another object of this one, which keeps the borrow only in the result.
    pub(crate) fn try_map<U>(self, map: impl FnOnce(T) -> covalent::Result<U>) -> Result<Held<U>> {
        let Self { object, _device } = self;
        Ok(Held {
            object: map(object)?,
            _device,
        })
    }

    pub(crate) fn get(&mut self) -> &mut T {
        &mut self.object
    }
}
