//! Tests which key a line is listed under, and which keys a lookup of a line needs.

use proptest::prelude::*;
use twiceshy::{Matching, list::UnknownMatching};

const ALL: [Matching; 3] = [Matching::Line, Matching::Host, Matching::Url];

/// Maximum number of places at which a path is cut.
const MOST_CUTS: usize = 16;

fn listed(matching: Matching, line: &str) -> Option<String> {
    matching.listed(line.as_bytes()).map(|key| String::from_utf8(key.into_owned()).unwrap())
}

fn asked(matching: Matching, line: &str) -> Vec<String> {
    let mut keys = Vec::new();
    matching.each_asked(line.as_bytes(), |key| keys.push(String::from_utf8(key.to_vec()).unwrap()));
    keys
}

/// Asserts that the line is listed under this host.
fn assert_host(line: &str, host: &str) {
    assert_eq!(listed(Matching::Host, line).as_deref(), Some(host), "{line}");
}

/// Asserts that a lookup of a line includes the key that the line is listed under.
fn assert_found(line: &str) {
    for matching in ALL {
        let (listed, asked) = (listed(matching, line), asked(matching, line));
        assert!(listed.iter().all(|key| asked.contains(key)), "{line}: {listed:?} {asked:?}");
        assert_eq!(listed.is_some(), !asked.is_empty(), "{line}");
    }
}

#[test]
fn keys_of_whole_lines_are_the_lines_themselves() {
    assert_eq!(listed(Matching::Line, " # A ").unwrap(), " # A ");
    assert_eq!(asked(Matching::Line, "https://a.b/"), ["https://a.b/"]);
}

#[test]
fn hosts_are_listed_without_the_rest_of_the_url() {
    for line in [
        "www.example.com",
        "  WWW.Example.COM.  ",
        "https://www.example.com",
        "https://user:word@www.example.com:8443/path?query#fragment",
        "*.www.example.com",
        "www.example.com/",
        "www.example.com?query",
        "www.example.com:80",
        "http://www.example.com\\@good.example/",
        "www.example.com # phishing",
        "svn+ssh://git@www.example.com/x",
        "mailto:somebody@www.example.com",
        "www.%65xample.com",
    ] {
        assert_host(line, "www.example.com");
    }
    for line in ["", "  ", "# comment", "//evil.com/x", "/", "?", "http://", "*.", ".", ":80"] {
        assert_eq!(listed(Matching::Host, line), None, "{line}");
        assert!(asked(Matching::Host, line).is_empty(), "{line}");
    }
}

#[test]
fn internationalised_names_match_their_ascii_form() {
    for (line, host) in [
        ("bücher.example", "xn--bcher-kva.example"),
        ("https://BÜCHER.example:443/x", "xn--bcher-kva.example"),
        ("XN--Bcher-KVA.example.", "xn--bcher-kva.example"),
        // u and a combining diaeresis
        ("bu\u{308}cher.example", "xn--bcher-kva.example"),
        ("b%C3%BCcher.example", "xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example"),
        ("пример.испытание", "xn--e1afmkfd.xn--80akhbyknj4f"),
        ("例え。テスト。", "xn--r8jz45g.xn--zckzah"),
        ("دامنه.example", "xn--mgbp1eef.example"),
        // Fullwidth letters, and a soft hyphen
        ("ｅｖｉｌ.exam\u{ad}ple", "evil.example"),
        // Names of mixed scripts are valid. The first letter of this one is Cyrillic, so it differs
        // from a Latin name.
        ("аpple.example", "xn--pple-43d.example"),
        ("_dmarc.bücher.example", "_dmarc.xn--bcher-kva.example"),
    ] {
        assert_host(line, host);
    }
    let keys = asked(Matching::Host, "www.Bücher.example");
    assert_eq!(keys[..2], ["www.xn--bcher-kva.example", "xn--bcher-kva.example"]);
    // Earlier versions listed names in this form, so lookups ask for this form, too.
    assert!(keys.contains(&"bücher.example".into()));
    let ascii = asked(Matching::Host, "www.xn--bcher-kva.example");
    assert_eq!(ascii, ["www.xn--bcher-kva.example", "xn--bcher-kva.example", "example"]);
    let url = listed(Matching::Url, "http://bücher.example/Bücher?für").unwrap();
    assert_eq!(url, "xn--bcher-kva.example/B%C3%BCcher?f%C3%BCr");
    assert!(asked(Matching::Url, "xn--bcher-kva.example/B%C3%BCcher?f%C3%BCr").contains(&url));
}

#[test]
fn invalid_names_keep_their_invalid_labels() {
    for (line, host) in [
        // Invalid Punycode
        ("XN--a.example", "xn--a.example"),
        ("xn--a.bücher.example", "xn--a.xn--bcher-kva.example"),
        ("xn--a。bücher。example", "xn--a.xn--bcher-kva.example"),
        // An ASCII label is invalid if its decoded name encodes to a different label.
        ("xn--example.example", "xn--example.example"),
        ("a b.Example", "a b.example"),
        ("<b>.example", "<b>.example"),
        ("a..b.example", "a..b.example"),
        ("\u{ad}", "\u{ad}"),
        // Only IP addresses may end in a number.
        ("Host.123", "host.123"),
        ("1.2.3.4.5", "1.2.3.4.5"),
        ("192.168.0.256", "192.168.0.256"),
    ] {
        assert_host(line, host);
        assert!(asked(Matching::Host, line).contains(&host.into()), "{line}");
    }
    // An invalid subdomain does not hide the host above it.
    assert!(asked(Matching::Host, "xn--a.evil.com").contains(&"evil.com".into()));
    let mut keys = Vec::new();
    Matching::Host.each_asked(b"\xff.Evil.com", |key| keys.push(key.to_vec()));
    assert_eq!(keys, [&b"\xff.evil.com"[..], b"evil.com", b"com"]);
    assert_eq!(Matching::Url.listed(b"evil.com/\xff/").unwrap(), &b"evil.com/\xff"[..]);
}

#[test]
fn ip_addresses_match_themselves_in_any_notation() {
    for line in ["192.0.2.1", "192.0.2.1:80", "http://0xc0.0.2.1/", "3221225985", "１９２.0.2.1"]
    {
        assert_host(line, "192.0.2.1");
    }
    for line in [
        "[2001:db8::1]:443",
        "2001:db8::1",
        "https://[2001:DB8::1]/x",
        "2001:0db8:0:0:0:0:0:1",
        "[2001:db8:0::0:1]",
    ] {
        assert_host(line, "2001:db8::1");
    }
    assert_eq!(asked(Matching::Host, "192.0.2.1"), ["192.0.2.1"]);
    assert_eq!(asked(Matching::Url, "[2001:DB8::1]/a"), ["2001:db8::1/a", "2001:db8::1"]);
    assert_host("fe80::1%eth0", "fe80::1%eth0");
}

#[test]
fn host_lookup_includes_every_parent_host() {
    assert_eq!(
        asked(Matching::Host, "https://a.b.example.com/x"),
        ["a.b.example.com", "b.example.com", "example.com", "com"]
    );
}

#[test]
fn long_lines_have_a_limited_number_of_keys() {
    let long = format!("{}com{}", "a.".repeat(2000), "/b".repeat(2000));
    assert_eq!(asked(Matching::Host, &long).len(), 1);
    assert_eq!(asked(Matching::Url, &long).len(), 1 + MOST_CUTS);
    let host = "a.".repeat(120);
    assert_eq!(asked(Matching::Host, &format!("{host}com")).len(), 121);
    let long = "ü".repeat(100_000);
    assert_eq!(asked(Matching::Host, &long), [long]);
}

#[test]
fn url_lookup_includes_every_parent_host_and_path() {
    assert_eq!(listed(Matching::Url, "http://Example.com/Path/").unwrap(), "example.com/Path");
    assert_eq!(
        asked(Matching::Url, "https://a.example.com/b/c.html?d=/e"),
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
}

#[test]
fn equivalent_paths_have_the_same_key() {
    for line in ["a.b/c/d e", "a.b/c/d%20e", "a.b/x/../c/./d e/", "a.b\\c\\d e"] {
        assert_eq!(listed(Matching::Url, line).unwrap(), "a.b/c/d%20e", "{line}");
        assert!(asked(Matching::Url, line).contains(&"a.b/c/d%20e".into()), "{line}");
    }
    for line in ["a.b?c", "a.b/?c", "a.b/?c#d"] {
        assert_eq!(listed(Matching::Url, line).unwrap(), "a.b/?c", "{line}");
    }
}

#[test]
fn listed_line_is_found_as_written() {
    for line in [
        "a.b",
        "http://a.b/",
        "a.b/c/",
        "a.b/c?d",
        "a.b//c",
        "A.b/C/?",
        "?",
        "/",
        "a.b/?/",
        "ü.b/ü",
        "a.b?c/",
        "a.b/../..",
        "1.2.3/x",
        "xn--a.ü/ /",
        "a.b/%zz/\\",
        "[::1]?/",
    ] {
        assert_found(line);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_listed_line_is_found(line in "[a-zü。.:/?#@\\\\\\[\\]%0-9 *-]{0,24}|\\PC*") {
        assert_found(&line);
    }
}

#[test]
fn matching_is_restored_from_its_name_and_label() {
    for (label, matching) in (0..).zip(ALL) {
        assert_eq!(matching.label(), label);
        assert_eq!(Matching::from_label(label), Some(matching));
        assert_eq!(matching.to_string().parse(), Ok(matching));
    }
    assert_eq!(Matching::from_label(3), None);
    assert_eq!("path".parse::<Matching>(), Err(UnknownMatching));
}
