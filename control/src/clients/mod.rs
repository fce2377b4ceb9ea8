//! Clients of control's two Unix sockets, from their connection on.
//!
//! Any user may send a descriptor, and its sender determines how long closing it takes. Control has
//! one thread, so that thread must neither receive nor close such descriptors. A kernel with
//! `SO_PASSRIGHTS` (Linux 6.16) refuses them at the sender. On an older kernel, one thread per
//! client relays between the client and control, and only the node's group can connect.
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
    places::{Bounds, Full, Place, Places, Principal},
};
