//! The description of a case. The name of a case contains everything that is needed to run it
//! again.

use std::fmt;
use std::str::FromStr;

/// Declares an enum whose variants have names on the command line.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $text,)* })
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().find(|item| item.to_string() == text);
                found.copied().ok_or_else(|| format!("{text:?} is not a {}", stringify!($name)))
            }
        }
    };
}

named! {
    /// The store under test.
    StoreKind {
        /// `Store`, merged layout.
        Merged = "merged",
        /// `Store`, split layout.
        Split = "split",
        /// `Store` with a telescoping filter.
        Coded = "coded",
        /// `RangeStore`.
        Ranges = "ranges",
        /// `ListStore`.
        Lists = "lists",
        /// `Guard`.
        Guard = "guard",
    }
}

impl StoreKind {
    pub(crate) fn is_points(self) -> bool {
        matches!(self, Self::Merged | Self::Split | Self::Coded)
    }
}

named! {
    /// The backend, which determines where faults occur.
    Engine {
        /// A map in memory whose operations fail.
        Memory = "memory",
        /// fjall on disk, whose system calls fail.
        Fjall = "fjall",
        /// redb on disk, whose system calls fail.
        Redb = "redb",
    }
}

named! {
    /// A kind of fault.
    Fault {
        /// A backend operation fails and is not done.
        NotDone = "not-done",
        /// A backend operation fails but is done.
        Done = "done",
        /// A backend write fails, and is visible only after reopening.
        Hidden = "hidden",
        /// A database write fails, and arrives some operations later (`Guard` only).
        Late = "late",
        /// A backend operation panics and is not done.
        Panic = "panic",
        /// A backend operation panics after it is done.
        PanicDone = "panic-done",
        /// A system call fails with `EIO`.
        Eio = "eio",
        /// A system call that needs disk space fails with `ENOSPC`.
        Full = "full",
        /// The process is killed before a system call.
        Kill = "kill",
        /// The process is killed after a system call, or halfway through a write.
        Torn = "torn",
    }
}

impl Fault {
    /// The faults of backend operations.
    pub(crate) const BACKEND: [Self; 6] =
        [Self::NotDone, Self::Done, Self::Hidden, Self::Late, Self::Panic, Self::PanicDone];
    /// The faults of system calls.
    pub(crate) const CALLS: [Self; 4] = [Self::Eio, Self::Full, Self::Kill, Self::Torn];

    /// Returns whether this fault can occur on an engine.
    pub(crate) fn is_of(self, engine: Engine) -> bool {
        (engine == Engine::Memory) == Self::BACKEND.contains(&self)
    }

    pub(crate) fn kills(self) -> bool {
        matches!(self, Self::Kill | Self::Torn)
    }

    /// Returns whether this fault hits only writes.
    pub(crate) fn is_of_writes(self) -> bool {
        matches!(self, Self::Hidden | Self::Late)
    }

    /// Returns whether this fault can be permanent. Panics cannot, because the second one could occur in a
    /// `drop`.
    pub(crate) fn can_last(self) -> bool {
        !self.kills() && !matches!(self, Self::Panic | Self::PanicDone)
    }
}

/// For each fault, the number of a step's backend operations or system calls that the fault can
/// hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(pub(crate) [u64; Fault::ALL.len()]);

impl Counts {
    pub(crate) fn new(mut count: impl FnMut(Fault) -> u64) -> Self {
        let mut counts = Self::default();
        for &fault in Fault::ALL {
            counts.0[fault as usize] = count(fault);
        }
        counts
    }

    pub(crate) fn of(self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }
}

named! {
    /// How a session ends after its fault.
    Ending {
        /// The process ends, and nothing else is written.
        Crash = "crash",
        /// The store is dropped.
        Drop = "drop",
        /// The store is closed.
        Close = "close",
    }
}

/// Where a fault is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shot {
    /// The index of the step in the script.
    pub(crate) step: usize,
    /// The index of the backend operation or system call, among those of the step that the fault can hit.
    pub(crate) n: u64,
    pub(crate) fault: Fault,
    /// Whether all later operations or calls fail, too, until the session ends.
    pub(crate) lasts: bool,
    pub(crate) ending: Ending,
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) engine: Engine,
    pub(crate) store: StoreKind,
    /// Whether there is a directory for saved filters.
    pub(crate) saves: bool,
    /// The seed of the script.
    pub(crate) seed: u64,
    /// `None` in the run that counts operations.
    pub(crate) shot: Option<Shot>,
}

/// Prints the name of the case, for example `memory:ranges:saved:5f3a:12.3:hidden:once:crash`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, store, saves, seed, shot } = self;
        let saves = if *saves { "saved" } else { "unsaved" };
        write!(f, "{engine}:{store}:{saves}:{seed:x}")?;
        if let Some(Shot { step, n, fault, lasts, ending }) = shot {
            let lasts = if *lasts { "lasting" } else { "once" };
            write!(f, ":{step}.{n}:{fault}:{lasts}:{ending}")?;
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a case");
        let parts: Vec<&str> = text.split(':').collect();
        let [engine, store, saves, seed, shot @ ..] = &parts[..] else { return Err(wrong()) };
        let shot = match shot {
            [] => None,
            [at, fault, lasts, ending] => {
                let (step, n) = at.split_once('.').ok_or_else(wrong)?;
                Some(Shot {
                    step: step.parse().map_err(|_| wrong())?,
                    n: n.parse().map_err(|_| wrong())?,
                    fault: fault.parse()?,
                    lasts: *lasts == "lasting",
                    ending: ending.parse()?,
                })
            }
            _ => return Err(wrong()),
        };
        Ok(Self {
            engine: engine.parse()?,
            store: store.parse()?,
            saves: *saves == "saved",
            seed: u64::from_str_radix(seed, 16).map_err(|_| wrong())?,
            shot,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_can_be_parsed_from_its_name() {
        for name in [
            "memory:ranges:saved:5f3a:12.3:hidden:once:crash",
            "redb:lists:unsaved:0:0.0:kill:lasting:close",
            "fjall:merged:saved:ffffffffffffffff",
        ] {
            assert_eq!(name.parse::<Plan>().unwrap().to_string(), name);
        }
        assert!("memory:ranges".parse::<Plan>().is_err());
    }
}
