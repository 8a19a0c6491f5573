//! A guard in front of an `SQLite` table. A repair needs only a column with the first 8 bytes of
//! each key's hash, and an index on that column. The same works with any other SQL database.
//!
//! `cargo run --release -p twiceshy-store --example sqlite`

use rusqlite::{Connection, OptionalExtension, params};
use std::cell::Cell;
use std::error::Error;
use std::ops::RangeInclusive;
use twiceshy::{Hash, MemberSource, Secret};
use twiceshy_store::{Guard, Guarded, OpenOptions, hash_column};

struct Users {
    connection: Connection,
    /// Number of SQL queries made so far.
    queries: Cell<u64>,
}

impl Users {
    fn open() -> rusqlite::Result<Self> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(
            "CREATE TABLE users (name TEXT PRIMARY KEY, age INTEGER, hash INTEGER NOT NULL);
             CREATE INDEX users_by_hash ON users (hash, name);
             CREATE TABLE secret (bytes BLOB NOT NULL);",
        )?;
        Ok(Self { connection, queries: Cell::new(0) })
    }

    /// Returns the stored secret, or generates and stores one. The table stores hashes, so the
    /// secret that made them must be stored, too.
    fn secret(&self) -> Result<Secret, Box<dyn Error>> {
        let kept = self.connection.query_row("SELECT bytes FROM secret", [], |row| row.get(0));
        if let Some(bytes) = kept.optional()? {
            return Ok(Secret::from_bytes(bytes));
        }
        let secret = Secret::generate()?;
        self.connection.execute("INSERT INTO secret (bytes) VALUES (?)", [secret.expose()])?;
        Ok(secret)
    }

    fn insert(&self, name: &str, age: u32, hash: Hash) -> rusqlite::Result<()> {
        let insert = "INSERT OR REPLACE INTO users (name, age, hash) VALUES (?, ?, ?)";
        let mut insert = self.connection.prepare_cached(insert)?;
        insert.execute(params![name, age, hash_column(hash)])?;
        Ok(())
    }

    fn delete(&self, name: &str) -> rusqlite::Result<()> {
        self.connection.execute("DELETE FROM users WHERE name = ?", [name])?;
        Ok(())
    }
}

impl MemberSource for Users {
    type Member = String;
    type Error = rusqlite::Error;

    fn members(&self, hashes: RangeInclusive<Hash>) -> rusqlite::Result<Vec<String>> {
        self.queries.set(self.queries.get() + 1);
        let select = "SELECT name FROM users WHERE hash BETWEEN ? AND ?";
        let mut select = self.connection.prepare_cached(select)?;
        let (first, last) = (hash_column(*hashes.start()), hash_column(*hashes.end()));
        select.query_map([first, last], |row| row.get(0))?.collect()
    }
}

impl Guarded for Users {
    type Key = str;
    type Value = u32;

    fn look_up(&self, name: &str) -> rusqlite::Result<Option<u32>> {
        self.queries.set(self.queries.get() + 1);
        let select = "SELECT age FROM users WHERE name = ?";
        let mut select = self.connection.prepare_cached(select)?;
        select.query_row([name], |row| row.get(0)).optional()
    }
}

const USERS: u32 = 20_000;
const STRANGERS: u32 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let users = Users::open()?;
    let secret = users.secret()?;
    let options = || OpenOptions::new().capacity(USERS as usize).shards(4).secret(secret.clone());
    let guard = options().open_guard(users)?;
    let name = |number: u32| format!("user {number}");
    let stranger = |number: u32| format!("stranger {number}");

    // Insert all names in one transaction, which commits only after all of them are in the filter.
    let names: Vec<String> = (0..USERS).map(name).collect();
    guard.insert_many(&names, |users| {
        let transaction = users.connection.unchecked_transaction()?;
        for (age, name) in (0..).zip(&names) {
            users.insert(name, age % 100, guard.hash(name))?;
        }
        Ok(transaction.commit()?)
    })?;
    println!("{} users, {:.1} bits of memory each", USERS, guard.stats().bits_per_key());

    let ask_strangers = |guard: &Guard<Users>| -> rusqlite::Result<u64> {
        let before = guard.database().queries.get();
        for number in 0..STRANGERS {
            assert_eq!(guard.get(&stranger(number))?, None);
        }
        Ok(guard.database().queries.get() - before)
    };
    let first = ask_strangers(&guard)?;
    let stats = guard.stats();
    println!(
        "{STRANGERS} strangers: {} answered from memory, {} mistakes, all repaired; {first} \
         SQL queries",
        stats.answered_from_memory, stats.repairs
    );
    assert_eq!((stats.false_positives, stats.repairs_failed), (stats.repairs, 0));
    assert_eq!(first, 2 * stats.false_positives, "a mistake costs one lookup and one listing");

    let second = ask_strangers(&guard)?;
    println!("the same strangers again: {second} SQL queries");
    assert_eq!(second, 0);

    // Removing and inserting members doesn't bring back repaired mistakes.
    for (number, name) in (0..).zip(&names).take(2000) {
        assert!(guard.remove(name, |users| Ok(users.delete(name)?))?);
        let hash = guard.hash(name);
        guard.insert(name, |users| Ok(users.insert(name, number % 100, hash)?))?;
    }
    let third = ask_strangers(&guard)?;
    println!("once more, after 2000 users left and came back: {third} SQL queries");
    assert_eq!(third, 2 * (guard.stats().false_positives - stats.false_positives));
    assert_eq!(guard.stats().repeated_false_positives, 0);

    // The secret and the hashes are in the database, so a new guard finds all keys.
    let again = options().open_guard(guard.into_database())?;
    for (number, name) in (0..).zip(&names) {
        assert_eq!(again.get(name)?, Some(number % 100));
    }
    println!("a new guard for the same table finds all {} users", again.stats().members);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn example_runs_without_an_error() {
        super::main().unwrap();
    }
}
