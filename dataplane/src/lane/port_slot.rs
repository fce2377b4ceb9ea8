//! A port as its lane drives it.

use covalent_api::rule::{Action, Match, Rule};
use covalent_pipe::Refused;

use super::stamp;
use crate::{
    flow::{FlowTable, key},
    port::{Port, PortError, SteerChange, TxRefusal},
};

/// Places that data leaves free in a link port's transmit ring, so that link records are never behind a full ring.
pub const LINK_RESERVE_FRAMES: usize = 8;

/// Where a frame goes that steering found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Into the pipe in this slot of the lane.
    Pipe(usize),
    /// A configured rule leaves it to the kernel. Where there is a kernel below, it never comes up here.
    Kernel,
}

/// A port with what its lane keeps beside it.
pub struct PortSlot {
    /// Index among all ports of the node.
    pub index: u16,
    /// The port.
    pub port: Box<dyn Port>,
    /// Whether it runs the link protocol.
    pub link: bool,
    /// Which frames belong to which pipe.
    pub flow: FlowTable<Target>,
    /// The carrier as last told to the link.
    pub carrier: bool,
    /// Why it cannot be used any more.
    pub gone: Option<String>,
    /// The last doorbell failed; told to the link once per failure.
    pub transmit_failed: bool,
    /// Frames were put in since the last doorbell.
    pub unflushed: bool,
    /// Frames dropped because their pipe was full. The pipe counts them too, but a pipe goes with its application.
    pub pipe_full: u64,
    /// Frames of applications that were not sent because they bear the EtherType of links.
    pub link_type: u64,
    /// Frames that applications' TX pipes refused for this port.
    pub refused: Refused,
    /// Where a frame is copied to be looked at or stamped: as long as the longest frame.
    scratch: Box<[u8]>,
    /// Frames dropped because no pipe is bound to them.
    pub no_pipe: u64,
    /// Frames dropped because a configured rule leaves them to a kernel that this port does not have.
    pub steered_to_kernel: u64,
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
        rules: &[Rule],
    ) -> Result<Self, PortError> {
        let mut flow = FlowTable::default();
        let scratch_bytes = port.info().frame_bytes_max;
        for rule in rules {
            port.steer(&SteerChange::Insert(rule.matches.clone(), rule.action))?;
            if rule.action == Action::Kernel {
                // The configuration check refuses two rules for one match.
                let _ = flow.insert(&rule.matches, Target::Kernel);
            }
        }
        Ok(Self {
            index,
            port,
            link,
            flow,
            // Down until the first look, so that a carrier that is there is told like one that comes.
            carrier: false,
            gone: None,
            transmit_failed: false,
            unflushed: false,
            pipe_full: 0,
            link_type: 0,
            refused: Refused::default(),
            scratch: vec![0; scratch_bytes as usize].into_boxed_slice(),
            no_pipe: 0,
            steered_to_kernel: 0,
        })
    }

    /// Sends an application's frame; one that its peer would take for this node's own word is dropped and counted. `ethertype`: that of
    /// link frames, refused behind VLAN tags too, for a receiver's hardware may take those off. `stamp_at`: where the time is written; one that is too
    /// short for it counts as `unstamped`.
    ///
    /// # Errors
    /// As [`Port::tx`].
    pub fn send_data(
        &mut self,
        frame: &[u8],
        ethertype: u16,
        stamp_at: Option<usize>,
        unstamped: &mut u64,
    ) -> Result<(), TxRefusal> {
        if !self.link && stamp_at.is_none() {
            // Nothing is forbidden, and nothing is changed.
            return self.port.tx(frame);
        }
        let Some(copy) = self.scratch.get_mut(..frame.len()) else {
            // Too long for the port, which says so.
            return self.port.tx(frame);
        };
        // What is looked at must be what is sent, and the application may be changing its memory all the while.
        copy.copy_from_slice(frame);
        if let Some(at) = stamp_at {
            *unstamped += u64::from(!stamp::write(copy, at));
        }
        if self.link && key::ethertype(copy).is_some_and(|(found, _)| found == ethertype) {
            self.link_type += 1;
            return Ok(());
        }
        self.port.tx(copy)
    }

    /// Whether data may be sent now.
    pub fn is_open(&self) -> bool {
        self.carrier && self.gone.is_none()
    }

    /// Frames of data that may be sent now.
    pub fn data_space(&mut self) -> usize {
        if !self.is_open() {
            return 0;
        }
        let reserve = if self.link { LINK_RESERVE_FRAMES } else { 0 };
        self.port.tx_space().saturating_sub(reserve)
    }

    /// Binds `matches` to the pipe in slot `pipe`, in the kernel below too.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn bind(&mut self, matches: &Match, pipe: usize) -> Result<(), BindRefusal> {
        match self.flow.get(matches) {
            Some(Target::Kernel) => return Err(BindRefusal::Kernel),
            Some(Target::Pipe(holder)) => return Err(BindRefusal::Occupied(holder)),
            None => {}
        }
        self.port
            .steer(&SteerChange::Insert(matches.clone(), Action::Dataplane))
            .map_err(|error| BindRefusal::Port(error.to_string()))?;
        let _ = self.flow.insert(matches, Target::Pipe(pipe));
        Ok(())
    }

    /// Takes a binding back, in the kernel below too, where a configured rule for the same match comes into force again.
    pub fn unbind(&mut self, matches: &Match, rules: &[Rule]) {
        self.flow.remove(matches);
        let configured = rules.iter().find(|rule| rule.matches == *matches);
        let change = match configured {
            Some(rule) => SteerChange::Insert(matches.clone(), rule.action),
            None => SteerChange::Remove(matches.clone()),
        };
        // Taking a rule out fails only when the kernel's table is beyond use; its frames then come up and are counted.
        let _ = self.port.steer(&change);
    }
}

/// Why a binding was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindRefusal {
    /// A configured rule leaves these frames to the kernel.
    Kernel,
    /// The pipe in this slot is bound to them.
    Occupied(usize),
    /// The kernel below refused.
    Port(String),
}
