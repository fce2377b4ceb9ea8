//! Faults of a mesh.

use crate::shape::Shape;

/// One fault, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeshFault {
    /// A cable loses everything towards the named ends, including the frames in flight. The ports
    /// at the ends that notice lose their carrier.
    Cut {
        cable: u16,
        /// By the end that receives nothing any more.
        towards: [bool; 2],
        noticed: [bool; 2],
    },
    /// A cable loses so many frames in a thousand.
    Loss {
        cable: u16,
        /// Frames in a thousand.
        thousandths: u32,
    },
    /// A cable is whole again, and both ports see it.
    Mend { cable: u16 },
    /// A node is off. Its neighbors' ports lose their carrier, if `noticed`.
    Crash {
        node: u16,
        /// Whether carriers report it.
        noticed: bool,
    },
    /// A node that is off starts without any memory.
    Start { node: u16 },
    /// A node stalls. Arriving frames wait.
    Stall { node: u16, for_units: u64 },
}

impl MeshFault {
    /// Describes the fault, for display.
    #[must_use]
    pub fn text(&self, shape: &Shape) -> String {
        let name = |node: u16| shape.node_name(usize::from(node));
        let ends = |cable: u16| shape.cables[usize::from(cable)].map(name);
        match *self {
            Self::Cut {
                cable,
                towards,
                noticed,
            } => {
                let [a, b] = ends(cable);
                let how = match towards {
                    [true, true] => "in both directions".to_owned(),
                    [true, false] => format!("towards {a}"),
                    [false, true] => format!("towards {b}"),
                    [false, false] => "in no direction".to_owned(),
                };
                let observers = match noticed {
                    [true, true] => "both notice".to_owned(),
                    [true, false] => format!("{a} notices"),
                    [false, true] => format!("{b} notices"),
                    [false, false] => "no end notices".to_owned(),
                };
                format!("the cable {a}-{b} is cut {how}; {observers}")
            }
            Self::Loss { cable, thousandths } => {
                let [a, b] = ends(cable);
                format!("the cable {a}-{b} loses {thousandths} ‰ of its frames")
            }
            Self::Mend { cable } => {
                let [a, b] = ends(cable);
                format!("the cable {a}-{b} is whole")
            }
            Self::Crash { node, noticed } => {
                let how = if noticed {
                    ""
                } else {
                    ", and no carrier drops"
                };
                format!("{} crashes{how}", name(node))
            }
            Self::Start { node } => format!("{} starts", name(node)),
            Self::Stall { node, for_units } => format!(
                "{} stalls for {} round trips",
                name(node),
                for_units as f64 / super::time::ROUND_TRIP_UNITS as f64
            ),
        }
    }
}
