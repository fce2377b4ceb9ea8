//! Lists of cores as the kernel writes them: `0-2,5`.

use std::{collections::BTreeSet, fmt, str::FromStr};

/// Largest number that is believed: a list of more is no list of cores.
const CORE_MAX: u32 = 1 << 16;

/// Some cores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CoreList(pub BTreeSet<u32>);

impl FromStr for CoreList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no list of cores");
        let mut cores = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let bounds = first.parse::<u32>().ok().zip(last.parse::<u32>().ok());
            match bounds {
                Some((first, last)) if first <= last && last <= CORE_MAX => {
                    cores.extend(first..=last);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(Self(cores))
    }
}

impl fmt::Display for CoreList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<(u32, u32)> = Vec::new();
        for &core in &self.0 {
            match parts.last_mut() {
                Some((_, last)) if *last + 1 == core => *last = core,
                _ => parts.push((core, core)),
            }
        }
        let parts: Vec<String> = parts
            .into_iter()
            .map(|(first, last)| match first == last {
                true => first.to_string(),
                false => format!("{first}-{last}"),
            })
            .collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for (read, written) in [
            ("0-2,5\n", "0-2,5"),
            ("3", "3"),
            ("0,1,2,4-4", "0-2,4"),
            ("", ""),
        ] {
            let list: CoreList = read.parse().expect("a list");
            assert_eq!(list.to_string(), written);
        }
        for wrong in ["all", "2-1", "1-", "0-4000000000"] {
            assert!(wrong.parse::<CoreList>().is_err(), "{wrong}");
        }
    }
}
