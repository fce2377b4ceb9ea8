//! The daemon as a whole: two nodes in one process, joined by in-memory cables, and applications that speak to them over
//! their sockets. Only `af_xdp` needs root, and is skipped with a word without it.

mod client;
mod control;
mod faults;
mod flows;
mod namespace;
mod node;
mod noise;
mod sandbox;
mod seeds;

mod af_xdp;
mod agreement;
mod captures;
mod command;
mod contention;
mod crowd;
mod durable;
mod frames;
mod given;
mod handover;
mod healing;
mod idle;
mod journal_failure;
mod killed;
mod large;
mod live_af_xdp;
mod live_ports;
mod malformed;
mod mesh;
mod misses;
mod paths;
mod reclaim;
mod requests;
mod rest;
mod selfish;
mod sets;
mod sockets;
mod streams;
mod taps;
mod toggling;
mod verbs;
mod vlans;
mod warm;
mod watchdog;
mod wiring;
