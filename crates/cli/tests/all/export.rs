//! Tests `twiceshy store export`, and `store import --escaped`.

use crate::common::{Sandbox, all_fail, lines, prepared};
use serde_json::json;
use std::collections::BTreeMap;
use twiceshy_store::OpenOptions;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Creates a store of these pairs.
fn with_pairs(pairs: &Pairs) -> Sandbox {
    let sandbox = Sandbox::new();
    let store = OpenOptions::new().capacity(1000).open(sandbox.path("store")).unwrap();
    store.put_many(pairs).unwrap();
    store.close().unwrap();
    sandbox
}

fn with_pair(key: &[u8], value: &[u8]) -> Sandbox {
    with_pairs(&Pairs::from([(key.into(), value.into())]))
}

/// Returns the pairs of a store.
fn pairs(sandbox: &Sandbox, store: &str) -> Pairs {
    let store = OpenOptions::new().create(false).open(sandbox.path(store)).unwrap();
    store
        .iter()
        .map(|pair| pair.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// Returns pairs with every byte, alone and beside others, and empty keys and values.
fn binary_pairs() -> Pairs {
    let mut pairs = Pairs::from([(Vec::new(), b"of the empty key".to_vec())]);
    for byte in 0..=u8::MAX {
        pairs.insert(vec![byte], vec![byte, b'\r']);
        pairs.insert(vec![b'k', byte, b':', byte], Vec::new());
        pairs.insert(vec![byte, b'\n', b'\\', byte], vec![b'\t', byte, byte, b'\n']);
    }
    pairs
}

#[test]
fn exported_lines_can_be_imported() {
    let sandbox = prepared();
    assert_eq!(sandbox.run("store export store -o out --json").json(), json!({"exported": 3}));
    let mut sorted: Vec<_> = sandbox.yes("store export store").lines().map(str::to_owned).collect();
    assert_eq!(sandbox.read("out"), (sorted.join("\n") + "\n").as_bytes());
    sorted.sort();
    assert_eq!(sorted, ["alice\t1", "bob\t2", "carol\t3"]);
    sandbox.yes("store import new out --layout split");
    assert_eq!(pairs(&sandbox, "new"), pairs(&sandbox, "store"));
    assert_eq!(sandbox.yes("store export new"), "alice\t1\nbob\t2\ncarol\t3\n", "in key order");
    assert_eq!(sandbox.yes("store export new --separator =>"), "alice=>1\nbob=>2\ncarol=>3\n");
    assert_eq!(sandbox.yes("store export new --keys-only"), "alice\nbob\ncarol\n");
    let first = |line| sandbox.yes(line).lines().next().map(str::to_owned);
    let json = first("store export new --json");
    assert_eq!(json.as_deref(), Some(r#"{"key":"alice","value":"1"}"#));
    let json = first("store export new --json --keys-only");
    assert_eq!(json.as_deref(), Some(r#"{"key":"alice"}"#));
    sandbox.expect("store import empty", "", 0);
    assert_eq!(sandbox.yes("store export empty"), "");
}

#[test]
fn escaped_export_keeps_every_byte() {
    let expected = binary_pairs();
    let sandbox = with_pairs(&expected);
    for (number, option) in
        ["", "--separator ,", "--separator x", "--separator ::"].iter().enumerate()
    {
        sandbox.yes(&format!("store export store --escaped -o out {option}"));
        assert!(String::from_utf8(sandbox.read("out")).is_ok());
        sandbox.yes(&format!("store import new{number} out --escaped {option}"));
        assert_eq!(pairs(&sandbox, &format!("new{number}")), expected, "{option}");
    }
    sandbox.yes("store export store --escaped --keys-only -o out");
    sandbox.yes("store import keys out --escaped --keys-only");
    let keys: Pairs = expected.into_keys().map(|key| (key, Vec::new())).collect();
    assert_eq!(pairs(&sandbox, "keys"), keys);
}

#[test]
fn escaped_lines_are_text() {
    let sandbox = with_pair("a,b\té".as_bytes(), b"1\t\\2\r\n\xff,");
    assert_eq!(
        sandbox.yes("store export store --escaped --separator ,"),
        "a\\x2cb\\té,1\\t\\\\2\\r\\n\\xff,\n"
    );
}

#[test]
fn pair_that_cannot_be_written_as_a_line_is_an_error_and_leaves_no_file() {
    for (key, value, option, reason) in [
        (&b"a\tb"[..], &b"1"[..], "", "the separator would be found within the key"),
        (b"a:", b"1", "--separator ::", "the separator would be found within the key"),
        (b"a\nb", b"1", "", "it contains a line feed"),
        (b"a\nb", b"1", "--keys-only", "it contains a line feed"),
        (b"ab", b"1\n", "", "it contains a line feed"),
        (b"ab", b"1\r", "", "its line would end in a carriage return"),
        (b"ab\r", b"1", "--keys-only", "its line would end in a carriage return"),
        (b"a\xff", b"1", "", "it is not UTF-8"),
        (b"ab", b"\xff", "", "it is not UTF-8"),
        (b"\xef\xbb\xbfa", b"1", "", "the file would begin with a byte order mark or"),
        (b"P*M\x18", b"1", "", "the file would begin with a byte order mark or like a compressed"),
    ] {
        let sandbox = with_pair(key, value);
        let reason = format!("cannot be written as a line, because {reason}");
        let line = format!("store export store -o new {option}");
        all_fail(&sandbox, &[(&line, &reason), (&line, "; use --escaped")]);
        sandbox.yes(&format!("store export store -o new --escaped {option}"));
    }
    let sandbox = with_pair(b"a\tb", b"1");
    let named = r#"store: the pair with the key "a\tb" cannot be written"#;
    sandbox.write("out", "old");
    all_fail(&sandbox, &[("store export store -o out", named), ("store export store", named)]);
    assert_eq!(sandbox.read("out"), b"old");
    // These formats need no separator, so the key can contain a tab.
    assert_eq!(sandbox.yes("store export store --keys-only"), "a\tb\n");
    assert_eq!(
        sandbox.run("store export store --json").json(),
        json!({"key": "a\tb", "value": "1"})
    );
}

#[test]
fn unknown_escape_sequence_is_an_error_that_names_the_line() {
    let sandbox = prepared();
    sandbox.write("bad", "dave\t4\nerin\t5\\q\n");
    let reason = r"bad: line 2 has the unknown escape \q; a backslash is written as \\";
    all_fail(
        &sandbox,
        &[
            ("store import new bad --escaped", reason),
            ("store import store bad --escaped", reason),
            ("store import new bad --escaped --keys-only", reason),
        ],
    );
    let stdin = "dave\\x4\t4\n";
    sandbox.fails("store import new --escaped", stdin, "standard input: line 1 has the unknown");
    let stdin = "dave\\t4\n";
    sandbox.fails("store import new --escaped", stdin, "line 1 has no separator");
    assert!(!sandbox.path("new").exists());
    sandbox.yes("store import new bad");
    assert_eq!(sandbox.yes("store get new erin"), "5\\q");
}

#[test]
fn invalid_separator_is_an_error() {
    let sandbox = prepared();
    for command in ["store export store", "store import store pairs"] {
        for (option, reason) in [
            ("--separator=", "--separator must not be empty"),
            (
                r"--separator \ --escaped",
                "with --escaped, --separator must not contain backslashes",
            ),
            ("--separator \u{feff} --escaped", "with --escaped, --separator must not contain"),
            ("--separator , --keys-only", "cannot be used with"),
        ] {
            all_fail(&sandbox, &[(&format!("{command} {option}"), reason)]);
        }
        let run = sandbox.shell(&format!("$T {command} --separator '\n'"));
        crate::common::failed(&run, command, "--separator must not contain a line feed");
    }
}

#[test]
fn export_into_the_exported_store_is_an_error() {
    let reason = "this is inside the store; write the output to a different directory";
    all_fail(
        &prepared(),
        &[
            ("store export store -o store/out", reason),
            ("store export store -o store/data/out", reason),
            ("store export store -o store", "store: this is a directory"),
        ],
    );
}

/// Export writes to a pipe while it reads the store, and stops when the reader closes the pipe.
#[cfg(target_os = "linux")]
#[test]
fn export_works_with_pipes() {
    let sandbox = Sandbox::new();
    sandbox.write("keys", lines("key", 100_000));
    sandbox.yes("store import store keys --keys-only");
    let run = sandbox.shell("$T store export store --keys-only -o /dev/stdout | wc -l");
    assert_eq!((run.text().trim(), run.stderr.as_str()), ("100000", ""));
    let run = sandbox.shell("{ $T store export store; echo $? > code; } | head -n 1 | wc -l");
    assert_eq!((run.text().trim(), run.stderr.as_str()), ("1", ""));
    assert_eq!(sandbox.read("code"), b"0\n");
    let moved = "$T store export store --escaped | gzip | $T store import new --escaped --json";
    assert_eq!(sandbox.shell(moved).json(), json!({"imported": 100_000, "members": 100_000}));
}
