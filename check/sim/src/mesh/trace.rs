//! Recorded events, for a page.

use super::{
    book::Reported,
    content::FrameKind,
    fact::MeshFact,
    fault::MeshFault,
    scene::{MeshScene, Route},
};
use crate::harness::Violation;

/// Most marks that are kept, and most frames. A page with more is slow to open.
const KEPT_MAX: usize = 10_000;

/// Most frames that are kept with their bytes: some hundred mebibytes.
const CAPTURED_MAX: usize = 500_000;

/// Topic of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// A fault, or its end.
    Fault,
    /// A link came up at a node.
    Up,
    /// A link failed at a node.
    Down,
    /// A node has another parent.
    Attached,
    /// A node knows no way to a root.
    Lost,
    /// A path came up or failed at an end.
    Path,
    /// A node was notified of an outcome other than "committed".
    Ended,
    /// An invariant was broken.
    Violation,
}

impl MarkKind {
    /// Its name, for people and for the page's script.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Up => "up",
            Self::Down => "down",
            Self::Attached => "hangs",
            Self::Lost => "lost",
            Self::Path => "path",
            Self::Ended => "ended",
            Self::Violation => "violation",
        }
    }
}

/// Something that happened at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at_units: u64,
    /// At which node, if it was at one.
    pub node: Option<u16>,
    /// Its topic.
    pub kind: MarkKind,
    /// Description of the event.
    pub text: String,
}

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrow {
    /// Kind of its contents.
    pub kind: FrameKind,
    /// The sender.
    pub from: u16,
    /// The receiver.
    pub to: u16,
    /// When it was sent.
    pub sent_units: u64,
    /// When it arrives; `None` if it is lost at once.
    pub arrives_units: Option<u64>,
}

/// A frame as it was put on a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFrame {
    /// When.
    pub at_units: u64,
    /// On which cable.
    pub cable: u16,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// How a cable stands from one moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CableChange {
    /// When.
    pub at_units: u64,
    /// Which cable.
    pub cable: u16,
    /// At how many ends its link is up.
    pub ends_up: u8,
}

/// Parent of a node from one moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentChange {
    /// When.
    pub at_units: u64,
    /// The node.
    pub node: u16,
    /// The parent; `None` if it has none.
    pub parent: Option<u16>,
}

/// Recorded events.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// In the order of time.
    pub marks: Vec<Mark>,
    /// In the order in which they were sent. Frames with only keepalives are not kept.
    pub arrows: Vec<Arrow>,
    /// In the order of time.
    pub cables: Vec<CableChange>,
    /// In the tree that is drawn, in the order of time.
    pub parents: Vec<ParentChange>,
    /// Root of the drawn tree, whose marks alone are kept. Without it, the tree of node 0 is drawn
    /// and all marks are kept.
    pub root: Option<u16>,
    /// Number of events not kept, because there were too many or because they were not requested.
    pub left_out: u64,
    /// Frames sent on cables, byte for byte and in sending order, if requested.
    pub frames: Option<Vec<CapturedFrame>>,
    /// Range of time whose events are kept, in units, if requested.
    pub stretch_units: Option<[u64; 2]>,
}

impl Trace {
    /// Keeps only events in a range of time, if given, and of trees only that of a root, if given.
    #[must_use]
    pub fn of(stretch_units: Option<[u64; 2]>, root: Option<u16>) -> Self {
        Self {
            stretch_units,
            root,
            ..Self::default()
        }
    }

    /// Keeps a frame that is sent on a cable, if requested.
    pub(super) fn capture(&mut self, at_units: u64, cable: u16, frame: &[u8]) {
        let inside = self.is_inside(at_units);
        let Some(frames) = &mut self.frames else {
            return;
        };
        if inside && frames.len() < CAPTURED_MAX {
            let bytes = frame.to_vec();
            frames.push(CapturedFrame {
                at_units,
                cable,
                bytes,
            });
        } else {
            self.left_out += 1;
        }
    }

    fn is_inside(&self, at_units: u64) -> bool {
        self.stretch_units
            .is_none_or(|[from, to]| (from..=to).contains(&at_units))
    }

    fn keeps(&mut self, at_units: u64, kept_so_far: usize) -> bool {
        let kept = self.is_inside(at_units) && kept_so_far < KEPT_MAX;
        self.left_out += u64::from(!kept);
        kept
    }

    pub(super) fn record(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) {
        let at_units = scene.now_units;
        let name = |node: u16| scene.shape.node_name(usize::from(node));
        let (node, kind, text) = match *fact {
            MeshFact::Up { at, epoch } => {
                self.record_cable(usize::from(at.cable), scene);
                let [node, other] = both(at, scene);
                let text = format!("the link to {} is up, epoch {epoch}", name(other));
                (Some(node), MarkKind::Up, text)
            }
            MeshFact::Down { at, reason } => {
                self.record_cable(usize::from(at.cable), scene);
                let [node, other] = both(at, scene);
                let root = self.root.unwrap_or(0);
                if scene.route(root, node) == Route::Fallen {
                    self.record_parent(root, node, None, scene);
                }
                let text = format!("the link to {} failed: {reason}", name(other));
                (Some(node), MarkKind::Down, text)
            }
            MeshFact::Fault(fault) => {
                let node = match *fault {
                    MeshFault::Crash { node, .. } => {
                        self.record_parent(self.root.unwrap_or(0), node, None, scene);
                        for cable in 0..scene.shape.cables.len() {
                            if scene.shape.cables[cable].contains(&node) {
                                self.record_cable(cable, scene);
                            }
                        }
                        Some(node)
                    }
                    MeshFault::Start { node } | MeshFault::Stall { node, .. } => Some(node),
                    _ => None,
                };
                (node, MarkKind::Fault, fault.text(&scene.shape))
            }
            MeshFact::Reported { by, how, token } => match how {
                Reported::Committed(_) => return,
                Reported::Refused => {
                    let text = format!("exchange {token} is refused");
                    (Some(by), MarkKind::Ended, text)
                }
                Reported::NotExecuted => {
                    let text = format!("exchange {token} was not executed, and never will be");
                    (Some(by), MarkKind::Ended, text)
                }
                Reported::Restarted => {
                    let text = format!("exchange {token} ended: its peer restarted");
                    (Some(by), MarkKind::Ended, text)
                }
            },
            MeshFact::Doubted { token, by } => {
                let text = format!("exchange {token} is in doubt");
                (Some(by), MarkKind::Ended, text)
            }
            MeshFact::Sent {
                from,
                content,
                arrives_in,
            } => {
                if content.kind > FrameKind::Keepalive && self.keeps(at_units, self.arrows.len()) {
                    let [from, to] = both(from, scene);
                    self.arrows.push(Arrow {
                        kind: content.kind,
                        from,
                        to,
                        sent_units: at_units,
                        arrives_units: arrives_in.map(|units| at_units + units),
                    });
                }
                return;
            }
            MeshFact::Attached { at, root } => {
                let [node, parent] = both(at, scene);
                self.record_parent(root, node, Some(parent), scene);
                if self.root.is_some_and(|chosen| chosen != root) {
                    return;
                }
                let text = format!("attaches to {} in the tree of {}", name(parent), name(root));
                (Some(node), MarkKind::Attached, text)
            }
            MeshFact::Searches { node, root } => {
                self.record_parent(root, node, None, scene);
                if self.root.is_some_and(|chosen| chosen != root) {
                    return;
                }
                let text = format!("searches for another route to {}", name(root));
                (Some(node), MarkKind::Lost, text)
            }
            MeshFact::Lost { node, root } => {
                self.record_parent(root, node, None, scene);
                if self.root.is_some_and(|chosen| chosen != root) {
                    return;
                }
                let text = format!("has no route to {}", name(root));
                (Some(node), MarkKind::Lost, text)
            }
            MeshFact::PathUp { at, far } => {
                let text = format!("a path to {} is up", name(far));
                (Some(at), MarkKind::Path, text)
            }
            MeshFact::PathDown { at, port, reason } => {
                let text = format!("the path at its end {port} ended: {reason}");
                (Some(at), MarkKind::Path, text)
            }
            MeshFact::Complained { node, event } => {
                (Some(node), MarkKind::Lost, format!("reports {event:?}"))
            }
            MeshFact::Requested { .. }
            | MeshFact::GaveUp { .. }
            | MeshFact::Executed { .. }
            | MeshFact::AtRest { .. }
            | MeshFact::Idle { .. }
            | MeshFact::Sampled(_)
            | MeshFact::Took { .. }
            | MeshFact::Tree { .. } => return,
        };
        if self.keeps(at_units, self.marks.len()) {
            self.marks.push(Mark {
                at_units,
                node,
                kind,
                text,
            });
        }
    }

    fn record_parent(&mut self, root: u16, node: u16, parent: Option<u16>, scene: &MeshScene) {
        if root == self.root.unwrap_or(0) {
            self.parents.push(ParentChange {
                at_units: scene.now_units,
                node,
                parent,
            });
        }
    }

    fn record_cable(&mut self, cable: usize, scene: &MeshScene) {
        self.cables.push(CableChange {
            at_units: scene.now_units,
            cable: cable as u16,
            ends_up: scene.link(cable).iter().flatten().count() as u8,
        });
    }

    /// Keeps a broken invariant, whatever else is kept.
    pub(super) fn record_violation(&mut self, violation: &Violation, scene: &MeshScene) {
        self.marks.push(Mark {
            at_units: scene.now_units,
            node: None,
            kind: MarkKind::Violation,
            text: format!("{}: {}", violation.checker, violation.what),
        });
    }
}

/// The node at an end of a cable, and the one at its other end.
fn both(at: crate::shape::Spot, scene: &MeshScene) -> [u16; 2] {
    let ends = scene.shape.cables[usize::from(at.cable)];
    let end = usize::from(at.end);
    [ends[end], ends[1 - end]]
}
