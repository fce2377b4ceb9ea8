//! A rack whose nodes submit exchanges to each other, near and far.

use covalent_protocol::{FabricConfig, LinkState, Mode, NodeConfig};

use crate::rack::{Ended, Rack, config, guid};

/// Longest request.
pub const BYTES_MAX: usize = 4096;

pub const LINE: &[(usize, usize)] = &[(0, 1), (1, 2)];
pub const LINE_OF_4: &[(usize, usize)] = &[(0, 1), (1, 2), (2, 3)];
pub const SQUARE: &[(usize, usize)] = &[(0, 1), (1, 2), (2, 3), (3, 0)];

pub fn far_config(at: usize) -> NodeConfig {
    NodeConfig {
        message_bytes_max: BYTES_MAX as u16,
        fabric: Some(FabricConfig {
            paths: 4,
            transits: 4,
            ..FabricConfig::default()
        }),
        ..config(at)
    }
}

/// All links up, and all ways known.
pub fn rack(nodes: usize, cables: &[(usize, usize)]) -> Rack {
    rack_of(nodes, cables, far_config)
}

pub fn rack_of(
    nodes: usize,
    cables: &[(usize, usize)],
    config: impl Fn(usize) -> NodeConfig,
) -> Rack {
    let mut rack = Rack::configured(nodes, cables, config);
    rack.plug_all();
    rack.settle();
    rack
}

pub fn ring(nodes: usize) -> Vec<(usize, usize)> {
    (0..nodes).map(|at| (at, (at + 1) % nodes)).collect()
}

impl Rack {
    pub fn start_exchange(
        &mut self,
        from: usize,
        to: usize,
        mode: Mode,
        request: &[u8],
        token: u64,
    ) {
        self.nodes[from]
            .submit(guid(to), mode, request, token)
            .unwrap();
    }

    /// One tick of one node.
    pub fn tick_at(&mut self, at: usize) {
        self.nodes[at].on_tick(&mut self.hosts[at]);
    }

    /// How the exchange with a token ended at a node. It ends once.
    pub fn end(&self, at: usize, token: u64) -> Option<&Ended> {
        let mut ends = self.hosts[at].ended.iter().filter(|(of, _)| *of == token);
        let end = ends.next().map(|(_, end)| end);
        assert_eq!(ends.next(), None, "{token} ended twice at {at}");
        end
    }

    /// Times that a node executed a request.
    pub fn times(&self, at: usize, request: &[u8]) -> usize {
        let is_it = |(_, executed): &&(u64, Vec<u8>)| executed == request;
        self.hosts[at].journal.iter().filter(is_it).count()
    }

    /// Nothing is reserved, and nothing waits.
    #[track_caller]
    pub fn assert_at_rest(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            assert_eq!(node.paths().count(), 0, "paths of {at}");
            assert_eq!(node.transits(), 0, "transits of {at}");
            assert_eq!(node.channels(), 0, "channels of {at}");
            assert_eq!(node.waiting_records(), 0, "records at {at}");
            let counters = node.channel_counters();
            assert_eq!(
                counters.taken_records,
                counters.passed_records + counters.dropped_records,
                "books of {at}"
            );
            assert_eq!(self.hosts[at].admitted, [], "at {at}");
            assert_eq!(node.in_doubt(), 0, "at {at}");
        }
    }

    /// Long enough for every path to be given back.
    pub fn idle(&mut self) {
        self.run(60);
    }

    /// Paths of a node that are up.
    pub fn paths_up(&self, at: usize) -> usize {
        let paths = self.nodes[at].paths();
        paths
            .filter(|path| path.link.state == LinkState::Up)
            .count()
    }
}
