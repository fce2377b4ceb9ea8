//! Verbs that are posted one after the other and announced to the lane together.

use covalent_api::guid::Guid;

use crate::{
    error::Result,
    queue::Verbs,
    remote::RemoteRegion,
    verb::{Mode, Verb, VerbId},
};

impl<'d> Verbs<'d> {
    /// Starts a batch: verbs that are posted one after the other. The lane is notified of all of
    /// them at once.
    #[must_use = "a verb that is posted without a batch rings the doorbell each time"]
    pub const fn batch(&mut self) -> Batch<'_, 'd> {
        Batch { verbs: self }
    }
}

/// A batch of verbs. One doorbell notifies the lane of all of them when the batch is rung or
/// dropped. It needs fewer stores than as many [`Verbs::post`] calls and, if the lane sleeps, one
/// system call instead of several.
///
/// # Examples
/// ```no_run
/// # use covalent::{Device, Mode, Target, Timeout, Verb};
/// # let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// # let mut verbs = device.verbs()?;
/// # let bank = verbs.open_region(Target::Name("b"), "bank", Timeout::FOREVER)?;
/// let mut batch = verbs.batch();
/// for word in 0..16 {
///     let add = Verb::FetchAdd { offset_bytes: 8 * word, delta: 1 };
///     batch.post(&bank, add, Mode::TwoPhase, word)?;
/// }
/// batch.ring()?;
/// # Ok::<(), covalent::Error>(())
/// ```
#[derive(Debug)]
pub struct Batch<'q, 'd> {
    verbs: &'q mut Verbs<'d>,
}

impl Batch<'_, '_> {
    /// As [`Verbs::post`], but the lane may not see the verb before the batch is rung.
    ///
    /// # Errors
    /// As [`Verbs::post`]. Verbs posted before stay in the batch.
    pub fn post(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
        user_data: u64,
    ) -> Result<VerbId> {
        self.verbs.put_verb(region, verb, mode, user_data)
    }

    /// As [`Verbs::post_lookup`], but the lane may not see it before the batch is rung.
    ///
    /// # Errors
    /// As [`Verbs::post_lookup`].
    pub fn post_lookup(
        &mut self,
        node: Option<Guid>,
        name: &str,
        user_data: u64,
    ) -> Result<VerbId> {
        self.verbs.put_lookup(node, name, user_data)
    }

    /// As [`Verbs::post_watch`], but the lane may not see it before the batch is rung.
    ///
    /// # Errors
    /// As [`Verbs::post_watch`].
    pub fn post_watch(&mut self, node: Guid, known_up: bool, user_data: u64) -> Result<VerbId> {
        self.verbs.put_watch(node, known_up, user_data)
    }

    /// As [`Verbs::has_room`].
    pub fn has_room(&mut self) -> bool {
        self.verbs.has_room()
    }

    /// Notifies the lane of all posted verbs.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone).
    pub fn ring(self) -> Result<()> {
        self.verbs.ring()
    }
}

impl Drop for Batch<'_, '_> {
    fn drop(&mut self) {
        // This fails only if the daemon is gone, and the next call reports that. A rung batch is
        // not rung again.
        let _ = self.verbs.ring();
    }
}
