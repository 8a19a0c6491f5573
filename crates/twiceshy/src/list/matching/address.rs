//! Splits lines into hosts and paths.
//!
//! Lines of block lists are rarely whole URLs, so this module splits them. The crates `url` and
//! `idna` then normalise hosts and paths.

use super::Matching;
use idna::AsciiDenyList;
use std::borrow::Cow;
use std::net::Ipv6Addr;
use url::{Host, Position, Url};

/// Length of the longest host name, in bytes. Longer names match only themselves.
const LONGEST_HOST: usize = 253;

/// Maximum number of places in a path at which an address is cut.
const MAX_CUTS: usize = 16;

/// Characters that separate the labels of an internationalised name.
const DOTS: [char; 4] = ['.', '\u{3002}', '\u{ff0e}', '\u{ff61}'];

/// Splits a line into host and path, unless it is a comment or has no host.
///
/// The host has no user, port, brackets, leading `*.` and trailing dot. The path begins at its `/`
/// or `?`, and has no fragment. It is empty if only hosts are matched.
pub(super) fn split(line: &[u8], matching: Matching) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii();
    let is_of_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let line = match line.windows(3).position(|three| three == b"://") {
        Some(at) if line[..at].iter().all(is_of_scheme) => &line[at + 3..],
        _ => line,
    };
    let line = line.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii_end();
    let end = line.iter().position(|byte| b"/?\\".contains(byte)).unwrap_or(line.len());
    let (host, path) = line.split_at(end);
    let host = host.rsplit(|&byte| byte == b'@').next().unwrap_or_default();
    let host = without_port_and_brackets(host);
    let host = host.strip_prefix(b"*.").unwrap_or(host);
    let host = host.strip_suffix(b".").unwrap_or(host);
    let path = if matching == Matching::Url { path } else { &[] };
    (!host.is_empty()).then_some((host, path))
}

/// Removes the port and the brackets of a host. Without brackets, several colons are part of an
/// IPv6 address.
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

/// Returns the host as the URL Standard writes it, and whether it is a name.
fn canonical_host(host: &[u8]) -> (Vec<u8>, bool) {
    let Ok(text) = str::from_utf8(host) else { return (host.to_ascii_lowercase(), true) };
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return (address.to_string().into_bytes(), false);
    }
    let name = match Host::parse(text) {
        Ok(Host::Domain(name)) => name,
        Ok(address) => return (address.to_string().into_bytes(), false),
        Err(_) => text.split(DOTS).map(canonical_label).collect::<Vec<_>>().join("."),
    };
    // The name is empty if it consisted only of characters that are ignored.
    match name.strip_suffix('.').unwrap_or(&name) {
        "" => (host.to_ascii_lowercase(), true),
        name => (name.into(), true),
    }
}

/// Returns the ASCII form of a label, or if it has none, the label in lower case.
fn canonical_label(label: &str) -> Cow<'_, str> {
    let ascii = idna::domain_to_ascii_cow(label.as_bytes(), AsciiDenyList::URL);
    ascii.unwrap_or_else(|_| label.to_ascii_lowercase().into())
}

/// Returns the path and query as the URL Standard writes them, unless they aren't UTF-8.
fn canonical_path(path: &[u8]) -> Cow<'_, [u8]> {
    if path.is_empty() {
        return path.into();
    }
    let url = str::from_utf8(path).ok().and_then(|path| format!("http://host{path}").parse().ok());
    url.map_or(path.into(), |url: Url| url[Position::BeforePath..].as_bytes().to_vec().into())
}

/// A host and a path as one key.
pub(super) struct Address {
    /// The host, then the path without slashes at its end.
    pub(super) key: Vec<u8>,
    /// Length of the host, in bytes.
    host: usize,
    /// Whether the host is a name. Only names can have hosts above them.
    is_name: bool,
}

impl Address {
    /// Returns the address as written, except that ASCII letters of the host are in lower case.
    pub(super) fn written((host, path): (&[u8], &[u8])) -> Self {
        Self::new(&host.to_ascii_lowercase(), path, true)
    }

    /// Returns the address as the URL Standard writes it.
    pub(super) fn canonical((host, path): (&[u8], &[u8])) -> Self {
        let (host, is_name) = canonical_host(host);
        Self::new(&host, &canonical_path(path), is_name)
    }

    fn new(host: &[u8], path: &[u8], is_name: bool) -> Self {
        let mut key = [host, path].concat();
        let end = key.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
        key.truncate(end);
        Self { key, host: host.len(), is_name }
    }

    /// Calls `key` with every key that matches this address: the address's own key, and the keys of
    /// all hosts and paths above it.
    pub(super) fn each_above(&self, mut key: impl FnMut(&[u8])) {
        let can_cut = self.is_name && self.host <= LONGEST_HOST;
        let cut = if can_cut { &self.key[..self.host] } else { &[] };
        let dots = cut.iter().enumerate().filter(|&(_, &byte)| byte == b'.');
        for start in std::iter::once(0).chain(dots.map(|(at, _)| at + 1)) {
            prefixes(&self.key[start..], self.host - start).for_each(&mut key);
        }
    }
}

/// Returns an address, and the addresses above it on the same host: without the query, and cut at
/// each `/`. `host` is the length of the host in bytes.
fn prefixes(address: &[u8], host: usize) -> impl Iterator<Item = &[u8]> {
    // A `/` in the query does not belong to the path.
    let query = address.iter().position(|&byte| byte == b'?').unwrap_or(address.len());
    let without_query = (query < address.len()).then(|| &address[..query]);
    let slashes = (host..query).filter(|&at| address[at] == b'/').take(MAX_CUTS);
    std::iter::once(address).chain(without_query).chain(slashes.map(|at| &address[..at]))
}
