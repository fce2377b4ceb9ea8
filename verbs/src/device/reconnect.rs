//! A device that outlives its daemon. When the daemon is gone and the application needs it, the
//! device attaches again and restores everything that is open ([`Holdings`]).
//!
//! An object keeps its old memory until its next use finds nothing left there. Then it takes over
//! the next memory ([`Device::take_next_memory`]).

use std::{
    io::ErrorKind,
    thread,
    time::{Duration, Instant},
};

use covalent_pipe::region::RegionMemory;

use super::{
    Device, Opened,
    holdings::{Carried, Reconnection},
    session::Session,
};
use crate::{
    client::{Client, Farewell},
    error::{Error, Result},
    wait::LONGEST,
};

/// Between two attempts to reach a daemon that is not there.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);

/// A search for the daemon that tasks of an event loop wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    since: Instant,
    deadline: Instant,
    in_order: bool,
    /// The earliest time for another attempt.
    next_attempt: Instant,
}

/// How often a request is repeated to the next daemon. The request may be what kills each of them.
const REQUEST_RETRIES_MAX: u32 = 4;

impl Device {
    /// Makes this device reconnect to its daemon and wait up to `patience` for it. `None` disables
    /// this, which is the default: every call then returns [`Error::DaemonGone`] at once. Call it
    /// right after attaching.
    ///
    /// With reconnection, a call that finds the daemon gone returns only after the daemon is back
    /// or `patience` is over, whatever its own deadline. This includes calls that otherwise do not
    /// block. The device attaches again, registers its regions under their keys, with their
    /// contents, and opens its pipes with their bindings and tuning. If any part of this fails, the
    /// error names it. Then the call continues, and [`Device::next_reconnection`] reports the
    /// reconnection.
    ///
    /// [`Device::carried`] counts the contents of pipes and queues:
    ///
    /// - Packets and messages that had arrived are received first, in the order of the daemons if
    ///   there were several restarts. An object that takes nothing through more than five restarts
    ///   keeps only the data from before the first restart and from the last four daemons that
    ///   stopped. Data in between is lost. Packets that arrive while no daemon runs are lost, as
    ///   from any full pipe.
    /// - The new daemon sends frames that the old daemon had not taken.
    /// - If the daemon shut down gracefully, verbs that it had not taken are posted again. Verbs
    ///   that it had taken were completed and reported. If the daemon was killed, or a verb was in
    ///   doubt, the verb completes as [`Outcome::Forgotten`](crate::Outcome::Forgotten): it was
    ///   executed at most once, and its outcome is unknown.
    /// - Regions keep their contents. A word that another thread stores at the moment of the
    ///   registration may be lost. Until a region is registered again, verbs on it are refused as
    ///   [`Refusal::UnknownRegion`](crate::Refusal::UnknownRegion).
    ///
    /// [Confirmed](crate::RxBatch::confirm) data that is still held is lost with its memory, once
    /// the pipe moves on to the next memory. It is counted.
    ///
    /// A device with tasks of Tokio (feature `tokio`) does not block while no daemon runs. Its
    /// tasks wait, and calls that do not wait return [`Error::DaemonGone`] until the daemon is
    /// back.
    ///
    /// A device with a [`Notice`](crate::Notice), and so one with a [`Group`](crate::Group), does
    /// not reconnect: a member's incarnation ends with the daemon. Nor does a device that the
    /// daemon detached because of its writes to shared memory.
    ///
    /// # Examples
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use covalent::Device;
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// device.set_reconnect(Some(Duration::from_secs(30)));
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn set_reconnect(&self, patience: Option<Duration>) {
        self.patience.set(patience.map(|it| it.min(LONGEST)));
    }

    /// Returns the oldest reconnection that was not returned yet. The last 16 are kept.
    pub fn next_reconnection(&self) -> Option<Reconnection> {
        self.holdings.borrow_mut().next_reconnection()
    }

    /// Returns the totals of data and verbs that were carried over or lost, over all reconnections.
    #[must_use]
    pub fn carried(&self) -> Carried {
        self.holdings.borrow().carried
    }

    pub(crate) const fn reconnects(&self) -> bool {
        self.patience.get().is_some()
    }

    /// How often the daemon was found again.
    pub(crate) const fn generation(&self) -> u32 {
        self.generation.get()
    }

    /// Whether that incarnation of the daemon shut down gracefully.
    pub(crate) fn ended_in_order(&self, generation: u32) -> bool {
        self.holdings.borrow().ended_in_order(generation)
    }

    /// Takes the next memory of a pipe that was opened again, and its incarnation, for the pipe's
    /// object.
    pub(crate) fn take_next_memory(&self, id: u32) -> Result<(u32, Opened)> {
        let next = self.holdings.borrow_mut().take_next(id);
        next.ok_or_else(|| self.client.borrow().daemon_gone())
    }

    /// Takes the next memory of a receive queue that was registered again, and its incarnation, for
    /// the queue's object.
    pub(crate) fn take_next_queue_memory(&self, rkey: u32) -> Result<(u32, RegionMemory)> {
        let next = self.holdings.borrow_mut().take_next_queue(rkey);
        next.ok_or_else(|| self.client.borrow().daemon_gone())
    }

    /// The object of pipe `id` freed data in the memory of incarnation `generation`. With `rest`,
    /// data may be left there. The lane notifies of data in the current incarnation only, so this
    /// names the pipe again for earlier ones.
    pub(crate) fn gave_back(&self, id: u32, generation: u32, rest: bool) {
        if generation != self.generation() && (rest || self.waits_for(id)) {
            self.name_as_ready(id);
        }
    }

    /// Whether there is data in memory that the object of pipe `id` has not taken over yet.
    #[cold]
    pub(crate) fn waits_for(&self, id: u32) -> bool {
        self.holdings.borrow().waits_for(id)
    }

    /// Updates the totals of [`Device::carried`].
    pub(crate) fn count_carried(&self, count: impl FnOnce(&mut Carried)) {
        count(&mut self.holdings.borrow_mut().carried);
    }

    /// Sends a request to the daemon, and repeats it if the daemon was gone and is back.
    pub(crate) fn retried<T>(
        &self,
        mut exchange: impl FnMut(&mut Client) -> Result<T>,
    ) -> Result<T> {
        let mut retried = exchange(&mut self.client.borrow_mut());
        for _ in 0..REQUEST_RETRIES_MAX {
            match retried {
                Err(error) => self.survive(error)?,
                answered => return answered,
            }
            retried = exchange(&mut self.client.borrow_mut());
        }
        retried
    }

    /// A call met `error`. `Ok`: the daemon was gone and is back, so the call may go on.
    #[cold]
    pub(crate) fn survive(&self, error: Error) -> Result<()> {
        let Some(patience) = self.patience.get() else {
            self.outage.set(None);
            return Err(error);
        };
        let is_gone = matches!(error, Error::DaemonGone { .. }) && self.client.borrow().is_gone();
        if !is_gone || self.has_notices() {
            return Err(error);
        }
        let since = Instant::now();
        let mut outage = match self.outage.take() {
            Some(outage) => outage,
            None => {
                let farewell = self.client.borrow_mut().farewell();
                if farewell == Farewell::Detached {
                    self.patience.set(None);
                    return Err(error);
                }
                let in_order = farewell == Farewell::InOrder;
                if in_order {
                    self.holdings.borrow_mut().ends_in_order(self.generation());
                }
                Outage {
                    since,
                    deadline: since + patience,
                    in_order,
                    next_attempt: since,
                }
            }
        };
        if since < outage.next_attempt {
            self.outage.set(Some(outage));
            return Err(error);
        }
        loop {
            match self.reattach(outage.deadline) {
                Ok(()) => break,
                Err(passing) if is_passing(&passing) => {
                    let next_attempt = Instant::now() + PAUSE;
                    if next_attempt >= outage.deadline {
                        self.patience.set(None);
                        return Err(error);
                    }
                    if self.has_tasks() {
                        // The tasks sleep, and this thread does not.
                        outage.next_attempt = next_attempt;
                        self.outage.set(Some(outage));
                        return Err(error);
                    }
                    thread::sleep(PAUSE);
                }
                // A timeout while attaching is no result of the call, which may have been executed:
                // report the daemon as gone.
                Err(Error::Deadline { .. }) => {
                    self.patience.set(None);
                    return Err(error);
                }
                Err(lasting) => {
                    self.patience.set(None);
                    return Err(lasting);
                }
            }
        }
        self.holdings.borrow_mut().reconnected(Reconnection {
            gap: outage.since.elapsed(),
            in_order: outage.in_order,
        });
        Ok(())
    }

    /// Whether tasks wait for the daemon to come back. Until then, calls return
    /// [`Error::DaemonGone`].
    pub(crate) const fn is_away(&self) -> bool {
        self.outage.get().is_some()
    }

    fn reattach(&self, deadline: Instant) -> Result<()> {
        let mut client = Client::connect_timeout(&self.socket, &self.program, deadline)?;
        let found = client.node();
        if found.guid != self.node().guid {
            return Err(Error::AnotherNode {
                socket: self.socket.clone(),
                expected: format!("{} ({})", self.node().name, self.node().guid),
                found: format!("{} ({})", found.name, found.guid),
            });
        }
        let (number, mut session) = Session::open(&mut client, self.lane(), deadline)?;
        // Set this even if the attempt fails: a registered queue may receive messages although the
        // daemon is gone again.
        let generation = self.generation.get() + 1;
        self.generation.set(generation);
        let mut holdings = self.holdings.borrow_mut();
        for pipe in holdings.restore(&mut client, generation, deadline)? {
            session.opened(pipe, true)?;
            // Its old memory may have data.
            session.make_ready(pipe);
        }
        drop(holdings);
        self.changed(client, session, number)
    }
}

/// Whether a daemon that is being restarted shows like that.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::DaemonGone { .. } => true,
        Error::Unreachable { cause, .. } => matches!(
            cause.kind(),
            ErrorKind::NotFound
                | ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                // The socket is there and its mode is still to be set.
                | ErrorKind::PermissionDenied
        ),
        _ => false,
    }
}
