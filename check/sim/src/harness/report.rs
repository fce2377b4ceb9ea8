//! Figures of runs.

/// Defines the figures of a run. Over several runs each is combined in its way: `sum`, `most`,
/// `both` for durations, or `xor`. Figures that are all `u64` have names for people too.
macro_rules! report {
    (
        $(#[$of:meta])* $report:ident: u64 {
            $($(#[$doc:meta])* $figure:ident = $how:ident,)*
        }
    ) => {
        $crate::harness::report! {
            $(#[$of])*
            #[derive(Copy, Eq)]
            $report { $($(#[$doc])* $figure: u64 = $how,)* }
        }

        impl $report {
            /// Every figure with its name.
            pub fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($figure), self.$figure),)*].into_iter()
            }
        }
    };
    (
        $(#[$of:meta])* $report:ident {
            $($(#[$doc:meta])* $figure:ident: $type:ty = $how:ident,)*
        }
    ) => {
        $(#[$of])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
        pub struct $report {
            $($(#[$doc])* pub $figure: $type,)*
        }

        impl $crate::harness::Tally for $report {
            fn add(&mut self, other: &Self) {
                $($crate::harness::report!($how self.$figure, other.$figure);)*
            }
        }
    };
    (sum $ours:expr, $theirs:expr) => { $ours += $theirs };
    (most $ours:expr, $theirs:expr) => { $ours = $ours.max($theirs) };
    (both $ours:expr, $theirs:expr) => { $ours.add_all(&$theirs) };
    // It does not depend on the order in which runs end.
    (xor $ours:expr, $theirs:expr) => { $ours ^= $theirs };
}

pub(crate) use report;

/// The value that so many hundredths of all do not exceed; 0 without any.
pub(crate) fn quantile(values: impl Iterator<Item = f64>, hundredths: usize) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let place = (values.len() * hundredths).div_ceil(100).saturating_sub(1);
    values.get(place).copied().unwrap_or_default()
}
