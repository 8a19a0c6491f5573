//! Which keys a line is: as it is, or as block lists are used.

use crate::commands::members::KeysOfLine;
use clap::ValueEnum;

/// How keys are matched. What is said here is what `twiceshy list build --help` promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Matching {
    /// A key is a line as it is
    Line,
    /// A key is a host, and stands for all hosts below it
    Host,
    /// A key is a host and a path, and stands for all below either
    Url,
}

impl Matching {
    const ALL: [Self; 3] = [Self::Line, Self::Host, Self::Url];

    /// The number by which a list remembers it.
    pub(super) fn label(self) -> u32 {
        self as u32
    }

    pub(super) fn of_label(label: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|matching| matching.label() == label)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Host => "host",
            Self::Url => "url",
        }
    }
}

/// The one key of a line of a yes list.
#[derive(Clone, Copy)]
pub(super) struct Listed(pub(super) Matching);

/// All keys by which a line is found if they are listed: those of what is asked for, and of a line
/// of a no list, because each of them must be answered no then.
#[derive(Clone, Copy)]
pub(super) struct Asked(pub(super) Matching);

impl KeysOfLine for Listed {
    #[inline]
    fn each(self, line: &[u8], mut key: impl FnMut(&[u8])) {
        match self.0 {
            Matching::Line => key(line),
            matching => {
                if let Some(address) = Address::of(line) {
                    key(&address.key(matching));
                }
            }
        }
    }
}

impl KeysOfLine for Asked {
    #[inline]
    fn each(self, line: &[u8], mut key: impl FnMut(&[u8])) {
        match self.0 {
            Matching::Line => key(line),
            Matching::Host => {
                if let Some(address) = Address::of(line) {
                    suffixes(&address.host).for_each(&mut key);
                }
            }
            Matching::Url => {
                let Some(address) = Address::of(line) else { return };
                let whole = address.key(Matching::Url);
                for host in suffixes(&address.host) {
                    let rest = &whole[address.host.len() - host.len()..];
                    prefixes(rest, host.len()).for_each(&mut key);
                }
            }
        }
    }
}

/// A line that is no comment, as host and path.
struct Address<'a> {
    /// In lower case, without port, user, a leading `*.` and the dot at its end.
    host: Vec<u8>,
    /// From the first `/` on, without a fragment.
    path: &'a [u8],
}

impl<'a> Address<'a> {
    fn of(line: &'a [u8]) -> Option<Self> {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return None;
        }
        let line = match line.windows(3).position(|three| three == b"://") {
            Some(at) if line[..at].iter().all(|&byte| is_of_scheme(byte)) => &line[at + 3..],
            _ => line,
        };
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii_end();
        let end = line.iter().position(|byte| b"/?".contains(byte)).unwrap_or(line.len());
        let (host, path) = line.split_at(end);
        let host = host.rsplit(|&byte| byte == b'@').next().unwrap_or_default();
        let host = without_port_and_brackets(host);
        let host = host.strip_prefix(b"*.").unwrap_or(host);
        let host = host.strip_suffix(b".").unwrap_or(host);
        (!host.is_empty()).then(|| Self { host: host.to_ascii_lowercase(), path })
    }

    /// The host, and the path if it matters, without `/` at its end.
    fn key(&self, matching: Matching) -> Vec<u8> {
        let mut key = self.host.clone();
        if matching == Matching::Url {
            key.extend_from_slice(self.path);
            while key.last() == Some(&b'/') {
                key.pop();
            }
        }
        key
    }
}

fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// A host without a port, and an IPv6 address without brackets. More than one colon are its own.
fn without_port_and_brackets(host: &[u8]) -> &[u8] {
    if let Some(inside) = host.strip_prefix(b"[") {
        return inside.split(|&byte| byte == b']').next().unwrap_or_default();
    }
    let mut colons = host.iter().enumerate().filter(|&(_, &byte)| byte == b':');
    match (colons.next(), colons.next()) {
        (Some((at, _)), None) if host[at + 1..].iter().all(u8::is_ascii_digit) => &host[..at],
        _ => host,
    }
}

/// The longest name that a host can have. What is longer is none, and only itself.
const LONGEST_HOST: usize = 253;

/// Parts of a path at which an address is cut: the first ones.
const MOST_CUTS: usize = 16;

/// A host, and all that it is below.
fn suffixes(host: &[u8]) -> impl Iterator<Item = &[u8]> {
    let cut = if host.len() > LONGEST_HOST { &[] } else { host };
    let dots = cut.iter().enumerate().filter(|&(_, &byte)| byte == b'.');
    std::iter::once(host).chain(dots.map(|(at, _)| &host[at + 1..]))
}

/// An address whose host has so many bytes, and all that it is below: without what follows `?`,
/// and cut at each `/`.
fn prefixes(address: &[u8], host: usize) -> impl Iterator<Item = &[u8]> {
    let cuts = address.iter().enumerate().skip(host);
    let cuts = cuts.filter(|&(_, byte)| b"/?".contains(byte)).map(|(at, _)| at);
    // A `/` behind the `?` is none of a path.
    let query = address.iter().position(|&byte| byte == b'?').unwrap_or(address.len());
    let cuts = cuts.take_while(move |&at| at <= query).take(MOST_CUTS);
    let without_query = (query < address.len()).then(|| &address[..query]);
    let cuts = cuts.filter(move |&at| at < query).map(|at| &address[..at]);
    std::iter::once(address).chain(without_query).chain(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(of_line: impl KeysOfLine, line: &str) -> Vec<String> {
        let mut keys = Vec::new();
        of_line.each(line.as_bytes(), |key| keys.push(String::from_utf8(key.to_vec()).unwrap()));
        keys
    }

    #[test]
    fn lines_are_keys_as_they_are() {
        assert_eq!(keys(Listed(Matching::Line), " # A "), [" # A "]);
        assert_eq!(keys(Asked(Matching::Line), "https://a.b/"), ["https://a.b/"]);
    }

    #[test]
    fn hosts_are_listed_without_what_isnt_theirs() {
        for line in [
            "www.example.com",
            "  WWW.Example.COM.  ",
            "https://www.example.com",
            "https://user:word@www.example.com:8443/path?query#fragment",
            "*.www.example.com",
            "www.example.com/",
            "www.example.com?query",
        ] {
            assert_eq!(keys(Listed(Matching::Host), line), ["www.example.com"], "{line}");
        }
        assert!(keys(Listed(Matching::Host), "# comment").is_empty());
        assert!(keys(Listed(Matching::Host), "  ").is_empty());
        for line in ["[2001:db8::1]:443", "2001:db8::1", "https://[2001:DB8::1]/x"] {
            assert_eq!(keys(Listed(Matching::Host), line), ["2001:db8::1"], "{line}");
        }
        assert_eq!(keys(Listed(Matching::Host), "evil.com # phishing"), ["evil.com"]);
        assert_eq!(keys(Listed(Matching::Host), "svn+ssh://git@evil.com/x"), ["evil.com"]);
        // What has no host is no key.
        for line in ["//evil.com/x", "/", "http://", "*.", "."] {
            assert!(keys(Listed(Matching::Host), line).is_empty(), "{line}");
        }
    }

    #[test]
    fn hosts_are_found_below_those_that_are_listed() {
        assert_eq!(
            keys(Asked(Matching::Host), "https://a.b.example.com/x"),
            ["a.b.example.com", "b.example.com", "example.com", "com"]
        );
    }

    #[test]
    fn long_lines_are_few_keys() {
        let long = format!("{}com{}", "a.".repeat(2000), "/b".repeat(2000));
        assert_eq!(keys(Asked(Matching::Host), &long).len(), 1);
        assert_eq!(keys(Asked(Matching::Url), &long).len(), 1 + MOST_CUTS);
        let host = "a.".repeat(120);
        assert_eq!(keys(Asked(Matching::Host), &format!("{host}com")).len(), 121);
    }

    #[test]
    fn urls_are_found_below_hosts_and_paths() {
        assert_eq!(keys(Listed(Matching::Url), "http://Example.com/Path/"), ["example.com/Path"]);
        assert_eq!(
            keys(Asked(Matching::Url), "https://a.example.com/b/c.html?d=/e"),
            [
                "a.example.com/b/c.html?d=/e",
                "a.example.com/b/c.html",
                "a.example.com",
                "a.example.com/b",
                "example.com/b/c.html?d=/e",
                "example.com/b/c.html",
                "example.com",
                "example.com/b",
                "com/b/c.html?d=/e",
                "com/b/c.html",
                "com",
                "com/b",
            ]
        );
        // What is listed is among what is asked for, however it is written.
        for line in
            ["a.b", "http://a.b/", "a.b/c/", "a.b/c?d", "a.b//c", "A.b/C/?", "?", "/", "a.b/?/"]
        {
            let listed = keys(Listed(Matching::Url), line);
            let asked = keys(Asked(Matching::Url), line);
            assert!(listed.iter().all(|key| asked.contains(key)), "{line}: {listed:?} {asked:?}");
        }
    }
}
