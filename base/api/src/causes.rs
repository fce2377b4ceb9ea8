//! An error with its causes, as text.

use std::error::Error;

/// Joins an error and its causes with `: `. Omits a cause whose text is in the text before it.
#[must_use]
pub fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{fmt, io};

    use super::*;

    #[derive(Debug)]
    struct Outer(&'static str, io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn a_cause_is_in_the_text_once() {
        let of = |text| in_one_line(&Outer(text, io::Error::other("the disk is full")));
        assert_eq!(of("cannot write"), "cannot write: the disk is full");
        assert_eq!(of("no log: the disk is full"), "no log: the disk is full");
    }
}
