//! Checks every invariant.

use super::CodedFilter;
use super::scheme::Scheme;
use crate::error::Invalid;

impl<S: Scheme> CodedFilter<S> {
    /// Checks every invariant of the filter.
    ///
    /// # Errors
    /// Names the broken invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let table = &self.table;
        table.validate(table.width(), |_| Ok(()))?;
        if table.used() != self.tally.len {
            let (used, len) = (table.used(), self.tally.len);
            return Err(Invalid(format!("{used} slots are used for {len} members")));
        }
        for block in 0..table.blocks() as u64 {
            let home = self.home(block * u64::from(table.lanes()));
            let homes = table.homes(home);
            let code = table.code::<0>(home);
            if code == 0 {
                continue;
            }
            let entries =
                if homes.is_empty() { 0 } else { self.entries(homes.start..=homes.end - 1).len() };
            // Decode only this many symbols, because an invalid code may have any number.
            let mut symbols = Vec::with_capacity(entries);
            self.coding.decode_from(code, table.code_bits(), 0, |symbol| {
                let is_one = symbols.len() < entries;
                symbols.extend(is_one.then_some(symbol));
                is_one
            });
            if self.encode(&symbols) != Some(code) {
                return Err(Invalid(format!(
                    "the code of block {block} doesn't match its {entries} entries"
                )));
            }
        }
        Ok(())
    }
}
