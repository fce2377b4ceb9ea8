//! Clients of control's two Unix sockets, from the moment in which they connect.
//!
//! Any user may send a descriptor, and closing a descriptor takes as long as its sender likes. Control has one thread, so it must neither receive nor close one
//! there. A kernel that knows `SO_PASSRIGHTS` (Linux 6.16) refuses them at the sender. On an older one a thread for each client stands between it and control, and the
//! sockets are closed to all but the node's group.
//!
//! | module | what |
//! |---|---|
//! | `places` | how many clients there may be, and whose |
//! | `door` | accepts clients, and turns away those for whom there is no place |
//! | `relay` | the thread between a client and control, on older kernels |

mod door;
mod places;
mod relay;

pub use self::{
    door::{Client, Descriptors, Door, Refusal},
    places::{Bounds, Full, Place, Places, Who},
};
