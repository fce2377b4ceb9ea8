//! Replays frames through pipes and compares the frames that come back.

pub mod capture;
pub mod compare;
pub mod run;
pub mod sample;
