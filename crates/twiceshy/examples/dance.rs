//! A complete repair in twenty lines: insert, check, confirm, list, adapt.
//!
//! `cargo run --example dance`

use twiceshy::{Answer, MemberSource, QuotientFilter, members::MemoryMap};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut filter = QuotientFilter::builder()
        .false_positive_rate(0.01)
        .capacity(10_000)
        .build_keyed::<u64>()?;
    let mut store = MemoryMap::new(); // stands for your database
    for user in 0..10_000 {
        filter.insert(&user)?;
        store.insert(filter.hash(&user), user);
    }
    for round in 1..=2 {
        let mut visits = 0;
        for stranger in 10_000..20_000 {
            let Answer::Maybe(claim) = filter.check(&stranger) else { continue };
            visits += 1; // the database doesn't have the key
            assert!(!store.contains(claim.query(), &stranger));
            filter.adapt(&claim, &store.members(claim.suspects())?)?;
        }
        println!("round {round}: {visits} database lookups for 10000 absent keys");
    }
    Ok(())
}
