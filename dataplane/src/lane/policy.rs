//! The configured rules for frames, before and in addition to the bindings of applications.

use std::collections::HashMap;

use covalent_api::rule::{Action, Match};
use covalent_config::Config;

/// See the module. Not changed while it is in force; another one takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    rules: HashMap<Match, Action>,
    /// Its rules in a fixed order, to install them one by one.
    listed: Vec<Match>,
    /// The action for frames without a rule and without a pipe.
    pub miss: Action,
}

impl Policy {
    /// Returns the policy in `config`. The check of a configuration refuses two rules for one
    /// match.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let rules = config.steer.iter();
        Self {
            listed: rules.clone().map(|rule| rule.matches.clone()).collect(),
            rules: rules
                .map(|rule| (rule.matches.clone(), rule.action))
                .collect(),
            miss: config.dataplane.miss,
        }
    }

    /// Returns the action for exactly this match; `None` if no rule has it.
    #[must_use]
    pub fn action(&self, matches: &Match) -> Option<Action> {
        self.rules.get(matches).copied()
    }

    /// Returns the rule at index `at` of an arbitrary but fixed order; `None` after the last one.
    #[must_use]
    pub fn rule(&self, at: usize) -> Option<(&Match, Action)> {
        let matches = self.listed.get(at)?;
        Some((matches, self.action(matches)?))
    }

    /// Every rule, in no order.
    pub fn rules(&self) -> impl Iterator<Item = (&Match, Action)> {
        self.rules
            .iter()
            .map(|(matches, &action)| (matches, action))
    }

    /// Returns each match whose action differs in `wanted`. Matches that lose their rule come
    /// first, so that a full table of the kernel has space for the others. [`Match::Any`] without a
    /// rule stands for the action on misses.
    #[must_use]
    pub fn differing(&self, wanted: &Self) -> Vec<Match> {
        let lost = self.rules.keys().filter(|&of| wanted.action(of).is_none());
        let others = wanted
            .rules()
            .filter(|&(of, action)| self.action(of) != Some(action));
        let mut differing: Vec<Match> = lost.chain(others.map(|(of, _)| of)).cloned().collect();
        if self.miss != wanted.miss && !differing.contains(&Match::Any) {
            differing.push(Match::Any);
        }
        differing
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn policy(text: &str) -> Policy {
        let port = "[node]\nname = \"a\"\n[[port]]\nname = \"p\"\nkind = \"pcap\"\n";
        Policy::new(&Config::parse(&format!("{text}{port}"), "test").unwrap())
    }

    fn rule(ethertype: u16, action: &str) -> String {
        format!(
            "[[steer]]\nmatch = \"ether_type\"\nethertype = {ethertype}\naction = \"{action}\"\n"
        )
    }

    #[test]
    fn removed_rules_come_first_and_unchanged_ones_do_not_count() {
        let [one, two, three] =
            [0x2001, 0x2002, 0x2003].map(|ethertype| Match::EtherType { ethertype });
        let now = policy(&format!("{}{}", rule(0x2001, "drop"), rule(0x2002, "drop")));
        let wanted = policy(&format!(
            "{}{}",
            rule(0x2002, "kernel"),
            rule(0x2003, "drop")
        ));
        let differing = now.differing(&wanted);
        assert_eq!(differing[0], one);
        assert_eq!(differing.len(), 3);
        assert!(differing.contains(&two) && differing.contains(&three));
        assert_eq!(now.differing(&now), []);
    }

    #[test]
    fn the_any_rule_sets_the_action_on_a_miss() {
        let wanted = policy("[dataplane]\nmiss = \"drop\"\n");
        assert_eq!(policy("").differing(&wanted), [Match::Any]);
        let any = "[[steer]]\nmatch = \"any\"\naction = \"drop\"\n";
        let both = policy(&format!("[dataplane]\nmiss = \"drop\"\n{any}"));
        assert_eq!(policy("").differing(&both), [Match::Any]);
    }
}
