//! Passes the commit and the compiler version to the lab, which names them at the top of its
//! report.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let compiler = env::var("RUSTC").ok().and_then(|rustc| output(&rustc, &["--version"]));
    let commit = output("git", &["describe", "--always", "--dirty"]);
    for (name, value) in [("COMPILER", compiler), ("COMMIT", commit)] {
        println!("cargo::rustc-env=TWICESHY_{name}={}", value.as_deref().unwrap_or("unknown"));
    }
    // Run again if a file changes, because the report marks uncommitted changes.
    println!("cargo::rerun-if-changed=..");
    // Run again after each commit. The log grows with every commit, even if the branch's ref is
    // packed.
    let branch = output("git", &["symbolic-ref", "HEAD"]);
    for name in [Some("HEAD"), Some("logs/HEAD"), branch.as_deref()].into_iter().flatten() {
        let path = output("git", &["rev-parse", "--git-path", name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
