//! Notices: what a program shows of itself in its node's status.

use std::fmt;

use covalent_pipe::session;

use crate::{
    device::Device,
    error::{Error, Result},
};

/// Notices of one device at a time.
pub const NOTICES_MAX: usize = session::NOTICES;

/// Words of a [`Notice`].
pub const NOTICE_WORDS: usize = session::NOTICE_WORDS;

/// A place in the memory shared with the daemon where a program publishes words about itself. The
/// daemon reads them when its status or its counters are requested. So publishing costs no system
/// call, however often it is done.
///
/// Words are `u64` in the caller's byte order. The status lists notices in the layout of group
/// members (`covalent_protocol::group::Notice`), as `covalent groups` shows them. It skips others,
/// and a notice that was not published yet. A [`Group`](crate::Group) publishes one itself, and
/// takes one of the device's [`NOTICES_MAX`] places.
///
/// What a notice describes ends with the daemon: a device with a notice does not
/// [reconnect](Device::set_reconnect). Dropping the notice clears it and frees its place. Use it
/// only on its device's thread.
///
/// # Examples
/// ```no_run
/// use covalent::{Device, NOTICE_WORDS};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut notice = device.notice()?;
/// let mut words = [0; NOTICE_WORDS];
/// // A member without a view: its standing, and the name of its group with the length.
/// words[0] = 1 | 6 << 16;
/// words[5] = u64::from_le_bytes(*b"orders\0\0");
/// notice.publish(&words)?;
/// # Ok::<(), covalent::Error>(())
/// ```
pub struct Notice<'d> {
    device: &'d Device,
    place: usize,
}

impl<'d> Notice<'d> {
    pub(crate) fn open(device: &'d Device) -> Result<Self> {
        device.check_process()?;
        let place = device.take_notice().ok_or_else(|| {
            Error::Invalid(format!(
                "{NOTICES_MAX} notices of this device are open, the maximum, those of its groups \
                 included; drop one of them, or attach another device"
            ))
        })?;
        Ok(Self { device, place })
    }

    /// Replaces the words. A reader gets the words of one call, or none. Makes no system call.
    ///
    /// # Errors
    /// [`Error::Forked`] in a process that was forked from the one that attached.
    pub fn publish(&mut self, words: &[u64; NOTICE_WORDS]) -> Result<()> {
        self.device.set_notice(self.place, words)
    }
}

impl Drop for Notice<'_> {
    fn drop(&mut self) {
        // In a forked process the notice is the parent's.
        let _ = self.publish(&[0; NOTICE_WORDS]);
        self.device.free_notice(self.place);
    }
}

impl fmt::Debug for Notice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notice")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
