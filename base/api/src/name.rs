//! Names that people give: of nodes and ports.

/// Longest name, in bytes. A link record has this much space for it.
pub const NAME_BYTES_MAX: usize = 32;

/// Most lanes of one node.
pub const LANES_MAX: usize = 256;

/// Error of an invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// There is none.
    #[error("the name is empty")]
    Empty,
    /// It does not fit into a link record.
    #[error("the name is {0} bytes long")]
    TooLong(usize),
    /// It would need quoting in a shell, a metric label or a file name.
    #[error("the name holds {0:?}")]
    Character(char),
}

/// Checks whether `name` is valid for a node or a port: 1 to 32 bytes of ASCII letters, digits,
/// `-`, `_` and `.`.
///
/// # Errors
/// [`BadName`] describes the problem.
pub fn check(name: &str) -> Result<(), BadName> {
    if name.is_empty() {
        return Err(BadName::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(BadName::TooLong(name.len()));
    }
    match name
        .chars()
        .find(|&c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
    {
        Some(character) => Err(BadName::Character(character)),
        None => Ok(()),
    }
}

/// The name that neighbors receive for a lane of the node `node`: `NODE` for lane 0, `NODE.1` for
/// lane 1. If the result is too long, the end of `NODE` is truncated. `node` must be valid by
/// [`check`], and `lane` below [`LANES_MAX`].
#[must_use]
pub fn of_lane(node: &str, lane: u32) -> String {
    if lane == 0 {
        return node.to_owned();
    }
    let number = format!(".{lane}");
    let room = NAME_BYTES_MAX - number.len();
    // A name is ASCII, so any place is between two characters.
    format!("{}{number}", node.get(..room).unwrap_or(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_need_no_quoting() {
        assert_eq!(check("rack-7_left.a"), Ok(()));
        assert_eq!(check(&"x".repeat(32)), Ok(()));
        assert_eq!(check(""), Err(BadName::Empty));
        assert_eq!(check(&"x".repeat(33)), Err(BadName::TooLong(33)));
        assert_eq!(check("a b"), Err(BadName::Character(' ')));
        assert_eq!(check("größe"), Err(BadName::Character('ö')));
    }

    #[test]
    fn lanes_have_names_that_fit() {
        assert_eq!(of_lane("rack-7", 0), "rack-7");
        assert_eq!(of_lane("rack-7", 255), "rack-7.255");
        let longest = "x".repeat(NAME_BYTES_MAX);
        let name = of_lane(&longest, 12);
        assert_eq!((name.len(), check(&name)), (NAME_BYTES_MAX, Ok(())));
        assert!(name.ends_with("x.12"), "{name}");
    }
}
