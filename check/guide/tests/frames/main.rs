//! The example frames of the pages about the protocol equal the frames of two nodes, byte by byte.
//! The codec also decodes the frames of the pages.
//!
//! Where a page differs, the test prints the correct text.
#![allow(clippy::unwrap_used)]

mod show;
mod talk;

use std::collections::BTreeMap;

use covalent_guide::{fence::fences, pages};
use covalent_protocol::{
    DEFAULT_ETHERTYPE,
    wire::{frame, message::Message},
};

/// Returns the text of each fence with the attribute `frame`, by its value.
fn shown() -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    for page in pages::pages(&pages::root()).unwrap() {
        for fence in fences(&page.text) {
            if let Some(name) = fence.attribute("frame") {
                let before = shown.insert(name.to_owned(), fence.text.clone());
                assert!(before.is_none(), "frame {name} is shown twice");
            }
        }
    }
    shown
}

/// Returns the bytes of a frame on a page: two digits each, between the offset and the first word.
fn bytes(text: &str) -> Vec<u8> {
    let is_byte = |word: &&str| word.len() == 2 && word.chars().all(|c| c.is_ascii_hexdigit());
    text.lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_hexdigit()))
        .flat_map(|line| {
            let (hex, _) = line.split_once("  │ ").unwrap_or((line, ""));
            hex.split_whitespace()
                .skip(1)
                .filter(is_byte)
                .collect::<Vec<_>>()
        })
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

#[test]
fn the_pages_show_frames_that_nodes_send() {
    let shown = shown();
    let sent: BTreeMap<String, String> = talk::frames()
        .iter()
        .map(|(name, frame)| (name.clone(), show::text(frame)))
        .collect();
    let wrong: Vec<_> = sent
        .iter()
        .filter(|(name, text)| shown.get(*name) != Some(text))
        .map(|(name, text)| format!("```text frame={name}\n{text}```\n"))
        .collect();
    assert!(
        wrong.is_empty(),
        "the pages must show:\n\n{}",
        wrong.join("\n")
    );
    let unsaid: Vec<_> = shown
        .keys()
        .filter(|name| !sent.contains_key(*name))
        .collect();
    assert!(unsaid.is_empty(), "no node sends these frames: {unsaid:?}");
}

#[test]
fn the_frames_in_the_pages_are_decoded() {
    let shown = shown();
    assert!(!shown.is_empty());
    for (name, text) in shown {
        let bytes = bytes(&text);
        let mut records = frame::parse(&bytes, DEFAULT_ETHERTYPE)
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        while !records.is_empty() {
            let (message, rest) = Message::split(records).unwrap();
            assert!(
                text.contains(&format!("{:?}", message.header.kind)),
                "{name}"
            );
            records = rest;
        }
        let mut damaged = bytes;
        damaged[40] ^= 1;
        assert!(frame::parse(&damaged, DEFAULT_ETHERTYPE).is_err(), "{name}");
    }
}
