//! Tests `twiceshy filter`.

use crate::common::{Sandbox, lines};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use std::io::Write as _;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Creates a filter of alice, bob and carol.
fn with_three_keys() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("keys", "alice\nbob\ncarol\n");
    sandbox.yes("filter build keys -o filter --rate 0.000001");
    sandbox
}

#[test]
fn filter_check_prints_the_answer_for_each_key() {
    let sandbox = with_three_keys();
    sandbox.write("queries", "alice\nmallory\nbob\n");
    assert_eq!(
        sandbox.no("filter check filter queries"),
        "maybe\talice\nabsent\tmallory\nmaybe\tbob\n"
    );
    assert_eq!(sandbox.no("filter check filter queries --only maybe"), "alice\nbob\n");
    assert_eq!(sandbox.no("filter check filter queries --only absent"), "mallory\n");
    assert_eq!(sandbox.yes("filter check filter keys --only absent"), "");
    assert_eq!(sandbox.expect("filter check filter", "mallory\n", 1), "absent\tmallory\n");
    assert_eq!(sandbox.expect("filter check filter -", "alice", 0), "maybe\talice\n");
    assert_eq!(sandbox.expect("filter check filter -", "", 0), "");
}

#[test]
fn json_option_prints_json() {
    let sandbox = with_three_keys();
    let answers = sandbox.expect("filter check filter - --json --bytes", b"bob\n\xff\"\n", 1);
    assert_eq!(
        answers,
        "{\"key\":\"bob\",\"answer\":\"maybe\"}\n{\"key\":{\"hex\":\"ff22\"},\"answer\":\"absent\"}\n"
    );
    let run = sandbox.run_with("--json filter check filter --count", "bob\nmallory\n");
    assert_eq!((run.code, run.json()), (1, json!({"checked": 2, "maybe": 1, "absent": 1})));
    let info = sandbox.run("filter info filter --json").json();
    assert_eq!((&info["members"], &info["secret"]), (&json!(3), &json!("in the file")));
    assert_eq!(info["bytes"], sandbox.read("filter").len());
    let verified = sandbox.run("filter verify filter --json").json();
    assert_eq!(verified, json!({"valid": true, "members": 3}));
}

#[test]
fn keys_are_read_from_plain_and_compressed_input() {
    let sandbox = Sandbox::new();
    let (first, second, third) = (lines("a", 1000), lines("b", 1000), lines("c", 1000));
    sandbox.write("plain", &first);
    sandbox.write("keys.gz", [gzip(&second[..2000]), gzip(&second[2000..])].concat());
    sandbox.write("keys.zst", zstd::encode_all(third.as_bytes(), 3).unwrap());
    let fourth = gzip(&lines("d", 1000));
    let run = sandbox.run_with("filter build plain keys.gz - keys.zst -o filter --json", fourth);
    assert_eq!((run.code, &run.json()["members"]), (0, &json!(4000)));
    for file in ["plain", "keys.gz", "keys.zst"] {
        assert!(sandbox.yes(&format!("filter verify filter --keys {file}")).contains("1,000"));
    }
    assert_eq!(sandbox.expect("filter check filter --only absent", lines("d", 1000), 0), "");
}

#[test]
fn line_endings_are_not_part_of_keys_and_repeated_keys_count_once() {
    let sandbox = Sandbox::new();
    let run = sandbox.run_with("filter build -o filter --json", "one\r\ntwo\n\none\ntwo");
    assert_eq!(run.json()["lines"], 5);
    assert_eq!(run.json()["members"], 3);
    sandbox.expect("filter check filter", "one\ntwo\r\n\n", 0);
    sandbox.expect("filter build -o filter", "", 0);
    sandbox.expect("filter check filter", "\n", 1);
}

#[test]
fn large_filter_has_all_keys_and_few_false_positives() {
    let sandbox = Sandbox::new();
    sandbox.write("keys", lines("member", 200_000));
    sandbox.write("others", lines("other", 200_000));
    let built = sandbox.run("filter build keys -o filter --rate 0.01 --json").json();
    assert_eq!(built["members"], 200_000);
    sandbox.yes("filter verify filter --keys keys");
    let counts = sandbox.run("filter check filter others --count --json").json();
    let rate = built["false_positive_rate"].as_f64().unwrap();
    assert!(rate <= 0.01, "{built}");
    let (mean, maybe) = (rate * 200_000.0, counts["maybe"].as_f64().unwrap());
    assert!((maybe - mean).abs() < 6.0 * mean.sqrt(), "{maybe} instead of {mean}");
}

#[test]
fn capacity_option_leaves_room_for_more_keys() {
    let sandbox = Sandbox::new();
    sandbox.write("keys", lines("key", 100));
    let slots = |options: &str| {
        sandbox.yes(&format!("filter build keys -o filter {options}"));
        sandbox.run("filter info filter --json").json()["slots"].as_u64().unwrap()
    };
    assert!(slots("") < 200);
    assert!(slots("--capacity 10000") > 10_000);
    assert!(slots("--capacity 10") < 200);
}

#[test]
fn verify_counts_missing_keys() {
    let sandbox = with_three_keys();
    sandbox.write("others", "alice\nmallory\n");
    let report = sandbox.no("filter verify filter --keys others");
    assert!(report.contains("missing  1\n"), "{report}");
}

#[cfg(unix)]
#[test]
fn only_owner_can_read_the_secret() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = with_three_keys();
    let mode = |name| std::fs::metadata(sandbox.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("filter"), 0o600);
    sandbox.yes("filter build keys -o apart --secret-file secret");
    assert_eq!(mode("secret"), 0o600);
}

#[test]
fn secret_can_be_in_a_separate_file() {
    let sandbox = with_three_keys();
    sandbox.yes("filter build keys -o apart --secret-file secret");
    let secret = sandbox.read("secret");
    assert_eq!(secret.len(), 33);
    assert!(!sandbox.read("apart").windows(16).any(|bytes| bytes == &secret[..16]));
    sandbox.yes("filter verify apart --keys keys --secret-file secret");
    sandbox.yes("filter verify apart");
    sandbox.yes("filter verify apart --secret-file secret");
    assert!(sandbox.yes("filter info apart").contains("not in the file"));

    sandbox.yes("filter build keys -o another --secret-file secret");
    assert_eq!(sandbox.read("secret"), secret, "the secret is used again");
    assert_eq!(sandbox.read("another"), sandbox.read("apart"));

    sandbox.fails(
        "filter check apart keys",
        "",
        "apart: the secret is not in this file; use --secret-file",
    );
    sandbox.write("other", "00112233445566778899aabbccddeeff\n");
    sandbox.fails("filter check apart keys --secret-file other", "", "a different secret");
    sandbox.fails("filter verify apart --secret-file other", "", "a different secret");
    sandbox.write("short", "0011\n");
    sandbox.fails(
        "filter check apart keys --secret-file short",
        "",
        "short: this file must contain a secret of 32 hex",
    );
    sandbox.fails(
        "filter check apart keys --secret-file none",
        "",
        "none: this file does not exist",
    );
}

/// The keys do not fit into the buffer of a pipe, so once the test has written all of them, the
/// program has begun to read.
#[cfg(unix)]
#[test]
fn secret_written_by_another_process_is_not_replaced() {
    let sandbox = Sandbox::new();
    sandbox.write("keys", lines("key", 100_000));
    let line = "(cat keys; echo theirs > secret) | $T filter build -o new --secret-file secret";
    let run = sandbox.shell(line);
    crate::common::failed(&run, line, "secret: File exists");
    assert_eq!(sandbox.read("secret"), b"theirs\n");
    assert_eq!(sandbox.names(), ["keys", "secret"]);
}

#[test]
fn filters_built_with_like_option_can_be_merged() {
    let sandbox = Sandbox::new();
    for (name, count) in [("monday", 100), ("tuesday", 150), ("sunday", 2000)] {
        sandbox.write(name, lines(name, count));
    }
    sandbox.yes("filter build monday -o monday.filter");
    sandbox.yes("filter build tuesday --like monday.filter -o tuesday.filter");
    let merged = sandbox.run("filter merge monday.filter tuesday.filter -o both.filter --json");
    assert_eq!(merged.json()["members"], 250);
    sandbox.yes("filter build sunday --like both.filter -o sunday.filter");
    sandbox.yes("filter merge both.filter sunday.filter -o all.filter");
    for name in ["monday", "tuesday", "sunday"] {
        sandbox.yes(&format!("filter verify all.filter --keys {name}"));
    }
}

#[test]
fn byte_order_mark_is_not_part_of_key() {
    let sandbox = with_three_keys();
    let marked = "\u{feff}alice\nbob\n";
    assert_eq!(sandbox.expect("filter check filter", marked, 0), "maybe\talice\nmaybe\tbob\n");
    let zstd = zstd::encode_all(marked.as_bytes(), 1).unwrap();
    sandbox.expect("filter check filter", zstd, 0);
    assert_eq!(sandbox.expect("filter check filter", "\u{feff}", 0), "");
    let bytes = sandbox.expect("filter check filter --bytes", marked, 1);
    assert_eq!(bytes, "absent\t\u{feff}alice\nmaybe\tbob\n");
}

#[test]
fn skippable_zstd_frame_is_skipped() {
    let sandbox = with_three_keys();
    let keys = zstd::encode_all(&b"alice\n"[..], 1).unwrap();
    for kind in [0x50, 0x5f] {
        // A skippable frame: its magic number, its length, and the skipped bytes.
        let skipped = [kind, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'x', b'y', b'z'];
        let compressed = [&skipped[..], &keys].concat();
        assert_eq!(sandbox.expect("filter check filter", compressed, 0), "maybe\talice\n");
    }
}

#[test]
fn output_does_not_replace_input() {
    let sandbox = with_three_keys();
    sandbox.write("secret", "00112233445566778899aabbccddeeff\n");
    let files = || ["keys", "filter", "secret"].map(|name| sandbox.read(name));
    let before = files();
    let (input, secret) = ("this is an input; write", "this is the file with the secret; write");
    crate::common::all_fail(
        &sandbox,
        &[
            ("filter build keys -o keys", input),
            ("filter build - keys -o ./keys", input),
            ("filter merge filter filter -o filter", input),
            ("filter build keys -o new --secret-file new", secret),
            ("filter build keys -o new --secret-file ./new", secret),
            ("filter build keys -o secret --secret-file secret", secret),
            ("filter merge filter filter -o secret --secret-file secret", secret),
        ],
    );
    assert_eq!(files(), before);
}

#[test]
fn filter_merged_with_a_secret_file_does_not_contain_the_secret() {
    let sandbox = with_three_keys();
    sandbox.yes("filter build keys -o one --secret-file secret");
    sandbox.yes("filter build keys --like one -o two --secret-file secret");
    sandbox.yes("filter merge one two -o both --secret-file secret");
    assert!(sandbox.yes("filter info both").contains("not in the file"));
    sandbox.yes("filter verify both --keys keys --secret-file secret");
}

#[test]
fn filters_with_different_secrets_or_sizes_are_not_merged() {
    let sandbox = with_three_keys();
    let before = sandbox.names();
    sandbox.write("many", lines("key", 1000));
    sandbox.yes("filter build keys -o other --rate 0.000001");
    sandbox.fails("filter merge filter other -o merged", "", "different secrets can't be merged");
    sandbox.yes("filter build keys -o one --secret-file secret");
    sandbox.yes("filter build many -o two --secret-file secret");
    sandbox.fails("filter merge one two -o merged --secret-file secret", "", "can't be merged");
    assert!(!sandbox.path("merged").exists());
    assert_eq!(sandbox.names().len(), before.len() + 5);
}

#[cfg(unix)]
#[test]
fn writing_to_a_link_replaces_its_target() {
    let sandbox = with_three_keys();
    std::os::unix::fs::symlink("filter", sandbox.path("link")).unwrap();
    sandbox.expect("filter build -o link", "dave\n", 0);
    assert!(sandbox.path("link").is_symlink());
    sandbox.expect("filter check filter", "dave\n", 0);
}

#[cfg(unix)]
#[test]
fn filter_can_be_written_to_a_pipe() {
    let sandbox = with_three_keys();
    let piping = "mkfifo pipe; cat pipe > piped & $T filter build keys -o pipe; echo $?; wait";
    let run = sandbox.shell(piping);
    assert_eq!((run.text(), run.stderr.as_str()), ("0\n", ""));
    sandbox.yes("filter verify piped --keys keys");
}
