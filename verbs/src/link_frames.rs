//! Frames that belong to the links of a port, and that no application may send on it.

use covalent_api::ethertype;

/// Finds frames with the EtherType of links.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkFrames {
    /// The EtherType, if the port has a link.
    ethertype: Option<u16>,
    /// No smaller number at the place of the EtherType needs a closer look. So a frame of IPv4 or
    /// ARP costs one comparison.
    least: u32,
}

impl LinkFrames {
    /// `ethertype`: that of the links, if the port has one.
    pub(crate) fn new(ethertype: Option<u16>) -> Self {
        let least = ethertype.map_or(u32::MAX, |it| it.min(ethertype::VLAN_TAG_MIN).into());
        Self { ethertype, least }
    }

    /// The EtherType of the links, if `frame` has it, also behind VLAN tags. The lane drops exactly
    /// these frames.
    #[inline]
    pub(crate) fn find(self, frame: &[u8]) -> Option<u16> {
        let outermost = frame.get(12..14)?.first_chunk()?;
        if u32::from(u16::from_be_bytes(*outermost)) < self.least {
            return None;
        }
        self.look_behind_tags(frame)
    }

    fn look_behind_tags(self, frame: &[u8]) -> Option<u16> {
        let (found, _) = ethertype::of(frame)?;
        self.ethertype.filter(|&ethertype| ethertype == found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with these numbers at the places of tags and EtherType.
    fn frame(ethertypes: &[u16]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for (at, ethertype) in ethertypes.iter().enumerate() {
            if at > 0 {
                frame.extend([0, 7]);
            }
            frame.extend(ethertype.to_be_bytes());
        }
        frame.resize(frame.len() + 46, 0);
        frame
    }

    #[test]
    fn link_frames_are_found_behind_up_to_two_tags() {
        for links in [0x0600, 0x7fff, 0x8101, 0x88b5, 0xffff] {
            let links_only = LinkFrames::new(Some(links));
            for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100], &[0x9100, 0x9100]] {
                let typed = |ethertype| frame(&[tags, &[ethertype]].concat());
                assert_eq!(links_only.find(&typed(links)), Some(links), "{tags:x?}");
                for other in [0, 46, 0x0800, 0x0806, 0x86dd, 0x88b6, links ^ 1] {
                    assert_eq!(links_only.find(&typed(other)), None, "{other:x}");
                }
                assert_eq!(LinkFrames::new(None).find(&typed(links)), None);
            }
        }
    }

    #[test]
    fn frames_that_end_early_are_not_of_links() {
        let tagged = frame(&[0x8100, 0x88b5]);
        for length in 0..18 {
            assert_eq!(LinkFrames::new(Some(0x88b5)).find(&tagged[..length]), None);
        }
    }
}
