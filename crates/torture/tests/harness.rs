//! Tests the harness itself: it reports a write that is acknowledged but not done, and it reports
//! nothing without faults.

use std::process::{Command, Output};

const STORES: [&str; 6] = ["merged", "split", "coded", "ranges", "lists", "guard"];

fn torture(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twiceshy-torture")).args(arguments).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Returns whether at least one lie is reported. A later write can hide a lie.
fn reports_lies(case: &str) -> bool {
    (1..60).any(|lie| {
        let output = torture(&["lie", &lie.to_string(), case]);
        let text = printed(&output);
        !output.status.success() && (text.contains("not one of") || text.contains("it was"))
    })
}

#[test]
fn write_dropped_by_backend_is_reported() {
    for store in STORES {
        assert!(reports_lies(&format!("memory:{store}:saved:7")), "{store}");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn write_dropped_by_child_process_is_reported() {
    for case in ["fjall:merged:saved:7", "fjall:lists:saved:7", "redb:ranges:saved:7"] {
        assert!(reports_lies(case), "{case}");
    }
}

#[test]
fn nothing_is_reported_without_a_fault() {
    for store in STORES {
        let output = torture(&["case", &format!("memory:{store}:saved:7")]);
        assert!(output.status.success(), "{store}: {}", printed(&output));
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn killed_process_is_counted() {
    let output = torture(&["case", "fjall:split:saved:7:1.0:kill:once:close"]);
    assert!(
        output.status.success() && printed(&output).contains(" 1 kills"),
        "{}",
        printed(&output)
    );
}
