//! Replaying frames through pipes and comparing what comes back.

pub mod capture;
pub mod compare;
pub mod run;
pub mod sample;
