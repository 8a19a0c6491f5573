//! A harness that cannot fail is worthless: this one notices a write that is acknowledged, but not
//! done; and without faults and lies it finds nothing.

use std::process::{Command, Output};

const STORES: [&str; 6] = ["merged", "split", "coded", "ranges", "lists", "guard"];

fn torture(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twiceshy-torture")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Whether at least one of a few lies is reported: one that nothing overwrites.
fn notices_lies(case: &str) -> bool {
    (1..6).any(|lie| {
        let output = torture(&["lie", &lie.to_string(), case]);
        let said = said(&output);
        !output.status.success() && (said.contains("not one of") || said.contains("it was"))
    })
}

#[test]
fn a_backend_that_drops_a_write_is_reported() {
    for store in STORES {
        assert!(notices_lies(&format!("memory:{store}:saved:7")), "{store}");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_process_that_drops_a_write_is_reported() {
    for case in ["fjall:merged:saved:7", "fjall:lists:saved:7", "redb:ranges:saved:7"] {
        assert!(notices_lies(case), "{case}");
    }
}

#[test]
fn nothing_is_reported_without_a_fault() {
    for store in STORES {
        let output = torture(&["case", &format!("memory:{store}:saved:7")]);
        assert!(output.status.success(), "{store}: {}", said(&output));
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_killed_process_is_counted() {
    let output = torture(&["case", "fjall:split:saved:7:1.0:kill:once:close"]);
    assert!(output.status.success() && said(&output).contains(" 1 kills"), "{}", said(&output));
}
