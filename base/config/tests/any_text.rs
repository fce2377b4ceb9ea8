//! Any text gives a configuration or an error with places inside the text.

use covalent_config::{Config, DEFAULT_TOML};
use proptest::prelude::*;

/// Text that is nearly a configuration: the shipped one with a piece replaced.
fn damaged() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(String::new()),
        "\\PC{0,12}",
        Just("[[port]]\n".to_owned()),
        Just("[[steer]]\nmatch = \"any\"\n".to_owned()),
        Just("= \"".to_owned()),
        Just("lane = -9223372036854775808\n".to_owned()),
        Just("[node.name]\n".to_owned()),
    ];
    (0..DEFAULT_TOML.len(), 0..40_usize, piece).prop_map(|(start, length, piece)| {
        let characters = DEFAULT_TOML.chars();
        let head: String = characters.clone().take(start).collect();
        let tail: String = characters.skip(start + length).collect();
        head + &piece + &tail
    })
}

fn places_are_inside(text: &str) -> Result<(), TestCaseError> {
    let Err(error) = Config::parse(text, "f") else {
        return Ok(());
    };
    prop_assert!(!error.problems().is_empty());
    for problem in error.problems() {
        let (line, column) = problem.at.expect("text has places");
        let length = text
            .split('\n')
            .nth(line - 1)
            .map(|line| line.chars().count());
        prop_assert!(
            length.is_some_and(|length| column >= 1 && column <= length + 1),
            "{problem} in\n{text}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(
        ProptestConfig {
            cases: 2 * ProptestConfig::default().cases,
            failure_persistence: None,
            ..ProptestConfig::default()
        }
    )]

    #[test]
    fn arbitrary_text_is_no_surprise(text in "(?s).{0,200}") {
        places_are_inside(&text)?;
    }

    #[test]
    fn toml_like_text_never_panics(
        text in "([\\[\\]{}=.,\"'#\\-0-9a-z_ \n]|node|port|lane|name|kind|\\[\\[port\\]\\]\n){0,80}",
    ) {
        places_are_inside(&text)?;
    }

    #[test]
    fn a_damaged_file_is_no_surprise(text in damaged()) {
        places_are_inside(&text)?;
    }
}

#[test]
fn deep_nesting_is_refused() {
    let deep = "[".repeat(60_000);
    assert!(Config::parse(&format!("x = {deep}"), "f").is_err());
    assert!(Config::parse(&format!("{}b = 1", "a.".repeat(60_000)), "f").is_err());
}
