//! List files.

use super::matching::Matching;
use anyhow::{Context as _, Result};
use std::path::Path;
use twiceshy::{Keyed, KeyedSnapshot, YesNoFilter};

/// A filter of lines.
pub(super) type ListFilter = Keyed<[u8], YesNoFilter>;

/// Reads a list, and how its keys are matched.
pub(super) fn load(path: &Path) -> Result<(ListFilter, Matching)> {
    let filter = ListFilter::open(path, None)?;
    let matching = Matching::of_label(filter.filter().label());
    let matching = matching.with_context(|| {
        format!("{}: its keys are matched in a way that this program doesn't know", path.display())
    })?;
    Ok((filter, matching))
}
