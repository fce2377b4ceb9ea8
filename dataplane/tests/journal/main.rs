//! The journal of durable regions, from outside: acknowledged records are recovered, whatever
//! happens to the process or to its files.

mod child;
mod cut;
mod disk;
mod faults;
mod format;
mod full;
mod killed;
mod lane;
mod loss;
mod memory;
mod running;
mod steady;
