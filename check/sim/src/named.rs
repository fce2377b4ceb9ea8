//! Values that are chosen by name on the command line: one of a kind, or a set.

use std::{fmt, marker::PhantomData, str::FromStr};

/// A kind of things that have names.
pub trait Named: Copy + 'static {
    /// The kind, for display: "mutant".
    const WHAT: &'static str;
    /// All of them, in the order of their numbers.
    const EACH: &'static [Self];
    /// Those that are not meant by "all", one bit for each.
    const RARE: u32 = 0;

    /// Its name on the command line.
    fn name(self) -> &'static str;

    /// Its place in [`Self::EACH`], below 32.
    fn number(self) -> u32;

    /// Returns the value with this name.
    ///
    /// # Errors
    /// There is no such value. The message lists the existing names. `besides` lists what else is
    /// accepted.
    fn find(name: &str, besides: &[&'static str]) -> Result<Self, UnknownName> {
        let mut all = Self::EACH.iter().copied();
        all.find(|one| one.name() == name).ok_or_else(|| {
            let names = Self::EACH.iter().map(|one| one.name());
            UnknownName {
                what: Self::WHAT,
                found: name.to_owned(),
                known: names.chain(besides.iter().copied()).collect(),
            }
        })
    }
}

/// Defines an `enum` whose variants have names: `ALL`, `as_str`, conversion to and from text,
/// [`Named`].
macro_rules! named {
    (
        $what:literal: $(#[$of_kind:meta])* $kind:ident {
            $($(#[$of_one:meta])* $one:ident = $name:literal,)*
        } $(rare: $rare:ident)?
    ) => {
        $(#[$of_kind])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $kind {
            $($(#[$of_one])* $one,)*
        }

        impl $kind {
            /// All of them.
            pub const ALL: [Self; [$(Self::$one),*].len()] = [$(Self::$one),*];

            /// Its name on the command line.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$one => $name,)*
                }
            }
        }

        impl $crate::named::Named for $kind {
            const WHAT: &'static str = $what;
            const EACH: &'static [Self] = &Self::ALL;
            $(const RARE: u32 = 1 << Self::$rare as u32;)?

            fn name(self) -> &'static str {
                self.as_str()
            }

            fn number(self) -> u32 {
                self as u32
            }
        }

        impl std::str::FromStr for $kind {
            type Err = $crate::named::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::named::Named::find(text, &[])
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use named;

/// A set of things of a kind. As text: names with commas between, or `none`, or `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set<Kind> {
    bits: u32,
    kind: PhantomData<Kind>,
}

impl<Kind: Named> Set<Kind> {
    /// None of them.
    pub const NONE: Self = Self::with(0);
    /// All of them, but for rare ones.
    pub const ALL: Self = Self::with(((1 << Kind::EACH.len()) - 1) & !Kind::RARE);

    const fn with(bits: u32) -> Self {
        Self {
            bits,
            kind: PhantomData,
        }
    }

    /// These.
    #[must_use]
    pub fn of(some: &[Kind]) -> Self {
        Self::with(some.iter().fold(0, |set, one| set | 1 << one.number()))
    }

    /// Whether `one` is among them.
    #[must_use]
    pub fn has(self, one: Kind) -> bool {
        self.bits & 1 << one.number() != 0
    }

    /// Those that are, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        let all = Kind::EACH.iter().copied();
        all.filter(move |one| self.has(*one))
    }

    /// Each set that lacks one of them.
    pub fn each_left_out(self) -> impl Iterator<Item = Self> {
        self.iter().map(move |one| Self {
            bits: self.bits & !(1 << one.number()),
            kind: PhantomData,
        })
    }
}

impl<Kind: Named> FromStr for Set<Kind> {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "none" => return Ok(Self::NONE),
            "all" => return Ok(Self::ALL),
            _ => {}
        }
        let words = text.split(',').map(str::trim);
        let some: Result<Vec<Kind>, _> = words
            .map(|word| Kind::find(word, &["none", "all"]))
            .collect();
        Ok(Self::of(&some?))
    }
}

impl<Kind: Named> fmt::Display for Set<Kind> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits == Self::NONE.bits {
            return f.write_str("none");
        }
        if self.bits == Self::ALL.bits {
            return f.write_str("all");
        }
        let names: Vec<_> = self.iter().map(Kind::name).collect();
        f.write_str(&names.join(","))
    }
}

/// A word that names nothing of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    found: String,
    known: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no {}; there are: {}",
            self.found,
            self.what,
            self.known.join(", ")
        )
    }
}

impl std::error::Error for UnknownName {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    named! {
        "fruit":
        /// To be chosen.
        Fruit {
            /// Red.
            Apple = "apple",
            /// Green.
            Pear = "pear",
            /// Blue.
            Plum = "sour-plum",
        }
    }

    #[test]
    fn a_set_reads_as_it_was_written() {
        for set in [
            Set::NONE,
            Set::ALL,
            Set::of(&[Fruit::Plum]),
            Set::of(&[Fruit::Plum, Fruit::Apple]),
        ] {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        assert_eq!(Set::of(&Fruit::ALL), Set::ALL);
        let set: Set<Fruit> = "sour-plum, apple".parse().unwrap();
        for fruit in Fruit::ALL {
            assert_eq!(set.has(fruit), fruit != Fruit::Pear, "{fruit}");
        }
        assert_eq!(Vec::from_iter(set.iter()), [Fruit::Apple, Fruit::Plum]);
        let left = [Fruit::Plum, Fruit::Apple].map(|fruit| Set::of(&[fruit]));
        assert_eq!(Vec::from_iter(set.each_left_out()), left);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let one = "apples".parse::<Fruit>().unwrap_err().to_string();
        assert_eq!(
            one,
            "`apples` is no fruit; there are: apple, pear, sour-plum"
        );
        let set = "apple,plum".parse::<Set<Fruit>>().unwrap_err().to_string();
        assert_eq!(
            set,
            "`plum` is no fruit; there are: apple, pear, sour-plum, none, all"
        );
    }
}
