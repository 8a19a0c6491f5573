//! Compares `--help` and other output with files in `tests/golden`.
//!
//! After an intended change, update the files and review the difference:
//! `UPDATE_GOLDEN=1 cargo test -p twiceshy-cli --test all golden`.

use crate::common::Sandbox;
use std::fs;
use std::path::Path;

fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name} differs; see the top of tests/all/golden.rs");
}

const COMMANDS: [&str; 28] = [
    "",
    "completions",
    "demo",
    "filter",
    "filter build",
    "filter check",
    "filter info",
    "filter merge",
    "filter verify",
    "list",
    "list build",
    "list check",
    "list add",
    "list remove",
    "list diff",
    "list apply",
    "list info",
    "list verify",
    "store",
    "store import",
    "store export",
    "store get",
    "store put",
    "store delete",
    "store check",
    "store stats",
    "store verify",
    "store rebuild",
];

#[test]
fn help_matches_golden_files() {
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        let name = format!("help {command}").trim().replace(' ', "-");
        compare(&format!("{name}.txt"), &sandbox.yes(&format!("{command} --help")));
    }
    compare("short-help.txt", &sandbox.yes("-h"));
}

/// Runs commands, and returns them with their output, as in a terminal.
fn transcript(sandbox: &Sandbox, lines: &[&str]) -> String {
    let entry = |line: &&str| {
        let run = sandbox.run(line);
        let code =
            if run.code == 0 { String::new() } else { format!("[exit code {}]\n", run.code) };
        format!("$ twiceshy {line}\n{}{}{code}\n", run.text(), run.stderr)
    };
    lines.iter().map(entry).collect::<Vec<_>>().concat()
}

#[test]
fn output_of_filter_commands_matches_golden_file() {
    let sandbox = Sandbox::new();
    // A fixed secret makes the false positives reproducible.
    sandbox.write("secret", "000102030405060708090a0b0c0d0e0f\n");
    sandbox.write("monday.txt", crate::common::lines("mon", 1000));
    sandbox.write("tuesday.txt", crate::common::lines("tues", 1000));
    sandbox.write("queries.txt", "mon7\ntues7\nmallory\n");
    let text = transcript(
        &sandbox,
        &[
            "filter build monday.txt -o monday.filter --secret-file secret",
            "filter build tuesday.txt -o tuesday.filter --secret-file secret --like monday.filter",
            "filter merge monday.filter tuesday.filter -o both.filter --secret-file secret",
            "filter info both.filter",
            "filter check both.filter queries.txt --secret-file secret",
            "filter check both.filter queries.txt --secret-file secret --count",
            "filter check both.filter queries.txt --secret-file secret --json",
            "filter verify both.filter",
            "filter verify both.filter --keys monday.txt --secret-file secret",
            "filter info both.filter --json",
            "filter check both.filter queries.txt",
        ],
    );
    compare("filter.txt", &text);
}

#[test]
fn output_of_store_commands_matches_golden_file() {
    let sandbox = Sandbox::new();
    sandbox.write("users.tsv", "alice\t1\nbob\t2\ncarol\t3\n");
    sandbox.write("logins.txt", "alice\nbob\n");
    let text = transcript(
        &sandbox,
        &[
            "store import users.store users.tsv",
            "store check users.store logins.txt",
            "store check users.store logins.txt --present",
            "store stats users.store",
            "store verify users.store",
            "store rebuild users.store",
            "store export users.store -o copy.tsv",
            "store get users.store mallory --json",
            "store delete users.store alice mallory --json",
            "store get none alice",
        ],
    );
    // Leave out sizes that vary: the engine decides the disk space, and the size of our locks and
    // counters (upkeep) changes with the code. A different test checks these sizes.
    let varying = ["bytes on disk", "bytes of memory", "bytes of upkeep"];
    let varies = |line: &&str| varying.iter().any(|name| line.starts_with(name));
    let lines: Vec<_> = text.lines().filter(|line| !varies(line)).collect();
    compare("store.txt", &(lines.join("\n") + "\n"));
}

#[test]
fn messages_about_wrong_arguments_match_golden_file() {
    let text = transcript(
        &Sandbox::new(),
        &[
            "demo --keys -1",
            "demo --keys 10",
            "demo --queries 1e6",
            "demo --seed abc",
            "filter build keys.txt -o new.filter --rate abc",
            "filter build keys.txt -o new.filter --rate 2",
            "filter build keys.txt -o new.filter --capacity -1",
            "filter build keys.txt -o new.filter --fpr 0.01",
            "filter build keys.txt --rate 0.01",
            "filter check keys.filter keys.txt --only perhaps",
            "store import users.store users.tsv --capacity many",
            "store import users.store users.tsv --rate nan",
            "store import users.store users.tsv --layout sideways",
            "store imprt users.store",
        ],
    );
    compare("mistyped.txt", &text);
}

#[test]
fn every_shell_has_completions() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.yes(&format!("completions {shell}"));
        assert!(script.contains("twiceshy") && script.contains("rebuild"), "{shell}");
    }
}
