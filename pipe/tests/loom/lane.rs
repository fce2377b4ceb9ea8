//! A lane's loop: doorbells, packets to send, packets that arrive, and sleep.

use std::sync::{Arc, atomic::Ordering};

use covalent_pipe::{
    nic::NicPipe,
    session::{NicSession, SessionMemory},
};

use super::device::Events;

pub struct Lane {
    session: NicSession,
    pipes: Vec<NicPipe>,
    events: Arc<Events>,
}

impl Lane {
    pub fn new(memory: SessionMemory, pipes: Vec<NicPipe>, events: Arc<Events>) -> Self {
        Self {
            session: NicSession::new(memory),
            pipes,
            events,
        }
    }

    /// Delivers the packets of `arrivals` to their pipes, with a round after each. Then serves
    /// until the application has stopped.
    pub fn run(mut self, arrivals: &[(u32, &[u8])]) {
        for (pipe, packet) in arrivals {
            self.arrive(*pipe, packet);
            self.take_doorbells();
        }
        while !self.events.done.load(Ordering::Relaxed) {
            if !self.take_doorbells() {
                self.rest();
            }
        }
    }

    fn arrive(&mut self, pipe: u32, packet: &[u8]) {
        let nic = &mut self.pipes[pipe as usize];
        nic.push(packet).unwrap();
        if let Some(tail) = nic.publish() {
            self.session.notify(pipe, tail).unwrap();
        }
        self.wake();
    }

    /// Returns whether there was one.
    fn take_doorbells(&mut self) -> bool {
        let mut found = false;
        for _ in 0..self.pipes.len() {
            let Some(pipe) = self.session.next_doorbell().unwrap() else {
                break;
            };
            found = true;
            let answer = self.pipes[pipe as usize].on_doorbell();
            if let Some(tail) = answer.expect("an honest application was called a liar") {
                self.session.notify(pipe, tail).unwrap();
            }
            self.send(pipe);
        }
        self.wake();
        found
    }

    fn send(&mut self, pipe: u32) {
        let nic = &mut self.pipes[pipe as usize];
        while nic.peek_tx().unwrap().is_some() {
            nic.advance_tx();
        }
        if let Some(head) = nic.complete_tx() {
            self.session.notify(pipe, head).unwrap();
        }
    }

    fn wake(&mut self) {
        if self.session.app_sleeping() {
            self.events.application.notify();
        }
    }

    fn rest(&mut self) {
        self.session.set_lane_sleeping(true);
        if !self.session.doorbell_waits() {
            self.events.lane.wait();
        }
        self.session.set_lane_sleeping(false);
    }
}
