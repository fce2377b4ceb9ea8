//! Port numbers, assigned once per lifetime of the daemon.
//!
//! A peer stores its replies by the number of the port on which the request arrived (`Hello.port`),
//! and pipes refer to ports by it. A number is therefore never assigned to another port. A port
//! that returns to its lane keeps its number: the sequences and latches of its link continue.

use std::collections::BTreeMap;

use covalent_config::PORTS_MAX;

use crate::lane::new_port::OWN_NUMBERS;

/// The assignment of numbers to ports. A port is a name on a lane. On another lane it belongs to
/// another node, whose sequences begin at 0. A peer would take those for duplicates under the old
/// number.
#[derive(Debug, Clone, Default)]
pub(super) struct PortNumbers {
    lanes: BTreeMap<u32, BTreeMap<String, u16>>,
    next: u16,
}

impl PortNumbers {
    /// Returns the number of the port `name` on `lane`, or the lowest free one if it has none yet.
    /// `None`: the lane has had [`PORTS_MAX`] ports, and the link memory of each still exists. Or
    /// all lanes together have had [`OWN_NUMBERS`].
    pub(super) fn number(&mut self, name: &str, lane: u32) -> Option<u16> {
        let ports = self.lanes.entry(lane).or_default();
        if let Some(&number) = ports.get(name) {
            return Some(number);
        }
        if ports.len() >= PORTS_MAX {
            return None;
        }
        let number = self.next;
        if number >= OWN_NUMBERS {
            return None;
        }
        self.next += 1;
        ports.insert(name.to_owned(), number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_keeps_its_number_and_no_other_port_gets_it() {
        let mut numbers = PortNumbers::default();
        let first: Vec<_> = ["p0", "p1", "p2"]
            .iter()
            .map(|name| numbers.number(name, 0))
            .collect();
        assert_eq!(
            first,
            [Some(0), Some(1), Some(2)],
            "in the order of the file"
        );
        // Another file: p1 is gone, the others have changed places, and there is a new one.
        assert_eq!(numbers.number("p2", 0), Some(2));
        assert_eq!(numbers.number("new", 0), Some(3));
        assert_eq!(numbers.number("p0", 0), Some(0));
        assert_eq!(numbers.number("p1", 0), Some(1), "it returns");
        assert_eq!(
            numbers.number("p1", 1),
            Some(4),
            "on another lane it is another port"
        );
        assert_eq!(numbers.number("p1", 0), Some(1));
    }

    #[test]
    fn a_lane_has_a_bounded_number_of_ports_over_its_lifetime() {
        let mut numbers = PortNumbers::default();
        for port in 0..PORTS_MAX {
            assert_eq!(
                numbers.number(&port.to_string(), 7),
                u16::try_from(port).ok()
            );
        }
        assert_eq!(numbers.number("one more", 7), None);
        assert_eq!(numbers.number("0", 7), Some(0));
        assert!(
            numbers.number("one more", 8).is_some(),
            "the other lanes have room"
        );
    }
}
