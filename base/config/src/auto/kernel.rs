//! Which Linux it is.

use std::fmt;

use serde::Serialize;

/// Major and minor version of Linux. Driver properties are listed by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Linux(pub u32, pub u32);

impl Linux {
    /// Parses a release such as `6.1.0-28-amd64`. Parts that cannot be parsed are 0.
    #[must_use]
    pub fn of_release(release: &str) -> Self {
        let mut numbers = release
            .split(|c: char| !c.is_ascii_digit())
            .map(|digits| digits.parse().unwrap_or(0));
        Self(numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// The one that runs here.
    #[must_use]
    pub fn running() -> Self {
        Self::of_release(&rustix::system::uname().release().to_string_lossy())
    }
}

impl fmt::Display for Linux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_several_makers_are_read() {
        assert_eq!(Linux::of_release("6.1.0-28-amd64"), Linux(6, 1));
        assert_eq!(Linux::of_release("6.18.44-fc"), Linux(6, 18));
        assert_eq!(Linux::of_release("5.15"), Linux(5, 15));
        assert_eq!(Linux::of_release("strange"), Linux(0, 0));
        assert!(Linux(5, 19) < Linux(6, 1) && Linux(6, 2) < Linux(6, 14));
    }

    #[test]
    fn the_running_kernel_has_a_version() {
        assert!(Linux::running() >= Linux(4, 0));
    }
}
