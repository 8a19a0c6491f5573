//! Filter files.

use super::secret::SecretArgs;
use crate::output::Target;
use anyhow::{Result, anyhow};
use std::path::Path;
use twiceshy::{AdaptiveQuotientFilter, Keyed, KeyedSnapshot, SecretMode, Snapshot, SnapshotError};

/// A filter of lines.
pub(super) type LineFilter = Keyed<[u8], AdaptiveQuotientFilter>;

/// Reads a filter, with the secret that is in it, or with the one that was given.
pub(super) fn load(path: &Path, secret: &SecretArgs) -> Result<LineFilter> {
    LineFilter::open(path, secret.read()?).map_err(|error| match error.cause() {
        SnapshotError::NoSecret => {
            anyhow!("{}: the secret isn't in the filter; give --secret-file", path.display())
        }
        _ => error.into(),
    })
}

/// Reads a filter of which nothing will be asked, so that no secret is needed; whether one is in
/// it.
pub(super) fn load_unasked(path: &Path) -> Result<(AdaptiveQuotientFilter, bool)> {
    match LineFilter::open(path, None) {
        Ok(filter) => Ok((filter.filter().clone(), true)),
        Err(error) if matches!(error.cause(), SnapshotError::NoSecret) => {
            Ok((AdaptiveQuotientFilter::open(path)?, false))
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes a filter, whole or not at all.
pub(super) fn save(filter: &LineFilter, target: &Target, with_secret: bool) -> Result<()> {
    let mode = if with_secret { SecretMode::Include } else { SecretMode::Omit };
    Ok(filter.save(target.path(), mode)?)
}
