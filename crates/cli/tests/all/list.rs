//! Tests `twiceshy list`.

use crate::common::{Sandbox, lines};

/// Creates a list from a yes list of a thousand keys and a no list of five thousand keys.
fn with_lists() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("yes.txt", lines("evil", 1000));
    sandbox.write("no.txt", lines("good", 5000));
    sandbox.yes("list build --yes yes.txt --no no.txt --rate 0.01 -o all.list");
    sandbox
}

#[test]
fn list_answers_all_listed_keys_correctly() {
    let sandbox = with_lists();
    sandbox.yes("list verify all.list --yes yes.txt --no no.txt");
    let counts = sandbox.run("list verify all.list --yes yes.txt --no no.txt --json").json();
    assert_eq!((&counts["yes_checked"], &counts["yes_wrong"]), (&1000.into(), &0.into()));
    assert_eq!((&counts["no_checked"], &counts["no_wrong"]), (&5000.into(), &0.into()));
    // With the lists exchanged, all answers are wrong.
    let counts = sandbox.run("list verify all.list --yes no.txt --no yes.txt --json");
    assert_eq!((counts.code, &counts.json()["yes_wrong"]), (1, &5000.into()));

    assert_eq!(sandbox.no("list check all.list no.txt --only yes"), "");
    assert_eq!(sandbox.yes("list check all.list yes.txt --only yes"), lines("evil", 1000));
    let run = sandbox.run_with("list check all.list", "evil7\ngood7\n");
    assert_eq!((run.code, run.text()), (1, "yes\tevil7\nno\tgood7\n"));
    let run = sandbox.run_with("list check all.list - --count --json", lines("stranger", 10_000));
    let yes = run.json()["yes"].as_u64().unwrap();
    assert!((20..250).contains(&yes), "{yes} of 10,000 at a rate of 0.01");
    let info = sandbox.run("list info all.list --json").json();
    assert_eq!((&info["yes_keys"], &info["no_keys"]), (&1000.into(), &5000.into()));
    assert!(info["false_positive_rate"].as_f64().unwrap() <= 0.01);
}

#[test]
fn key_on_both_lists_is_an_error_without_prefer_option() {
    let sandbox = with_lists();
    sandbox.write("escapes.txt", "evil\x1b[2J\n");
    let run = sandbox.run("list build --yes escapes.txt --no escapes.txt -o both.list");
    assert!(run.stderr.contains(r#"line 1, "evil\u{1b}[2J""#), "{}", run.stderr);
    sandbox.write("other.txt", "good1\n\nevil77\n");
    let run = sandbox.run("list build --yes yes.txt --no other.txt -o both.list");
    assert_eq!(run.code, 2);
    let expected =
        "yes.txt: line 78, \"evil77\" and other.txt: line 3, \"evil77\": this key is on both";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
    assert!(!sandbox.names().contains(&"both.list".into()));
    for (prefer, answer) in [("yes", "yes\tevil77\n"), ("no", "no\tevil77\n")] {
        let line =
            format!("list build --yes yes.txt --no other.txt --prefer {prefer} -o both.list");
        assert!(sandbox.yes(&line).contains("on both lists        1"), "{prefer}");
        assert_eq!(sandbox.run_with("list check both.list", "evil77\n").text(), answer);
    }
}

#[test]
fn delta_is_small_and_restores_newer_list() {
    let sandbox = with_lists();
    let build = |yes: String, options: &str| {
        sandbox.write("yes.txt", yes);
        sandbox.yes(&format!("list build --yes yes.txt --no no.txt {options}"));
    };
    build(lines("evil", 20_000), "--room 0.1 -o monday.list");
    build(lines("evil", 20_010), "--like monday.list -o tuesday.list");
    sandbox.yes("list diff monday.list tuesday.list -o tuesday.delta");
    assert!(sandbox.read("tuesday.delta").len() < 1000);
    sandbox.yes("list apply monday.list tuesday.delta -o new.list");
    assert_eq!(sandbox.read("new.list"), sandbox.read("tuesday.list"));
    // The newer list can be written over the older one.
    sandbox.yes("list apply monday.list tuesday.delta -o monday.list");
    assert_eq!(sandbox.read("monday.list"), sandbox.read("tuesday.list"));
    let run = sandbox.run("list apply monday.list tuesday.delta -o monday.list");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("tuesday.delta: the delta is for a different filter"),
        "{}",
        run.stderr
    );
    // The older list has no room for so many keys, so the delta contains the whole newer list.
    build(lines("evil", 50_000), "--like new.list -o large.list");
    let run = sandbox.run("list diff new.list large.list -o large.delta");
    assert!(run.text().contains("the whole newer list"), "{}", run.text());
    sandbox.yes("list apply new.list large.delta -o large2.list");
    assert_eq!(sandbox.read("large.list"), sandbox.read("large2.list"));
    // These lists have different secrets.
    let run = sandbox.run("list diff all.list new.list -o other.delta");
    assert!(run.stderr.contains("different secrets"), "{}", run.stderr);
}

#[test]
fn hosts_match_subdomains_and_urls_match_longer_paths() {
    let sandbox = Sandbox::new();
    sandbox
        .write("yes.txt", "# hosts\nEvil.example\n\nads.good.example\nhttp://mixed.example/bad/\n");
    sandbox.write("no.txt", "https://www.good.example\n");
    let asked = "a.b.evil.example\nhttps://EVIL.example:443/x\nnotevil.example\ngood.example\n\
                 x.ads.good.example\nmixed.example/\nmixed.example/bad/page?q\nmixed.example/badly\n";
    for (matching, answers) in [
        ("host", "yes yes no no yes yes yes yes"),
        ("url", "yes yes no no yes no yes no"),
        ("line", "no no no no no no no no"),
    ] {
        let rate = "--rate 0.000000001";
        sandbox.yes(&format!(
            "list build --yes yes.txt --no no.txt --match {matching} {rate} -o {matching}.list"
        ));
        let run = sandbox.run_with(&format!("list check {matching}.list"), asked);
        let words: Vec<&str> = run.text().lines().map(|l| l.split('\t').next().unwrap()).collect();
        assert_eq!(words.join(" "), answers, "{matching}");
    }
    // Comments in the files of hosts are skipped.
    sandbox.yes("list verify host.list --yes yes.txt --no no.txt");
    // A host that matches a key of the no list cannot be on the yes list.
    sandbox.write("above.txt", "good.example\n");
    let run = sandbox.run("list build --yes above.txt --no no.txt --match host -o bad.list");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("www.good.example"), "{}", run.stderr);
}

#[test]
fn internationalised_hosts_match_their_ascii_forms() {
    let sandbox = Sandbox::new();
    sandbox.write("yes.txt", "b\u{fc}cher.example\nxn--e1afmkfd.example\n");
    sandbox.yes("list build --yes yes.txt --match host --rate 0.000000001 -o all.list");
    let asked = "www.xn--bcher-kva.example\nB\u{dc}CHER.example\n\
                 \u{43f}\u{440}\u{438}\u{43c}\u{435}\u{440}.example\nbucher.example\n";
    let run = sandbox.run_with("list check all.list", asked);
    let words: Vec<&str> = run.text().lines().map(|l| l.split('\t').next().unwrap()).collect();
    assert_eq!(words, ["yes", "yes", "yes", "no"]);
    sandbox.yes("list verify all.list --yes yes.txt");
}

#[test]
fn lists_in_a_directory_can_be_changed_and_built_into_a_filter() {
    let sandbox = with_lists();
    sandbox.yes("list add all.lists --yes yes.txt --no no.txt --rate 0.01");
    sandbox.yes("list build --from all.lists --room 0.1 -o old.list");
    sandbox.yes("list verify old.list --yes yes.txt --no no.txt");
    // One of these keys is on the yes list.
    let run = sandbox.run_with("list add all.lists --no -", "new\nevil5\n");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("evil5 is on the yes list"), "{}", run.stderr);
    assert_eq!(sandbox.run_with("list remove all.lists --yes -", "evil5\nabsent\n").code, 1);
    assert_eq!(sandbox.run_with("list add all.lists --no -", "new\nevil5\n").code, 0);
    assert_eq!(sandbox.run_with("list remove all.lists --no -", "good7\n").code, 0);
    assert_eq!(sandbox.run_with("list add all.lists --yes -", "good7\nworse\n").code, 0);
    sandbox.yes("list build --from all.lists --like old.list -o new.list");
    let run = sandbox.run_with("list check new.list", "evil5\nevil6\ngood6\ngood7\nworse\n");
    assert_eq!(run.text(), "no\tevil5\nyes\tevil6\nno\tgood6\nyes\tgood7\nyes\tworse\n");
    sandbox.yes("list diff old.list new.list -o new.delta");
    assert!(sandbox.read("new.delta").len() < 400);
    // A list and a directory with different secrets cannot be combined.
    let run = sandbox.run("list build --from all.lists --like all.list -o other.list");
    assert!(run.code == 2 && run.stderr.contains("a different secret"), "{}", run.stderr);
    // Keys cannot be removed from a directory that does not exist.
    let run = sandbox.run("list remove none.lists --yes yes.txt");
    assert!(run.code == 2 && run.stderr.contains("there are no lists"), "{}", run.stderr);
    assert!(!sandbox.names().contains(&"none.lists".into()));
}

#[test]
fn wrong_inputs_of_list_commands_are_errors() {
    let sandbox = with_lists();
    for (line, reason) in [
        ("list check yes.txt yes.txt", "yes.txt: this is not a snapshot of a filter"),
        ("list info none.list", "none.list: No such file"),
        ("list add new.lists --yes none.txt", "none.txt: No such file"),
        ("list apply all.list yes.txt -o new.list", "yes.txt: this is not a delta"),
        (
            "list build --yes yes.txt --rate 2 -o new.list",
            "a false-positive rate of 2e0 is impossible",
        ),
        ("list build --yes yes.txt --room -1 -o new.list", "--room -1 is impossible"),
        ("list build --yes yes.txt -o yes.txt", "an input"),
        ("list build --yes - --no - -o new.list", "only once"),
    ] {
        let run = sandbox.run(line);
        assert!(run.code == 2 && run.stderr.contains(reason), "{line}: {}", run.stderr);
    }
    assert!(!sandbox.names().contains(&"new.lists".into()));
    sandbox.yes("filter build yes.txt -o yes.filter");
    let run = sandbox.run("list info yes.filter");
    assert!(run.stderr.contains("a quotient filter"), "{}", run.stderr);
    let mut bytes = sandbox.read("all.list");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    sandbox.write("broken.list", bytes);
    assert_eq!(sandbox.run("list verify broken.list").code, 2);
}
