//! Checks whether an interface that the kernel uses still passes the kernel its frames.

use covalent_api::rule::{Action, Match};
use covalent_config::Config;

use super::{facts::NamedInterface, finding::Finding};

/// Reports the destination of frames on a port's interface that neither an application nor a rule
/// names.
pub fn port(config: &Config, named: &NamedInterface) -> Option<Finding> {
    named.found.as_ref()?;
    let check = format!("port {}: misses go to", named.port);
    let any = config
        .steer
        .iter()
        .find(|rule| rule.matches == Match::Any)
        .map(|rule| rule.action);
    let (key, action) = match any {
        Some(action) => ("[[steer]] match = \"any\"", action),
        None => ("dataplane.miss", config.dataplane.miss),
    };
    let word = match action {
        Action::Kernel => return Some(Finding::fine(check, "the kernel")),
        Action::Dataplane => "the dataplane, which drops frames that no pipe is bound to",
        Action::Drop => "nowhere: they are dropped",
    };
    let kept = config
        .steer
        .iter()
        .filter(|rule| rule.action == Action::Kernel)
        .count();
    // A configuration that keeps any frame for the kernel counts as deliberate.
    if named.addresses.is_empty() || kept > 0 {
        return Some(Finding::fine(
            check,
            format!("{word} ({key}); {kept} rules keep frames for the kernel"),
        ));
    }
    Some(Finding::warning(
        check,
        format!(
            "{word} ({key}), but {} has the kernel's address {}: ARP, ssh and everything else over \
             it is cut off",
            named.interface,
            named.addresses.join(", ")
        ),
        "dataplane.miss = \"kernel\", or a [[steer]] with action = \"kernel\" for each thing that \
         the kernel needs",
    ))
}

#[cfg(test)]
mod tests {
    use covalent_api::rule::Rule;

    use super::{
        super::{finding::Level, samples},
        *,
    };

    #[test]
    fn an_interface_with_an_address_wants_its_misses() {
        let mut config = samples::af_xdp_config();
        let mut named = samples::interface();
        let level =
            |config: &Config, named: &NamedInterface| port(config, named).expect("reported").level;
        named.addresses = vec!["192.0.2.1/24".into()];
        assert_eq!(level(&config, &named), Level::Fine);
        for action in [Action::Drop, Action::Dataplane] {
            config.dataplane.miss = action;
            let judged = port(&config, &named).expect("reported");
            assert_eq!(judged.level, Level::Warning);
            assert!(
                judged.found.contains("192.0.2.1/24") && judged.found.contains("eth1"),
                "{judged:?}"
            );
        }
        let bare = NamedInterface {
            addresses: Vec::new(),
            ..named.clone()
        };
        assert_eq!(level(&config, &bare), Level::Fine);
        config.steer = vec![Rule {
            matches: Match::EtherType { ethertype: 0x0806 },
            action: Action::Kernel,
        }];
        assert_eq!(level(&config, &named), Level::Fine);
    }

    #[test]
    fn a_rule_for_all_frames_takes_precedence_over_the_key() {
        let mut config = samples::af_xdp_config();
        let mut named = samples::interface();
        named.addresses = vec!["192.0.2.1/24".into()];
        config.steer = vec![Rule {
            matches: Match::Any,
            action: Action::Drop,
        }];
        let judged = port(&config, &named).expect("reported");
        assert!(
            judged.level == Level::Warning && judged.found.contains("[[steer]]"),
            "{judged:?}"
        );
    }
}
