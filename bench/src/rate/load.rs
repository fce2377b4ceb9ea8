//! The frames to send.

use crate::streams::{Mix, Size};

/// EtherType of frames of one size (IEEE 802 "local experimental 2"). It differs from the links'
/// EtherType, so the frames go to pipes.
const ETHERTYPE: u16 = 0x88b6;

/// Of a small frame, in bytes without FCS.
pub const SMALL_BYTES: usize = 64;

/// Longest frame that the cable takes, in bytes without FCS.
const FRAME_BYTES_MAX: usize = 1514;

/// The byte of each frame that an application looks at.
const TOUCHED: usize = 8;

/// Frames that are sent repeatedly. The receivers are bound to all of them.
#[derive(Debug)]
pub struct Load {
    /// How large they are.
    pub size: Size,
    frames: Vec<Vec<u8>>,
}

impl Load {
    /// Frames of 64 bytes.
    pub fn small() -> Self {
        let mut frame = vec![0; SMALL_BYTES];
        frame[..6].fill(0xff);
        frame[6] = 2;
        frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
        Self {
            size: Size::Bytes(SMALL_BYTES as u32),
            frames: vec![frame],
        }
    }

    /// The frames of the mix that the cable takes; `None` if there is no such frame.
    pub fn mix(mix: &Mix) -> Option<Self> {
        let frames: Vec<Vec<u8>> = mix
            .frames
            .iter()
            .filter(|frame| frame.len() <= FRAME_BYTES_MAX)
            .cloned()
            .collect();
        (!frames.is_empty()).then_some(Self {
            size: Size::Mix,
            frames,
        })
    }

    /// The frames, over and over, without an end.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().cycle().map(Vec::as_slice)
    }

    /// In words.
    pub fn words(&self) -> String {
        let bytes: usize = self.frames.iter().map(Vec::len).sum();
        format!(
            "{} frames of at most {FRAME_BYTES_MAX} bytes, {} bytes in the mean",
            self.frames.len(),
            bytes / self.frames.len()
        )
    }

    /// Looks at a byte of a received frame, as an application does. Whether it can be one of these.
    pub fn touch(&self, frame: &[u8]) -> bool {
        let right_size = match self.size {
            Size::Bytes(bytes) => frame.len() == bytes as usize,
            Size::Mix => true,
        };
        std::hint::black_box(frame.get(TOUCHED).copied()).is_some() && right_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_too_long_for_the_cable_are_left_out_of_the_mix() {
        let mix = |lengths: &[usize]| Mix {
            origin: String::new(),
            frames: lengths.iter().map(|&length| vec![3; length]).collect(),
        };
        let load = Load::mix(&mix(&[60, 1515, 1514])).expect("two frames");
        let lengths: Vec<usize> = load.frames().take(5).map(<[u8]>::len).collect();
        assert_eq!(lengths, [60, 1514, 60, 1514, 60]);
        assert!(load.words().starts_with("2 frames") && load.words().contains("787 bytes"));
        assert!(Load::mix(&mix(&[1515])).is_none());
    }

    #[test]
    fn only_frames_of_the_load_count() {
        let load = Load::small();
        assert!(load.touch(&[0; 64]) && !load.touch(&[0; 63]) && !load.touch(&[]));
    }
}
