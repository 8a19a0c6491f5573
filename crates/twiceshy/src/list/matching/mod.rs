//! Matches by line, host or URL. Computes the key of a listed line, and the keys that a lookup of a
//! line needs.

mod address;
mod filter;

pub use filter::{MatchingFilter, MatchingFilterBuilder};

use address::{Address, split};
use core::fmt;
use core::str::FromStr;
use std::borrow::Cow;

/// How the lines of a list are matched: as whole lines, by host, or by host and path.
///
/// A listed host also matches the hosts below it: `example.com` matches `www.example.com`, but
/// not `badexample.com`. A listed URL matches its host and path, every longer path, and the same
/// paths on the hosts below.
///
/// ```
/// use twiceshy::{Matching, YesNoFilter};
/// let blocked = ["bücher.example", "http://mixed.example/bad/"];
/// let popular = ["www.good.example", "mixed.example"];
/// let list = YesNoFilter::builder().matching(Matching::Url).build(&blocked, &popular)?;
/// assert!(list.contains("https://www.xn--bcher-kva.example:8443/catalogue"));
/// assert!(list.contains("mixed.example/bad/page?id=7"));
/// assert!(!list.contains("https://mixed.example/"));
/// # Ok::<(), twiceshy::list::ListError>(())
/// ```
///
/// # Hosts
/// A line is a host or a URL. The scheme, user, port, brackets, a leading `*.`, a trailing dot and
/// everything from `#` are dropped. Lines without a host are skipped, such as empty lines and lines
/// that start with `#` or `/`. A backslash ends the host, as it does in a browser.
///
/// Hosts are then normalised by the [URL Standard](https://url.spec.whatwg.org/#host-parsing):
/// names to lower case, internationalised names to their ASCII form (`bücher.example` becomes
/// `xn--bcher-kva.example`), and IP addresses to their usual form. An IP address matches only
/// itself, and so does a name of more than 253 bytes.
///
/// Names that the standard refuses are not an error. Their valid labels become ASCII, and the other
/// labels only become lower case, so a listed host also matches below an invalid subdomain. Hosts
/// that aren't UTF-8 only become lower case.
///
/// # Paths
/// A path includes its query. Dot segments are resolved, characters that need it are
/// percent-encoded, and trailing slashes are dropped. `example.com/a` matches `example.com/a/b` and
/// `example.com/a?b`, but not `example.com/ab`. A key of more than 15 slashes matches only itself.
///
/// # Older lists
/// Earlier versions stored each line as written, except for the case of ASCII letters. A lookup
/// therefore tries both the normalised line and the line as written, if they differ, so older
/// lists still match what they matched before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Matching {
    /// A key is a line, unchanged.
    Line,
    /// A key is a host, and matches all of its subdomains.
    Host,
    /// A key is a host and a path. It matches paths that continue it, on the same host and on its
    /// subdomains.
    Url,
}

impl Matching {
    const ALL: [Self; 3] = [Self::Line, Self::Host, Self::Url];

    /// Returns the [label](crate::builder::Builder::label) that records this matching in a list.
    pub const fn label(self) -> u32 {
        self as u32
    }

    /// Returns the matching that a [label](crate::YesNoFilter::label) records, or `None` if the
    /// label is unknown.
    pub fn from_label(label: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|matching| matching.label() == label)
    }

    /// Returns the name: `line`, `host` or `url`.
    pub const fn name(self) -> &'static str {
        ["line", "host", "url"][self as usize]
    }

    /// Returns the key of a line of the yes list, or `None` if the line is skipped.
    ///
    /// ```
    /// use twiceshy::Matching;
    /// let key = Matching::Host.listed(b"https://WWW.Example.com:8443/path").unwrap();
    /// assert_eq!(&*key, b"www.example.com");
    /// assert_eq!(Matching::Host.listed(b"# comment"), None);
    /// ```
    pub fn listed(self, line: &[u8]) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Line => Some(line.into()),
            _ => Some(Address::canonical(split(line, self)?).key.into()),
        }
    }

    /// Calls `key` with every key that would match `line` if the key were on the yes list.
    ///
    /// A line of the no list stands for all of these keys: the answer to each must be "no".
    ///
    /// ```
    /// use twiceshy::Matching;
    /// let mut keys = Vec::new();
    /// Matching::Host.each_asked(b"www.example.com", |key| keys.push(key.to_vec()));
    /// assert_eq!(keys, [&b"www.example.com"[..], b"example.com", b"com"]);
    /// ```
    pub fn each_asked(self, line: &[u8], mut key: impl FnMut(&[u8])) {
        if self == Self::Line {
            return key(line);
        }
        let Some(parts) = split(line, self) else { return };
        let (canonical, written) = (Address::canonical(parts), Address::written(parts));
        canonical.each_above(&mut key);
        if written.key != canonical.key {
            written.each_above(&mut key);
        }
    }
}

impl fmt::Display for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error when a string does not name a [`Matching`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("matching must be line, host or url")]
pub struct UnknownMatching;

impl FromStr for Matching {
    type Err = UnknownMatching;

    fn from_str(name: &str) -> Result<Self, UnknownMatching> {
        Self::ALL.into_iter().find(|matching| matching.name() == name).ok_or(UnknownMatching)
    }
}
