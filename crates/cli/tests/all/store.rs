//! Tests `twiceshy store`.

use crate::common::{Sandbox, lines};
use serde_json::json;
use twiceshy_store::{Backend, Batch, Durability, FjallBackend, FjallOptions, Keyspace};

/// Creates a store of three pairs.
fn with_three_pairs() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("pairs", "alice\t1\nbob\t2\ncarol\ta\ttab\n");
    assert_eq!(
        sandbox.run("store import store pairs --json").json(),
        json!({"imported": 3, "members": 3})
    );
    sandbox
}

#[test]
fn imported_pairs_can_be_read() {
    let sandbox = with_three_pairs();
    assert_eq!(sandbox.yes("store get store alice"), "1");
    assert_eq!(sandbox.yes("store get store carol"), "a\ttab");
    assert_eq!(sandbox.no("store get store mallory"), "");
    let run = sandbox.run("store get store bob --json");
    assert_eq!(run.json(), json!({"key": "bob", "value": "2"}));
    let run = sandbox.run("store get store mallory --json");
    assert_eq!((run.code, run.json()), (1, json!({"key": "mallory", "value": null})));
}

#[test]
fn pairs_can_be_put_and_deleted() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.yes("store put store alice 1"), "");
    assert_eq!(sandbox.yes("store put store alice 2"), "");
    assert_eq!(sandbox.yes("store get store alice"), "2");
    sandbox.expect("store put store blob --from -", b"\x00\xff\n", 0);
    assert_eq!(sandbox.run("store get store blob").stdout, b"\x00\xff\n");
    let run = sandbox.run("store get store blob --json");
    assert_eq!(run.json(), json!({"key": "blob", "value": {"hex": "00ff0a"}}));
    sandbox.write("value", "from a file");
    let run = sandbox.run("store put store file --from value --json");
    assert_eq!(run.json(), json!({"key": "file", "bytes": 11}));
    assert_eq!(sandbox.yes("store get store file"), "from a file");

    assert_eq!(sandbox.yes("store delete store alice"), "");
    assert_eq!(sandbox.no("store delete store alice blob"), "");
    let run = sandbox.run("store delete store file --json");
    assert_eq!((run.code, run.json()), (0, json!({"key": "file", "deleted": true})));
    for key in ["alice", "blob", "file"] {
        sandbox.no(&format!("store get store {key}"));
    }
}

#[test]
fn import_options_change_how_lines_are_read() {
    let sandbox = Sandbox::new();
    let gz = zstd::encode_all(&b"alice::1\nbob::2::3\r\n"[..], 1).unwrap();
    sandbox.expect("store import store --separator ::", gz, 0);
    assert_eq!(sandbox.yes("store get store alice"), "1");
    assert_eq!(sandbox.yes("store get store bob"), "2::3");
    sandbox.expect("store import store - --keys-only", "carol\nda\tve\n", 0);
    assert_eq!(sandbox.yes("store get store carol"), "");
    sandbox.expect("store import store - --bytes", b"\xfe\t\xff\nalice\tnew\nalice\tnewest\n", 0);
    assert_eq!(sandbox.yes("store get store alice"), "newest");
    assert_eq!(sandbox.run("store stats store --json").json()["members"], 5);
    sandbox.write("one", "x\t1\n");
    sandbox.write("two", "y\t2\n");
    sandbox.yes("store import store one two");
    assert_eq!(sandbox.yes("store get store y"), "2");
}

#[test]
fn check_counts_present_and_missing_keys() {
    let sandbox = with_three_pairs();
    sandbox.write("queries", "alice\nmallory\nbob\nmallory\n");
    let run = sandbox.run("store check store queries --json");
    assert_eq!(run.code, 1);
    let (checked, present, missing) = (4, 2, 2);
    let report = run.json();
    assert_eq!(report["checked"], checked);
    assert_eq!(report["present"], present);
    assert_eq!(report["missing"], missing);
    let known = report["answered_by_filter"].as_u64().unwrap();
    let mistakes = report["mistakes"].as_u64().unwrap();
    assert_eq!(known + mistakes, missing);
    assert_eq!(report["disk_reads"], present + mistakes);
    assert_eq!(sandbox.no("store check store queries --missing"), "mallory\nmallory\n");
    assert_eq!(sandbox.no("store check store queries --present"), "alice\nbob\n");
    let present = sandbox.expect("store check store --present --json", "bob\n", 0);
    assert_eq!(present, "{\"key\":\"bob\",\"present\":true}\n");
}

#[test]
fn repaired_mistake_stays_repaired_in_later_commands() {
    let sandbox = Sandbox::new();
    sandbox.write("members", lines("member", 1000));
    sandbox.write("others", lines("other", 5000));
    // There is room for all repairs, so that no shard is rebuilt.
    sandbox.yes("store import store members --keys-only --rate 0.1 --capacity 4000");
    let mistakes = || sandbox.run("store check store others --json").json()["mistakes"].as_u64();
    let first = mistakes().unwrap();
    assert!(first > 10, "{first}");
    assert_eq!(mistakes(), Some(0));
    let stats = || sandbox.run("store stats store --json").json();
    assert_eq!(stats()["mistakes"], first);
    let rebuilt = sandbox.run("store rebuild store --json");
    assert_eq!((rebuilt.code, &rebuilt.json()["members"]), (0, &json!(1000)));
    // A rebuilt filter has fresh remainders, so it makes about as many mistakes, but different
    // ones.
    let others = mistakes().unwrap();
    assert!(others < 2 * first, "{others} of {first}");
    assert_eq!(mistakes(), Some(0));
    sandbox.yes("store check store members");
    assert_eq!(stats()["members"], 1000);
}

#[test]
fn store_can_be_verified_and_rebuilt() {
    let sandbox = Sandbox::new();
    sandbox
        .write("pairs", (0..10_000).map(|i| format!("k{i}\tv{i}\n")).collect::<Vec<_>>().concat());
    sandbox.yes("store import store pairs --capacity 100");
    let expected = json!({"valid": true, "pairs": 10_000, "not_found": 0, "ghosts": 0});
    assert_eq!(sandbox.run("store verify store --json").json(), expected);
    let bits = |line: &str| sandbox.run(line).json()["bits_per_member"].as_f64().unwrap();
    let precise = bits("store rebuild store --rate 0.000001 --json");
    // The factor is as large as 0.7, because each shard has a fixed overhead, and the shards are
    // small.
    assert!(bits("store rebuild store --rate 0.1 --json") < 0.7 * precise);
    assert_eq!(sandbox.run("store verify store --json").json(), expected);
    // If there is no saved filter, opening the store builds one.
    for name in std::fs::read_dir(sandbox.path("store")).unwrap() {
        let path = name.unwrap().path();
        if path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(sandbox.yes("store get store k77"), "v77");
    let rebuilt = sandbox.run("store rebuild store --json").json();
    assert_eq!(rebuilt["members"], 10_000);
    assert_eq!(sandbox.run("store verify store --json").json(), expected);
}

#[test]
fn verify_detects_filter_that_misses_members() {
    let sandbox = with_three_pairs();
    sandbox.expect("store import empty", "", 0);
    // If the filter file of a different store replaces this store's file, opening detects it.
    let swap =
        || std::fs::copy(saved_filter(&sandbox, "empty"), saved_filter(&sandbox, "store")).unwrap();
    swap();
    sandbox.yes("store verify store");
    // If this store's metadata describes the other store's filter, opening accepts it. Only `verify`
    // detects it.
    swap();
    let [empty, store] = ["empty", "store"].map(|name| {
        FjallBackend::open(sandbox.path(name).join("data"), FjallOptions::default()).unwrap()
    });
    let [other, own] =
        [&empty, &store].map(|backend| backend.get(Keyspace::Meta, b"clean").unwrap().unwrap());
    let mut batch = Batch::new();
    // Take the version and the file number from this store, and the description of the file from
    // the other store.
    batch.insert(Keyspace::Meta, "clean", [&own[..17], &other[17..]].concat());
    store.write(&batch, Durability::Synced).unwrap();
    drop((empty, store));
    let run = sandbox.run("store verify store --json");
    let expected = json!({"valid": false, "pairs": 3, "not_found": 3, "ghosts": 0});
    assert_eq!((run.code, run.json()), (1, expected));
    sandbox.yes("store rebuild store");
    sandbox.yes("store verify store");
    assert_eq!(sandbox.yes("store get store alice"), "1");
}

fn saved_filter(sandbox: &Sandbox, store: &str) -> std::path::PathBuf {
    let files = std::fs::read_dir(sandbox.path(store)).unwrap();
    files.map(|entry| entry.unwrap().path()).find(|path| path.is_file()).unwrap()
}

/// A store may have been moved from a machine with more memory.
#[test]
fn rebuild_shrinks_filter_that_does_not_fit_into_memory() {
    let sandbox = with_three_pairs();
    let data = sandbox.path("store/data");
    let backend = FjallBackend::open(data, FjallOptions::default()).unwrap();
    let mut shape = backend.get(Keyspace::Meta, b"shape").unwrap().unwrap().to_vec();
    shape[..8].copy_from_slice(&(1u64 << 45).to_be_bytes());
    let mut batch = Batch::new();
    batch.insert(Keyspace::Meta, "shape", shape);
    batch.remove(Keyspace::Meta, "clean");
    backend.write(&batch, Durability::Synced).unwrap();
    drop(backend);
    assert_eq!(sandbox.yes("store get store alice"), "1");
    let rebuilt = sandbox.run("store rebuild store --capacity 1000 --json");
    assert_eq!((rebuilt.code, &rebuilt.json()["members"]), (0, &json!(3)));
    assert!(rebuilt.json()["bytes_of_filter"].as_u64().unwrap() < 100_000);
    sandbox.yes("store verify store");
}

#[test]
fn new_store_replaces_leftovers_of_killed_process() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("store/.twiceshy-making-aB3xY9/data")).unwrap();
    sandbox.yes("store put store alice 1");
    // Directories with other names are not removed.
    std::fs::create_dir_all(sandbox.path("other/.twiceshy-making-backups/data")).unwrap();
    let refused = sandbox.run("store put other alice 1");
    assert_eq!(refused.code, 2, "a directory that isn't empty");
    assert!(sandbox.path("other/.twiceshy-making-backups/data").exists());
    let mut names: Vec<_> = std::fs::read_dir(sandbox.path("store"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names[0] == "data" && names[1].starts_with("filter-") && names.len() == 2);
    assert_eq!(sandbox.yes("store get store alice"), "1");
}

#[test]
fn leftovers_of_killed_process_are_not_opened() {
    let sandbox = Sandbox::new();
    sandbox.yes("store put left mallory 1");
    let line = "mkdir new; cp -r left new/.twiceshy-making-aB3xY9; $T store put new alice 2";
    let run = sandbox.shell(line);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    sandbox.no("store get new mallory");
    assert_eq!(sandbox.yes("store get new alice"), "2");
    sandbox.yes("store verify new");
}

#[test]
fn processes_that_create_the_same_store_do_not_disturb_each_other() {
    let sandbox = Sandbox::new();
    sandbox.write("good", lines("key", 1000));
    let run = sandbox.shell(
        "(sleep 0.3; echo no pair) | $T store import store - & \
         $T store import store good --keys-only; wait $!; echo $?",
    );
    assert!(run.text().ends_with("2\n"), "{}{}", run.text(), run.stderr);
    sandbox.yes("store check store good");
}

#[test]
fn stats_show_all_memory_by_part_and_the_expected_rate() {
    let sandbox = Sandbox::new();
    sandbox.write("members", lines("member", 5000));
    sandbox.yes("store import store members --keys-only --rate 0.01");
    let stats = sandbox.run("store stats store --json").json();
    let bytes = |part: &str| stats[format!("bytes_of_{part}")].as_u64().unwrap();
    assert!(bytes("filter") > 5000 && bytes("upkeep") > 0);
    assert_eq!(bytes("memory"), bytes("filter") + bytes("upkeep") + bytes("rebuilds"));
    let rate = stats["expected_rate"].as_f64().unwrap();
    assert!(0.001 < rate && rate <= 0.01, "{rate}");
}

#[test]
fn store_keeps_its_layout() {
    let sandbox = Sandbox::new();
    sandbox.expect("store import store --layout split", "b\t2\na\t1\n", 0);
    assert_eq!(sandbox.run("store stats store --json").json()["layout"], "split");
    sandbox.expect("store import store", "c\t3\n", 0);
    sandbox.fails("store import store --layout merged", "", "layout is Split");
    assert_eq!(sandbox.yes("store get store c"), "3");
    sandbox.yes("store verify store");
}

#[test]
fn existing_store_keeps_its_filter_size_until_rebuild() {
    let sandbox = with_three_pairs();
    sandbox.write("more", "dave\t4\n");
    for option in ["--rate 0.01", "--capacity 100"] {
        let line = format!("store import store more {option}");
        sandbox.fails(
            &line,
            "",
            "store: --capacity and --rate are for new stores; use `twiceshy store rebuild`",
        );
    }
    sandbox.no("store get store dave");
    sandbox.yes("store import store more");
    sandbox.yes("store import new more --rate 0.01 --capacity 100");
}
