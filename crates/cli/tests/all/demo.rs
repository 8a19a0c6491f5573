//! Tests `twiceshy demo` with few keys.

use crate::common::{Sandbox, all_fail};
use serde_json::Value;
use std::fs;

const SMALL: &str = "demo --keys 20000 --queries 20000 --seed 7";

/// Replaces each number in a line by 9, because times differ from run to run.
fn shape(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let is_number = word.starts_with(|letter: char| letter.is_ascii_digit());
        if is_number { "9" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn demo_prints_table_summary_and_page_path() {
    let sandbox = Sandbox::new();
    let text = sandbox.yes(&format!("{SMALL} --out page.html"));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let (table, rest) = text.split_once("\n\n").expect("a table and a summary");
    let table: Vec<String> = table.lines().map(shape).collect();
    assert_eq!(table[0], "traffic adapting queries disk reads repeated queries/s fewer faster");
    for (at, traffic) in ["skewed", "probing", "hostile"].into_iter().enumerate() {
        assert_eq!(table[3 + 2 * at], format!("{traffic} off 9 9 9 9"));
        assert!(table[4 + 2 * at].starts_with("on 9 9 9 9"), "{table:?}");
    }
    let rest: Vec<&str> = rest.split("\n\n").collect();
    let sentence = rest[0].replace('\n', " ");
    assert!(sentence.starts_with("Without adapting, "), "{sentence}");
    assert!(sentence.contains("and no key cost more than one"), "{sentence}");
    assert_eq!(rest[1], "The page with the curves is page.html\n");
    assert_eq!(sandbox.names(), ["page.html"]);
}

/// Returns the counts for each kind of traffic, first without and then with adapting.
fn counts(sandbox: &Sandbox, line: &str) -> Vec<[u64; 4]> {
    let results: Value = serde_json::from_str(&sandbox.yes(line)).expect("JSON");
    let count = |measured: &Value, name: &str| measured[name].as_u64().expect("a count");
    let of =
        |measured| ["queries", "found", "visits", "repeated"].map(|name| count(measured, name));
    let measured = results["traffic"].as_array().expect("a list");
    assert!(measured.iter().all(|one| one["queries_per_second"].as_f64() > Some(0.0)));
    measured.iter().map(of).collect()
}

#[test]
fn adapting_store_repeats_no_mistake() {
    let sandbox = Sandbox::new();
    let measured = counts(&sandbox, &format!("{SMALL} --json --out page.html"));
    assert_eq!(measured.len(), 6);
    for pair in measured.chunks(2) {
        let ([queries, found, visits, _], [_, _, fewer, repeated]) = (pair[0], pair[1]);
        assert_eq!((queries, repeated), (20_000, 0));
        assert_eq!([queries, found], pair[1][..2]);
        // The two filters have different remainders, so the adapting one may make a few more
        // mistakes by chance.
        assert!(fewer <= visits + 40, "{measured:?}");
    }
    let [skewed, _, probing, probed, hostile, defended] = measured[..] else { unreachable!() };
    let share = |found| (1800..2200).contains(&found);
    assert!(share(skewed[1]) && probing[1] == 0, "{measured:?}");
    assert!(probed[2] > 0 && probing[3] == 0, "the attacker queries new keys: {measured:?}");
    // A tenth of the traffic repeats the keys that the attacker noted.
    assert!(hostile[3] > 1800 && hostile[2] > 10 * defended[2], "{measured:?}");
}

#[test]
fn same_seed_gives_same_traffic() {
    let sandbox = Sandbox::new();
    let line = "demo --keys 5000 --queries 20000 --json --out page.html --seed";
    // The traffic is the same. Mistakes differ, because the remainders of a store are random.
    let traffic = |seed| counts(&sandbox, &format!("{line} {seed}")).into_iter().map(|all| all[1]);
    assert!(traffic(3).eq(traffic(3)));
    assert!(traffic(3).ne(traffic(4)));
}

#[test]
fn page_is_complete_and_well_formed() {
    let sandbox = Sandbox::new();
    sandbox.write("page.html", "an older page");
    sandbox.yes("demo --keys 2000 --queries 3001 --out page.html");
    let page = String::from_utf8(sandbox.read("page.html")).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
    let count = |name| document.descendants().filter(|node| node.tag_name().name() == name).count();
    assert_eq!(count("section"), 3);
    // Each plot is drawn twice, for wide and for narrow screens.
    assert!(count("svg") >= 4);
    assert!(page.contains("twiceshy demo --keys 2000 --queries 3001 --seed 1"));
}

#[test]
fn stores_are_created_in_directory_and_removed() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("disk")).unwrap();
    sandbox.yes("demo --keys 1000 --queries 1000 --directory disk --out page.html");
    assert_eq!(fs::read_dir(sandbox.path("disk")).unwrap().count(), 0);
    // Nothing else is printed if the page goes to standard output.
    let page = sandbox.shell("$T demo --keys 1000 --queries 1000 --out /dev/stdout | cat");
    assert!(page.text().starts_with("<!DOCTYPE html>") && page.text().ends_with("</html>\n"));
}

#[test]
fn failed_demo_prints_a_one_line_error() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.write("file", "");
    all_fail(
        &sandbox,
        &[
            ("demo --out folder", "folder: this is a directory; name a file in it"),
            ("demo --out none/page.html", "none: No such file or directory"),
            ("demo --directory none", "none: No such file or directory"),
            ("demo --directory file", "file: Not a directory"),
            ("demo --keys 10", "'--keys <KEYS>': 10 is not in 1000.."),
            ("demo --queries many", "'--queries <QUERIES>': invalid digit"),
            ("demo --seed -1", "'--seed <SEED>': invalid digit"),
        ],
    );
}
