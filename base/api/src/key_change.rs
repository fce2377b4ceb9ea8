//! A difference between two configurations, and the effort to put the second one in force.

use serde::{Deserialize, Serialize};

/// A key whose value differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyChange {
    /// Its path in the wanted configuration, for example `port[1].queues`.
    pub key: String,
    /// The value in force.
    pub from: String,
    /// The wanted value.
    pub to: String,
    /// How the change takes effect.
    pub effect: Effect,
}

/// How a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Lanes take it over while they run.
    Live,
    /// It applies to connections, sessions and pipes that are opened later.
    LiveForNew,
    /// That port is opened, closed, or reopened while the others run. Its pipes wait as after a
    /// loss of carrier, and its link comes up under a later epoch.
    Port,
    /// The control process does it.
    ByControl,
    /// It is read at the daemon's start only.
    Restart,
}
