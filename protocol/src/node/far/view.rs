//! Public views of paths.

use super::super::{LinkView, Node};
use crate::channel::ChannelCounters;

/// A path to a node beyond the neighbors, as its end here sees it.
#[derive(Debug, Clone, Copy)]
pub struct PathView<'a> {
    /// The GUID of the node at the other end.
    pub far: u64,
    /// Whether this node requested it.
    pub opener: bool,
    /// The path as a link, on a port from [`PATH_PORTS`](crate::PATH_PORTS) on. Down until the path
    /// is reserved.
    pub link: LinkView<'a>,
}

impl Node {
    /// The paths that end here, or were requested and are not answered. Empty without
    /// [`fabric`](crate::NodeConfig::fabric).
    pub fn paths(&self) -> impl Iterator<Item = PathView<'_>> {
        let ends = self.fabric.iter().flat_map(|fabric| &fabric.ends);
        ends.zip(&self.links)
            .enumerate()
            .filter(|(_, (end, _))| end.far != 0)
            .map(|(at, (end, link))| PathView {
                far: end.far,
                opener: self.opened(at),
                link: self.view(link),
            })
    }

    /// The links of all virtual ports, with or without a path. Their counters continue from path to
    /// path.
    pub fn path_links(&self) -> impl Iterator<Item = LinkView<'_>> {
        self.links[..self.path_links]
            .iter()
            .map(|link| self.view(link))
    }

    /// Paths of others that lead through this node, or are to.
    #[must_use]
    pub fn transits(&self) -> usize {
        self.fabric
            .as_ref()
            .map_or(0, |fabric| fabric.channels.transits())
    }

    /// Channels of all links that are not closed at both ends: two for each transit, and one for
    /// each path that ends here.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.fabric
            .as_ref()
            .map_or(0, |fabric| fabric.channels.taken())
    }

    /// Records of paths of others that wait to be passed on.
    #[must_use]
    pub fn waiting_records(&self) -> usize {
        self.fabric
            .as_ref()
            .map_or(0, |fabric| fabric.channels.waiting_records())
    }

    /// Counters of paths.
    #[must_use]
    pub fn channel_counters(&self) -> ChannelCounters {
        self.fabric
            .as_ref()
            .map_or_else(ChannelCounters::default, |fabric| {
                fabric.channels.counters()
            })
    }
}
