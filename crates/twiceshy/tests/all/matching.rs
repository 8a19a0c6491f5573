//! Tests of lists that match hosts and URLs.

mod keys;

use std::path::PathBuf;
use twiceshy::KeyedSnapshot;
use twiceshy::{
    Keyed, Matching, MatchingFilter, SecretMode, YesNoFilter, list::ListError,
    snapshot::SnapshotError,
};

/// A rate so low that no unlisted key is answered yes by chance.
const RATE: f64 = 1e-9;

fn built(matching: Matching, yes: &[&str], no: &[&str]) -> Result<MatchingFilter, ListError> {
    YesNoFilter::builder().false_positive_rate(RATE).matching(matching).build(yes, no)
}

fn assert_answers(list: &MatchingFilter, lines: &[(&str, bool)]) {
    let (asked, expected): (Vec<&str>, Vec<bool>) = lines.iter().copied().unzip();
    let mut answers = Vec::new();
    list.contains_many(&asked, &mut answers);
    for ((line, expected), answer) in asked.iter().zip(expected).zip(answers) {
        assert_eq!(answer, expected, "{line}");
        assert_eq!(list.contains(line), expected, "{line}");
    }
}

#[test]
fn hosts_and_urls_match_everything_below_them() {
    let yes = ["# hosts", "Evil.example", "", "ads.good.example", "http://mixed.example/bad/"];
    let no = ["https://www.good.example"];
    let hosts = built(Matching::Host, &yes, &no).unwrap();
    assert_eq!((hosts.matching(), hosts.keyed().len()), (Matching::Host, 3));
    let both = [
        ("a.b.evil.example", true),
        ("https://EVIL.example:443/x", true),
        ("notevil.example", false),
        ("good.example", false),
        ("x.ads.good.example", true),
        ("mixed.example/bad/page?q", true),
        ("# hosts", false),
        ("", false),
    ];
    assert_answers(&hosts, &both);
    assert_answers(&hosts, &[("mixed.example/", true), ("mixed.example/badly", true)]);
    let urls = built(Matching::Url, &yes, &no).unwrap();
    assert_answers(&urls, &both);
    assert_answers(&urls, &[("mixed.example/", false), ("mixed.example/badly", false)]);
    let lines = built(Matching::Line, &yes, &no).unwrap();
    assert_answers(&lines, &[("Evil.example", true), ("evil.example", false), ("# hosts", true)]);
}

#[test]
fn internationalised_names_match_in_unicode_and_ascii() {
    let list = built(Matching::Host, &["bücher.example", "xn--e1afmkfd.example"], &["gut.example"]);
    assert_answers(
        &list.unwrap(),
        &[
            ("www.xn--bcher-kva.example", true),
            ("https://WWW.BÜCHER.example/", true),
            ("bucher.example", false),
            ("пример.example", true),
            ("gut.example", false),
            ("xn--a.bücher.example", true),
        ],
    );
}

#[test]
fn line_on_both_lists_is_refused_with_its_position() {
    let error = built(
        Matching::Host,
        &["# comment", "evil.example", "bücher.example"],
        &["good.example", "", "http://www.xn--bcher-kva.example/"],
    );
    assert!(matches!(error, Err(ListError::OnBothLists { yes: 2, no: 2, .. })), "{error:?}");
}

#[test]
fn unknown_labels_are_refused() {
    let filter = YesNoFilter::builder().label(77).build_keyed::<[u8], &[u8]>(&[b"a"], &[]).unwrap();
    let error = MatchingFilter::try_from(filter).unwrap_err();
    assert!(matches!(error, SnapshotError::UnknownMatching { label: 77 }), "{error}");
    let list = built(Matching::Url, &["a.example/b"], &[]).unwrap();
    let mut file = Vec::new();
    list.keyed().write_to(&mut file, SecretMode::Include).unwrap();
    let list: Keyed<[u8], YesNoFilter> = Keyed::read_from(&file[..], None).unwrap();
    let list = MatchingFilter::try_from(list).unwrap();
    assert_eq!(list.matching(), Matching::Url);
}

fn fixture(name: &str) -> MatchingFilter {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    MatchingFilter::open(path).unwrap()
}

/// Reads files that were written by a version that did not convert names to ASCII. Their yes list
/// has `Evil.example`, `https://user@ads.good.example:8443/x`, `*.wild.example.`,
/// `[2001:0DB8::1]:443`, `0x7f.1`, `bücher.example`, `xn--caf-dma.example`, `mixed.example/a b/`,
/// `mixed.example/x/../y` and `mixed.example?q`. Their no list has `https://www.good.example/` and
/// `news.example/a`.
#[test]
fn lists_of_earlier_versions_match_as_before() {
    let both = [
        ("www.evil.EXAMPLE:80", true),
        ("a.wild.example", true),
        ("2001:0db8::1", true),
        ("http://0x7f.1/", true),
        ("www.bücher.example", true),
        ("www.xn--caf-dma.example", true),
        ("www.café.example", true),
        ("ads.good.example/x/y", true),
        ("mixed.example/a b/c", true),
        ("mixed.example/x/../y?z", true),
        ("mixed.example?q", true),
        ("www.good.example", false),
        ("news.example/a", false),
        ("com", false),
    ];
    let hosts = fixture("v1-by-host.list");
    assert_eq!(hosts.matching(), Matching::Host);
    assert_answers(&hosts, &both);
    assert_answers(&hosts, &[("ads.good.example", true), ("mixed.example", true)]);
    let urls = fixture("v1-by-url.list");
    assert_eq!(urls.matching(), Matching::Url);
    assert_answers(&urls, &both);
    assert_answers(&urls, &[("ads.good.example", false), ("mixed.example", false)]);
}
