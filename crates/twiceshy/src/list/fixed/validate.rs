//! Checks the invariants that don't depend on the lists.

use super::block::Group;
use super::{YesNoFilter, index_bytes};
use crate::bits::memory::LINE;
use crate::error::Invalid;

impl YesNoFilter {
    /// Checks every invariant that doesn't depend on the lists.
    ///
    /// # Errors
    /// Names the broken invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut fingerprints = 0;
        self.each_group(|group| fingerprints += group.fingerprints.len() as u64)?;
        if fingerprints != self.tally.fingerprints {
            let counted = self.tally.fingerprints;
            return Err(Invalid(format!("there are {fingerprints} fingerprints, not {counted}")));
        }
        if fingerprints > self.tally.yes || (fingerprints == 0) != (self.tally.yes == 0) {
            let keys = self.tally.yes;
            return Err(Invalid(format!("{keys} yes keys can't have {fingerprints} fingerprints")));
        }
        Ok(())
    }

    /// Calls `each` with every group, in order, and checks the format.
    pub(super) fn each_group(&self, mut each: impl FnMut(Group)) -> Result<(), Invalid> {
        let bytes = self.table();
        let index = index_bytes(self.shape.blocks);
        if bytes.len() < index {
            return Err(Invalid("the table is too short for the index".into()));
        }
        let mut next = index;
        for block in 0..self.shape.blocks as usize {
            let (first, size) = self.place(block);
            if first != next || size > bytes.len().saturating_sub(first) {
                return Err(Invalid(format!("block {block} has a wrong position or size")));
            }
            self.block(first).groups(size)?.into_iter().for_each(&mut each);
            next = first + size;
        }
        let unused = &bytes[4 * (self.shape.blocks as usize + 1)..index];
        if next.div_ceil(LINE) * LINE != bytes.len()
            || unused.iter().chain(&bytes[next..]).any(|&byte| byte != 0)
        {
            return Err(Invalid("unused bytes after the index or the last block are not 0".into()));
        }
        Ok(())
    }
}
