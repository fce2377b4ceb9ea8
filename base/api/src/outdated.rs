//! Whether a port still matches its interface. It compares facts, not events, so repeated, lost and
//! late notifications have the same result.

use std::fmt;

use crate::{agreement::PortFacts, control::InterfaceStatus};

/// Reason to reopen a port: a property of its interface that differs from when the port was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outdated {
    /// Another interface has the name: the port's interface was removed and recreated, or renamed.
    AnotherInterface {
        /// Its index then.
        was: u32,
        /// Its index now.
        is: u32,
    },
    /// It has another hardware address.
    Address {
        /// The one it had.
        was: String,
        /// The one it has.
        is: String,
    },
    /// It has another MTU.
    Mtu {
        /// The one it had, in bytes.
        was: u32,
        /// The one it has, in bytes.
        is: u32,
    },
    /// The port is to have all of its receive queues, and their number is another.
    Queues {
        /// How many there were.
        was: u32,
        /// How many there are.
        is: u32,
    },
    /// The port's XDP program is not attached any more.
    ProgramGone {
        /// Its number in the kernel.
        id: u32,
    },
}

impl fmt::Display for Outdated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnotherInterface { was, is } => {
                write!(
                    f,
                    "another interface has its name (index {was} then, {is} now)"
                )
            }
            Self::Address { was, is } => write!(f, "its address was {was} and is {is}"),
            Self::Mtu { was, is } => write!(f, "its MTU was {was} and is {is} bytes"),
            Self::Queues { was, is } => write!(f, "it had {was} receive queues and has {is}"),
            Self::ProgramGone { id } => {
                write!(
                    f,
                    "the port's XDP program (id {id}) is not attached any more"
                )
            }
        }
    }
}

/// The reason to reopen a port. `None`: it matches its interface as far as known, or there is no
/// interface to open.
#[must_use]
pub fn outdated(port: &PortFacts, seen: &InterfaceStatus) -> Option<Outdated> {
    let index = seen.index?;
    if index != port.index {
        return Some(Outdated::AnotherInterface {
            was: port.index,
            is: index,
        });
    }
    if let Some(address) = seen.address.as_ref().filter(|is| **is != port.address) {
        return Some(Outdated::Address {
            was: port.address.clone(),
            is: address.clone(),
        });
    }
    if seen.mtu_bytes != port.mtu_bytes {
        return Some(Outdated::Mtu {
            was: port.mtu_bytes,
            is: seen.mtu_bytes,
        });
    }
    // If a device does not report its queues, the daemon assumes a single queue.
    let queues = seen.channels.map(|channels| channels.receiving().max(1));
    if let Some(is) = queues.filter(|is| port.all_queues && *is != port.queues) {
        return Some(Outdated::Queues {
            was: port.queues,
            is,
        });
    }
    let attached = seen.programs.iter().any(|it| it.id == port.program_id);
    (!attached).then_some(Outdated::ProgramGone {
        id: port.program_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Channels, XdpProgram};

    fn port() -> PortFacts {
        PortFacts {
            index: 7,
            address: "02:00:00:00:00:01".into(),
            mtu_bytes: 1500,
            queues: 2,
            all_queues: true,
            program_id: 40,
        }
    }

    fn program(id: u32) -> XdpProgram {
        XdpProgram {
            mode: "native".into(),
            id,
        }
    }

    /// The interface state with which `port` was opened.
    fn seen() -> InterfaceStatus {
        InterfaceStatus {
            index: Some(7),
            mtu_bytes: 1500,
            address: Some("02:00:00:00:00:01".into()),
            programs: vec![program(40)],
            channels: Some(Channels {
                combined: 2,
                ..Channels::default()
            }),
            ..InterfaceStatus::absent("p0", "v0")
        }
    }

    fn with(change: impl FnOnce(&mut InterfaceStatus)) -> Option<Outdated> {
        let mut seen = seen();
        change(&mut seen);
        outdated(&port(), &seen)
    }

    #[test]
    fn each_fact_is_compared() {
        assert_eq!(outdated(&port(), &seen()), None);
        let other = Outdated::AnotherInterface { was: 7, is: 9 };
        assert_eq!(with(|it| it.index = Some(9)), Some(other));
        let address = Outdated::Address {
            was: port().address,
            is: "02:00:00:00:00:02".into(),
        };
        let changed = |it: &mut InterfaceStatus| it.address = Some("02:00:00:00:00:02".into());
        assert_eq!(with(changed), Some(address));
        let mtu = Outdated::Mtu {
            was: 1500,
            is: 1400,
        };
        assert_eq!(with(|it| it.mtu_bytes = 1400), Some(mtu));
        let queues = |count| {
            with(|it| {
                it.channels = Some(Channels {
                    rx: count,
                    ..Channels::default()
                });
            })
        };
        assert_eq!(queues(3), Some(Outdated::Queues { was: 2, is: 3 }));
        assert_eq!(queues(2), None);
        let gone = Some(Outdated::ProgramGone { id: 40 });
        assert_eq!(with(|it| it.programs.clear()), gone);
        assert_eq!(with(|it| it.programs = vec![program(41)]), gone);
        let beside = vec![program(41), program(40)];
        assert_eq!(with(|it| it.programs = beside), None);
    }

    #[test]
    fn irrelevant_changes_do_not_make_a_port_outdated() {
        // Nothing to open it on.
        assert_eq!(with(|it| it.index = None), None);
        // Not reported.
        assert_eq!(with(|it| it.address = None), None);
        assert_eq!(with(|it| it.channels = None), None);
        // The lane receives carrier changes itself. An administrator who sets an interface down
        // does so on purpose.
        assert_eq!(with(|it| it.carrier = !it.carrier), None);
        assert_eq!(with(|it| it.admin_up = !it.admin_up), None);
        // A port that has some of the queues keeps them.
        let some = PortFacts {
            all_queues: false,
            ..port()
        };
        let mut more = seen();
        more.channels = Some(Channels {
            combined: 8,
            ..Channels::default()
        });
        assert_eq!(outdated(&some, &more), None);
        // A device that does not count its queues has one.
        let single = PortFacts {
            queues: 1,
            ..port()
        };
        let mut none = seen();
        none.channels = Some(Channels::default());
        assert_eq!(outdated(&single, &none), None);
    }

    #[test]
    fn the_most_important_reason_is_reported() {
        let all = with(|it| {
            it.index = Some(8);
            it.mtu_bytes = 9000;
            it.programs.clear();
        });
        let first = Outdated::AnotherInterface { was: 7, is: 8 };
        assert_eq!(all, Some(first.clone()));
        assert_eq!(
            first.to_string(),
            "another interface has its name (index 7 then, 8 now)"
        );
    }
}
