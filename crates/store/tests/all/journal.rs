//! Opens fjall journals that a power cut may have left: cut off, or with pages that were never written.

#![cfg(feature = "fjall")]

use std::fs;
use std::path::{Path, PathBuf};

use std::ops::Bound::Unbounded;
use twiceshy_store::backend::Result;
use twiceshy_store::{Backend, Batch, Durability, FjallBackend, FjallOptions, Keyspace};

const BATCHES: u8 = 30;

fn write_batches(path: &Path) {
    let backend = FjallBackend::open(path, FjallOptions::default()).unwrap();
    for number in 1..=BATCHES {
        backend.write(&batch(number), Durability::Synced).unwrap();
    }
}

/// Returns batch `number`, which sets 10 keys to its number, and adds a key.
fn batch(number: u8) -> Batch {
    let mut batch = Batch::new();
    for key in 0..10_u8 {
        batch.insert(Keyspace::Members, [key], vec![number; 100]);
    }
    batch.insert(Keyspace::Keys, [number], []);
    batch
}

/// Returns the number of batches in the backend, and checks that each is complete.
fn count_batches(backend: &FjallBackend) -> u8 {
    let all = |space| {
        let pairs = backend.range(space, (Unbounded, Unbounded)).map(Result::unwrap);
        pairs.map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Vec<_>>()
    };
    let (members, keys) = (all(Keyspace::Members), all(Keyspace::Keys));
    let last = keys.len() as u8;
    assert!(keys.into_iter().map(|(key, _)| key).eq((1..=last).map(|number| vec![number])));
    assert_eq!(members.len(), if last == 0 { 0 } else { 10 });
    assert!(members.into_iter().all(|(_, value)| value == vec![last; 100]));
    last
}

/// Opens the backend and counts its batches. Checks that one more batch can be written, and is still there
/// after reopening.
fn read_batches(path: &Path) -> Result<u8> {
    let backend = FjallBackend::open(path, FjallOptions::default())?;
    let found = count_batches(&backend);
    backend.write(&batch(found + 1), Durability::Synced)?;
    drop(backend);
    let backend = FjallBackend::open(path, FjallOptions::default())?;
    assert_eq!(count_batches(&backend), found + 1);
    Ok(found)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else if entry.path().extension().is_none_or(|extension| extension != "jnl") {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Opens copies of a directory with changed journals.
fn with_journals(change: impl Fn(&[u8]) -> Vec<Vec<u8>>, check: impl Fn(usize, Result<u8>)) {
    let directory = tempfile::tempdir().unwrap();
    let original = directory.path().join("original");
    write_batches(&original);
    let journals: Vec<PathBuf> = fs::read_dir(original.join("fjall"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    let [journal] = &journals[..] else { panic!("one journal: {journals:?}") };
    let mut bytes = fs::read(journal).unwrap();
    // fjall pads the journal with zeros.
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    for (i, changed) in change(&bytes).into_iter().enumerate() {
        let path = directory.path().join("changed");
        copy(&original, &path);
        fs::write(path.join("fjall").join(journal.file_name().unwrap()), changed).unwrap();
        check(i, read_batches(&path));
        fs::remove_dir_all(path).unwrap();
    }
}

#[test]
fn journal_that_is_cut_off_yields_the_batches_before_the_cut() {
    with_journals(
        |bytes| {
            let cuts = (0..=bytes.len()).rev().step_by(bytes.len() / usize::from(BATCHES));
            cuts.map(|cut| bytes[..cut].to_vec()).collect()
        },
        |i, found| {
            // Each cut is in the middle of a batch, one batch earlier than the previous cut.
            let expected = BATCHES.saturating_sub(i as u8);
            let found = found.unwrap();
            assert!(found.abs_diff(expected) <= 1, "cut {i}: {found}");
            assert!(i > 0 || found == BATCHES);
        },
    );
}

/// The disk may write pages that aren't synced in any order. fjall may then fail to open, but must not
/// return wrong data.
#[test]
fn journal_with_a_hole_yields_the_batches_before_it_or_fails_to_open() {
    with_journals(
        |bytes| {
            let holes = (0..bytes.len()).step_by(bytes.len() / 29);
            holes
                .map(|start| {
                    let mut bytes = bytes.to_vec();
                    let end = (start + 512).min(bytes.len());
                    bytes[start..end].fill(0);
                    bytes
                })
                .collect()
        },
        |i, found| {
            if let Ok(found) = found {
                assert!(found.abs_diff(i as u8) <= 2, "hole {i}: {found}");
            }
        },
    );
}
