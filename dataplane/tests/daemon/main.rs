//! The daemon as a whole: two nodes in one process, joined by in-memory cables, and applications that speak to them over
//! their sockets. Needs no privilege.

mod client;
mod node;

mod captures;
mod hostile;
mod idle;
mod malformed;
mod reclaim;
mod requests;
mod sockets;
mod streams;
mod verbs;
