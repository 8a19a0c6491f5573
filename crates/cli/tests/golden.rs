//! `--help`, and what people read, compared with files in `tests/golden`.
//!
//! Where they differ on purpose, write them anew, and look at what has changed:
//! `UPDATE_GOLDEN=1 cargo test -p twiceshy-cli --test golden`.

mod common;

use common::Sandbox;
use std::fs;
use std::path::Path;

fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name} differs; see the top of tests/golden.rs");
}

const COMMANDS: [&str; 27] = [
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
    "store get",
    "store put",
    "store delete",
    "store check",
    "store stats",
    "store verify",
    "store rebuild",
];

#[test]
fn help_is_as_it_was() {
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        let name = format!("help {command}").trim().replace(' ', "-");
        compare(&format!("{name}.txt"), &sandbox.yes(&format!("{command} --help")));
    }
    compare("short-help.txt", &sandbox.yes("-h"));
}

/// What is typed, and what is answered, as in a terminal.
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
fn filters_are_told_of_as_before() {
    let sandbox = Sandbox::new();
    // Always the same secret, so that keys collide or don't always the same.
    sandbox.write("secret", "000102030405060708090a0b0c0d0e0f\n");
    sandbox.write("monday.txt", common::lines("mon", 1000));
    sandbox.write("tuesday.txt", common::lines("tues", 1000));
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
fn stores_are_told_of_as_before() {
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
            "store get users.store mallory --json",
            "store delete users.store alice mallory --json",
            "store get none alice",
        ],
    );
    // How much room the engine takes is its own business.
    let is_on_disk = |line: &&str| line.starts_with("bytes on disk");
    let lines: Vec<_> = text.lines().filter(|line| !is_on_disk(line)).collect();
    compare("store.txt", &(lines.join("\n") + "\n"));
}

#[test]
fn what_is_mistyped_is_told_of_as_before() {
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
fn there_are_completions_for_every_shell() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.yes(&format!("completions {shell}"));
        assert!(script.contains("twiceshy") && script.contains("rebuild"), "{shell}");
    }
}
