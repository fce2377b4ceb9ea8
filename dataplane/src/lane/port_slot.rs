//! A port as its lane drives it.

use covalent_api::{
    ethertype,
    rule::{Action, Match},
};
use covalent_pipe::{Refused, SharedBytes};

use super::{policy::Policy, round_trips::LinkRoundTrips, stamp, tap::Tap};
use crate::{
    flow::{Bindings, Claim, ClaimRefusal},
    port::{Port, PortCounters, PortError, SteerChange, TxRefusal, absent::AbsentPort},
};

/// Entries that data leaves free in the transmit ring of a port whose link has no ring of its own.
/// So link records never wait behind a full ring.
pub const LINK_RESERVE_FRAMES: usize = 8;

/// [`covalent_api::status::PortMode::xdp`] of a port without an XDP program.
const NO_PROGRAM: &str = "none";

/// A port with its state on the lane.
pub struct PortSlot {
    /// Index among all ports of the node.
    pub index: u16,
    /// The port.
    pub port: Box<dyn Port>,
    /// Whether it runs the link protocol.
    pub link: bool,
    /// Whether it is configured. A port that is not keeps its slot and its bindings for its return.
    pub is_configured: bool,
    /// Whether it is an end of a cable between two lanes.
    pub joins_lanes: bool,
    /// Which frames belong to which pipe.
    pub flow: Bindings,
    /// The carrier as last reported to the link.
    pub carrier: bool,
    /// Counters of earlier ports in this slot.
    before: PortCounters,
    /// A port whose device is gone, and which only this lane may close, with its last port.
    kept: Option<Box<dyn Port>>,
    /// The last doorbell failed. The link gets one report per failure.
    pub transmit_failed: bool,
    /// Frames were put in since the last doorbell.
    pub unflushed: bool,
    /// Frames dropped because their pipe was full. The pipe counts them too, but it ends with its
    /// application.
    pub pipe_full: u64,
    /// Frames of applications that were not sent because they bear the EtherType of links, and that
    /// no TX pipe refused.
    pub link_type: u64,
    /// Frames that applications' TX pipes refused for this port.
    pub refused: Refused,
    /// Where a frame is copied to be looked at or stamped: as long as the longest frame.
    scratch: Box<[u8]>,
    /// Frames that the ports in this slot lost before their destination was known, as of the last
    /// count.
    pub lost: u64,
    /// Frames dropped because no pipe is bound to them.
    pub no_pipe: u64,
    /// Frames dropped because a configured rule leaves them to a kernel that this port does not
    /// have.
    pub steered_to_kernel: u64,
    /// Frames that the lane dropped because of a configured rule or the action on misses.
    pub steered_to_drop: u64,
    /// Whether a frame without an owner counts as a configured drop. If not, a rule for the
    /// dataplane brought it here.
    pub drops_misses: bool,
    /// The capture of this port's frames, if there is one.
    pub tap: Option<Box<Tap>>,
    /// How long words of its link and their reflections took.
    pub round_trips: LinkRoundTrips,
}

impl PortSlot {
    /// `port` with the configured rules in force, above and below.
    ///
    /// # Errors
    /// The kernel below refused a rule.
    pub fn new(
        index: u16,
        mut port: Box<dyn Port>,
        link: bool,
        policy: &Policy,
    ) -> Result<Self, PortError> {
        let mut flow = Bindings::default();
        port.steer(&SteerChange::Default(policy.miss))?;
        for (matches, action) in policy.rules() {
            port.steer(&SteerChange::Insert(matches.clone(), action))?;
            flow.set_rule(matches, Some(action));
        }
        Ok(Self::with(index, port, link, flow, policy))
    }

    /// Wraps `port`, which already has the configured rules and the bindings in `flow`.
    pub fn with(
        index: u16,
        port: Box<dyn Port>,
        link: bool,
        flow: Bindings,
        policy: &Policy,
    ) -> Self {
        let scratch_bytes = port.info().frame_bytes_max;
        let mut slot = Self {
            index,
            port,
            link,
            is_configured: true,
            joins_lanes: false,
            flow,
            // Down until the first check, so that an existing carrier is reported like a new one.
            carrier: false,
            before: PortCounters::default(),
            kept: None,
            transmit_failed: false,
            unflushed: false,
            pipe_full: 0,
            link_type: 0,
            refused: Refused::default(),
            scratch: vec![0; scratch_bytes as usize].into_boxed_slice(),
            lost: 0,
            no_pipe: 0,
            steered_to_kernel: 0,
            steered_to_drop: 0,
            drops_misses: false,
            tap: None,
            round_trips: LinkRoundTrips::default(),
        };
        slot.take_over_misses(policy.miss);
        slot
    }

    /// Sets the action for frames without an owner.
    pub fn take_over_misses(&mut self, miss: Action) {
        // An XDP program has already dropped the misses: frames that arrive here matched a rule for
        // the dataplane.
        self.drops_misses = miss == Action::Drop && self.port.info().mode.xdp == NO_PROGRAM;
    }

    /// Sends an application's frame. Drops and counts a frame that the peer would take for a link
    /// frame of this node.
    ///
    /// `link_ethertype`: the EtherType of link frames, also refused behind VLAN tags, because a
    /// receiver's hardware may strip these. `stamp_at`: the offset of the timestamp. A frame that
    /// is too short for it counts as `unstamped`.
    ///
    /// # Errors
    /// As [`Port::tx`].
    pub fn send_data(
        &mut self,
        frame: SharedBytes<'_>,
        link_ethertype: u16,
        stamp_at: Option<usize>,
        unstamped: &mut u64,
    ) -> Result<(), TxRefusal> {
        if !self.link && stamp_at.is_none() && self.tap.is_none() {
            // Every frame is allowed, none is changed, and no tap needs a copy.
            return self.port.tx_shared(frame);
        }
        let Some(copy) = self.scratch.get_mut(..frame.len()) else {
            // Too long for the port, which returns the error.
            return self.port.tx_shared(frame);
        };
        // The lane judges, the tap keeps and the port sends the same copy: the application may
        // change its memory at any time.
        frame.copy_to(copy);
        let stamped = stamp_at.is_none_or(|at| stamp::write(copy, at));
        if self.link && ethertype::of(copy).is_some_and(|(found, _)| found == link_ethertype) {
            self.link_type += 1;
            return Ok(());
        }
        transmit(&mut *self.port, &mut self.tap, copy, false)?;
        *unstamped += u64::from(!stamped);
        Ok(())
    }

    /// Sends a frame, of the link or of an application.
    ///
    /// # Errors
    /// As [`Port::tx`].
    pub fn send(&mut self, frame: &[u8], is_link: bool) -> Result<(), TxRefusal> {
        transmit(&mut *self.port, &mut self.tap, frame, is_link)
    }

    /// Replaces the port, whose device is gone, by a placeholder port. Returns the port if another
    /// thread is to close it. Bindings and counters stay: only the device changes.
    pub fn detach_device(&mut self, error: &PortError) -> Option<Box<dyn Port>> {
        let absent = AbsentPort::after(self.port.info().clone(), error);
        let port = self.exchange(Box::new(absent));
        if port.may_close_elsewhere() {
            return Some(port);
        }
        self.kept = Some(port);
        None
    }

    /// Detaches the port for this reason and leaves a placeholder port in its slot. The next check
    /// of the carrier reports it to the link.
    pub fn take_out(&mut self, reason: &str) -> Box<dyn Port> {
        let absent = AbsentPort::in_place_of(self.port.info().clone(), reason);
        self.exchange(Box::new(absent))
    }

    /// Replaces the port in this slot and returns the old one. Bindings and counters stay. The
    /// caller has reported the loss of carrier before, unless the new port has no carrier.
    pub fn exchange(&mut self, port: Box<dyn Port>) -> Box<dyn Port> {
        let frame_bytes_max = port.info().frame_bytes_max as usize;
        if frame_bytes_max > self.scratch.len() {
            self.scratch = vec![0; frame_bytes_max].into_boxed_slice();
        }
        let port = std::mem::replace(&mut self.port, port);
        self.before.add(port.counters());
        self.unflushed = false;
        self.transmit_failed = false;
        port
    }

    /// Returns all counters of this slot since the daemon's start, across replaced ports. Not for
    /// the packet path, as [`Port::counters`].
    pub fn counters(&self) -> PortCounters {
        self.with_before(self.port.counters())
    }

    /// Returns the same, and stores the lost frames for the report to each pipe.
    pub fn count(&mut self) -> PortCounters {
        let counters = self.counters();
        self.lost = counters.lost_on_arrival();
        counters
    }

    /// The same without system calls: [`Port::counters_at_hand`].
    pub fn counters_at_hand(&self) -> PortCounters {
        self.with_before(self.port.counters_at_hand())
    }

    fn with_before(&self, mut counters: PortCounters) -> PortCounters {
        counters.add(self.before.clone());
        counters
    }

    /// Whether data may be sent now.
    pub fn is_open(&self) -> bool {
        self.carrier
    }

    /// Frames of data that may be sent now.
    pub fn data_space(&mut self) -> usize {
        if !self.is_open() {
            return 0;
        }
        let shared = self.link && self.port.link_tx_space().is_none();
        let reserve = if shared { LINK_RESERVE_FRAMES } else { 0 };
        self.port.tx_space().saturating_sub(reserve)
    }

    /// Whether a frame of the link may be sent now.
    pub fn has_link_space(&mut self) -> bool {
        let space = self.port.link_tx_space();
        space.unwrap_or_else(|| self.port.tx_space()) > 0
    }

    /// Binds `matches` to a pipe, also in the kernel if the match was free.
    ///
    /// # Errors
    /// The reason why nothing changed.
    pub fn bind(
        &mut self,
        matches: &Match,
        claim: Claim,
        policy: &Policy,
    ) -> Result<(), BindRefusal> {
        if self.flow.bind(matches, claim).map_err(BindRefusal::Claim)? {
            let change = SteerChange::Insert(matches.clone(), Action::Dataplane);
            if let Err(error) = self.port.steer(&change) {
                self.unbind(matches, claim.pipe, policy);
                return Err(BindRefusal::Port(error.to_string()));
            }
        }
        Ok(())
    }

    /// Removes a binding. If the match is free now, a configured rule for it takes effect again in
    /// the kernel.
    pub fn unbind(&mut self, matches: &Match, pipe: usize, policy: &Policy) {
        if self.flow.unbind(matches, pipe) {
            // Removing a rule fails only if the kernel's table is unusable. Its frames then arrive
            // here and are counted.
            let _ = self.reconcile(matches, policy);
        }
    }

    /// Applies `policy` to one match, in the lane and in the kernel, whatever the previous state. A
    /// pipe that holds the match keeps it.
    ///
    /// # Errors
    /// The kernel refused; nothing has changed.
    pub fn reconcile(&mut self, matches: &Match, policy: &Policy) -> Result<(), PortError> {
        if self.flow.pipe_with(matches).is_some() {
            return Ok(());
        }
        let configured = policy.action(matches);
        self.port.steer(&match (configured, matches) {
            (Some(action), _) => SteerChange::Insert(matches.clone(), action),
            (None, Match::Any) => SteerChange::Default(policy.miss),
            (None, _) => SteerChange::Remove(matches.clone()),
        })?;
        self.flow.set_rule(matches, configured);
        Ok(())
    }
}

/// Sends a frame, and passes a copy to the tap.
fn transmit(
    port: &mut dyn Port,
    tap: &mut Option<Box<Tap>>,
    frame: &[u8],
    is_link: bool,
) -> Result<(), TxRefusal> {
    port.tx(frame)?;
    if let Some(tap) = tap {
        tap.capture(frame, is_link, true);
    }
    Ok(())
}

/// Why a binding was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindRefusal {
    /// The match has another holder.
    Claim(ClaimRefusal),
    /// The kernel below refused.
    Port(String),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        os::fd::OwnedFd,
        sync::{
            Arc, Mutex,
            atomic::{AtomicBool, Ordering},
        },
        thread,
        time::{Duration, Instant},
    };

    use covalent_config::Config;
    use covalent_pipe::{Direction, PagePolicy, PipeMemory, PipeSpec, app::TxPipe, nic::NicPipe};
    use nix::sys::uio::pwrite;

    use super::*;
    use crate::lane::played_port::{Part, PlayedPort};

    const LINK_TYPE: u16 = 0x88b5;
    const OTHER_TYPE: u16 = 0x0800;
    const FRAME_BYTES: usize = 64;
    const CAPACITY_BYTES: u64 = 4096;
    /// How long the writer and the lane may take until each frame was seen both ways.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Records the EtherTypes of sent frames.
    struct Keeps(Arc<Mutex<Vec<u16>>>);

    impl Part for Keeps {
        fn sent(&mut self, frame: &[u8]) {
            let (found, _) = ethertype::of(frame).unwrap();
            self.0.lock().unwrap().push(found);
        }
    }

    /// A ring full of frames with this EtherType.
    fn image(ethertype: u16) -> Vec<u8> {
        let mut frame = [0; FRAME_BYTES];
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        frame.repeat(CAPACITY_BYTES as usize / FRAME_BYTES)
    }

    /// Overwrites all frames of the ring with each EtherType in turn, until `stop` is set.
    fn race(ring: &OwnedFd, stop: &AtomicBool) {
        let images = [LINK_TYPE, OTHER_TYPE].map(image);
        while !stop.load(Ordering::Relaxed) {
            for image in &images {
                pwrite(ring, image, 0).unwrap();
            }
        }
    }

    #[test]
    fn a_frame_changed_by_its_application_is_sent_as_it_was_checked() {
        let memory = PipeMemory::create(&PipeSpec {
            direction: Direction::Tx,
            capacity_bytes: CAPACITY_BYTES,
            pages: PagePolicy::Never,
        })
        .unwrap();
        let fds = memory.fds().map(|fd| fd.try_clone_to_owned().unwrap());
        let ring = fds[1].try_clone().unwrap();
        let opened = PipeMemory::open(fds, Direction::Tx, CAPACITY_BYTES).unwrap();
        let (mut nic, mut app) = (NicPipe::new(memory), TxPipe::new(opened).unwrap());
        let text = "[node]\nname = \"a\"\n[[port]]\nname = \"p0\"\nkind = \"pcap\"\n";
        let policy = Policy::new(&Config::parse(text, "test").unwrap());
        let kept = Arc::new(Mutex::new(Vec::new()));
        let port = PlayedPort::new("p0", Keeps(kept.clone()));
        let mut slot = PortSlot::new(0, port, true, &policy).unwrap();
        let stop = AtomicBool::new(false);
        let began = Instant::now();
        let mut offered = 0;
        thread::scope(|scope| {
            scope.spawn(|| race(&ring, &stop));
            // Until the lane has seen each EtherType often, or nothing more is to be hoped for.
            while began.elapsed() < PATIENCE {
                for _ in 0..32 {
                    app.send(&[0; FRAME_BYTES]).unwrap();
                }
                app.publish();
                offered += nic
                    .take_tx(32, |frame| {
                        let sent = slot.send_data(frame, LINK_TYPE, None, &mut 0);
                        sent.is_ok()
                    })
                    .unwrap() as u64;
                nic.complete_tx();
                let seen = slot.link_type.min(kept.lock().unwrap().len() as u64);
                if seen > 20_000 {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let kept = kept.lock().unwrap();
        assert!(slot.link_type > 0, "the writer never interleaved");
        assert!(kept.contains(&OTHER_TYPE));
        assert!(
            !kept.contains(&LINK_TYPE),
            "of {} sent frames, {} had been classified as others",
            kept.len(),
            kept.iter().filter(|&&found| found == LINK_TYPE).count()
        );
        assert_eq!(slot.link_type + kept.len() as u64, offered);
    }
}
