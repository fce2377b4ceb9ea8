//! Manual changes of the steering rules in force: offered like an edited file, and lost when the
//! file is put in force.

use covalent_api::{
    control::RuleBrief,
    rule::{Match, Rule},
};
use covalent_config::Config;

use super::draft::Draft;

/// A change of the rules in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleEdit {
    /// Matches whose rules are removed.
    pub remove: Vec<Match>,
    /// Rules that are added afterwards.
    pub add: Vec<Rule>,
}

impl RuleEdit {
    /// `config` with its rules changed.
    ///
    /// # Errors
    /// All problems.
    pub(super) fn of(&self, config: &Config) -> Result<Draft, Vec<String>> {
        let mut config = config.clone();
        let mut problems = Vec::new();
        for matches in &self.remove {
            let before = config.steer.len();
            config.steer.retain(|rule| rule.matches != *matches);
            if config.steer.len() == before {
                problems.push(format!(
                    "no rule in force is about exactly this: {matches}; `covalent steer list` \
                     shows all"
                ));
            }
        }
        for rule in &self.add {
            match config.steer.iter().find(|it| it.matches == rule.matches) {
                Some(other) => problems.push(format!(
                    "there is a rule for this already: {}, {}; remove it first (`covalent steer \
                     del`)",
                    other.matches, other.action
                )),
                None => config.steer.push(rule.clone()),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        // As strict as for a file, because a client may send anything.
        config.check().map_err(|error| {
            let refusal = |it: &covalent_config::Problem| match it.key.is_empty() {
                true => it.message.clone(),
                false => format!("`{}`: {}", it.key, it.message),
            };
            error.problems().iter().map(refusal).collect::<Vec<_>>()
        })?;
        Draft::new(config).map_err(|error| vec![error.to_string()])
    }
}

/// The rules of `config`, and which of them `file` has too; `None`: it cannot be read.
pub(super) fn briefs(config: &Config, file: Option<&Config>) -> Vec<RuleBrief> {
    config
        .steer
        .iter()
        .map(|rule| RuleBrief {
            rule: rule.clone(),
            in_file: file.map(|file| file.steer.contains(rule)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use covalent_api::rule::{Action, Transport};

    use super::*;

    fn config() -> Config {
        let text = "[node]\nname = \"a\"\n[[port]]\nname = \"p\"\nkind = \"cable\"\npath = \"/x\"\n\
            [[steer]]\nmatch = \"vlan\"\nvlan = 7\naction = \"kernel\"\n";
        Config::parse(text, "test").unwrap()
    }

    fn dns(action: Action) -> Rule {
        Rule {
            matches: Match::Port {
                transport: Transport::Udp,
                dst_port: 53,
            },
            action,
        }
    }

    #[test]
    fn rules_are_added_and_removed_together() {
        let edit = RuleEdit {
            remove: vec![Match::Vlan { vlan: 7 }],
            add: vec![dns(Action::Drop)],
        };
        let draft = edit.of(&config()).unwrap();
        assert_eq!(draft.config.steer, [dns(Action::Drop)]);
        let now = briefs(&draft.config, Some(&config()));
        assert_eq!(now[0].in_file, Some(false));
        assert_eq!(briefs(&config(), Some(&config()))[0].in_file, Some(true));
        assert_eq!(briefs(&config(), None)[0].in_file, None);
    }

    #[test]
    fn an_impossible_edit_is_refused_and_changes_nothing() {
        let refused = |remove: &[Match], add: &[Rule]| {
            let edit = RuleEdit {
                remove: remove.to_vec(),
                add: add.to_vec(),
            };
            edit.of(&config()).err().unwrap().join("\n")
        };
        let refusal = refused(&[Match::Any, Match::Vlan { vlan: 7 }], &[]);
        assert!(refusal.contains("exactly this: any frame"), "{refusal}");
        let other = Rule {
            matches: Match::Vlan { vlan: 7 },
            action: Action::Drop,
        };
        let refusal = refused(&[], &[other]);
        assert!(refusal.contains("VLAN 7, kernel"), "{refusal}");
        let mixed = Rule {
            matches: Match::EtherType { ethertype: 3 },
            action: Action::Drop,
        };
        let refusal = refused(&[], &[mixed]);
        assert!(
            refusal.contains("`steer[1].ethertype`") && refusal.contains("is a length"),
            "{refusal}"
        );
    }
}
