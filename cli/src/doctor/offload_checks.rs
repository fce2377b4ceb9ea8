//! Changes that a NIC or the other end of a veth makes to frames before a port receives them.

use covalent_api::rule::Match;
use covalent_config::Config;

use super::{facts::NamedInterface, finding::Finding};

/// Features by which a NIC joins frames, by the kernel's names, and as `ethtool -K` takes them.
const JOINING: [(&str, &str); 2] = [("rx-lro", "lro"), ("rx-gro-hw", "rx-gro-hw")];

/// The feature by which a NIC takes VLAN tags off frames.
const TAKES_TAGS_OFF: &str = "rx-vlan-hw-parse";

/// Features by which an interface leaves checksums to the hardware.
const LEAVES_CHECKSUMS: [&str; 3] = [
    "tx-checksum-ip-generic",
    "tx-checksum-ipv4",
    "tx-checksum-ipv6",
];

/// Returns the findings; one line if all is well.
pub fn offloads(config: &Config, named: &NamedInterface) -> Vec<Finding> {
    if named.found.is_none() {
        return Vec::new();
    }
    let check = format!("port {}: offloads", named.port);
    let name = &named.interface;
    let mut findings = Vec::new();
    for (feature, switch) in JOINING {
        if named.nic.has(feature) {
            findings.push(Finding::warning(
                check.clone(),
                format!(
                    "{name} joins frames ({feature}): pipes see frames that never were on the \
                    cable, or the driver refuses XDP"
                ),
                format!("ethtool -K {name} {switch} off"),
            ));
        }
    }
    // Between the ends of a veth, tags stay in the frame, whatever the setting.
    if named.nic.has(TAKES_TAGS_OFF) && named.driver.as_deref() != Some("veth") {
        let wanted = config
            .steer
            .iter()
            .any(|rule| matches!(rule.matches, Match::Vlan { .. }));
        let missed = if wanted {
            ", and the file has such rules"
        } else {
            ""
        };
        findings.push(Finding::warning(
            check.clone(),
            format!(
                "{name} takes VLAN tags off frames: pipes get them without, and no `vlan` rule \
                finds them{missed}"
            ),
            format!("ethtool -K {name} rxvlan off"),
        ));
    }
    if let Some(end) = &named.other_end
        && LEAVES_CHECKSUMS.iter().any(|feature| end.nic.has(feature))
    {
        let end = &end.interface;
        findings.push(Finding::warning(
            check.clone(),
            format!(
                "{end}, the other end of {name}, leaves checksums to hardware that a veth does \
                     not have: frames that the kernel sends there arrive with wrong ones"
            ),
            format!("ethtool -K {end} tx off"),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::fine(check, "none that changes frames"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{
        super::{facts::interface::OtherEnd, finding::Level, samples},
        *,
    };
    use crate::nic::Nic;

    fn nic(features: &[&str]) -> Nic {
        Nic {
            features: Some(features.iter().map(|&name| name.to_owned()).collect()),
            ..Nic::default()
        }
    }

    fn cures(named: &NamedInterface) -> Vec<String> {
        let findings = offloads(&samples::af_xdp_config(), named);
        findings.into_iter().map(|finding| finding.cure).collect()
    }

    #[test]
    fn offloads_of_a_nic_are_reported_with_their_switches() {
        let mut named = samples::interface();
        assert_eq!(
            offloads(&samples::af_xdp_config(), &named)[0].level,
            Level::Fine
        );
        named.nic = nic(&[
            "rx-lro",
            "rx-gro-hw",
            "rx-vlan-hw-parse",
            "tx-checksum-ipv4",
        ]);
        assert_eq!(
            cures(&named),
            [
                "ethtool -K eth1 lro off",
                "ethtool -K eth1 rx-gro-hw off",
                "ethtool -K eth1 rxvlan off"
            ]
        );
        named.driver = Some("veth".into());
        named.nic = nic(&["rx-vlan-hw-parse"]);
        assert_eq!(cures(&named), [""]);
    }

    #[test]
    fn unfilled_checksums_of_a_veth_are_reported_if_its_peer_is_visible() {
        let mut named = samples::interface();
        named.driver = Some("veth".into());
        named.other_end = Some(OtherEnd {
            interface: "far0".into(),
            nic: nic(&["tx-checksum-ip-generic"]),
        });
        assert_eq!(cures(&named), ["ethtool -K far0 tx off"]);
        named.other_end = Some(OtherEnd {
            interface: "far0".into(),
            nic: nic(&[]),
        });
        assert_eq!(cures(&named), [""]);
    }
}
