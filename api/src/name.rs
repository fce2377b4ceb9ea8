//! Names that people give: of nodes and ports.

/// Longest name, in bytes. It is what a link record has room for.
pub const NAME_BYTES_MAX: usize = 32;

/// What is wrong with a name.
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

/// Whether `name` may name a node or a port: 1 to 32 bytes of ASCII letters, digits, `-`, `_` and `.`.
///
/// # Errors
/// [`BadName`] says what is wrong.
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
}
