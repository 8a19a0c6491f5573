//! Reads and writes filter files.

use super::secret::SecretArgs;
use crate::output::Target;
use anyhow::{Result, anyhow};
use std::path::Path;
use twiceshy::KeyedSnapshot;
use twiceshy::{Keyed, QuotientFilter, SecretMode, Snapshot, snapshot::SnapshotError};

/// A filter whose keys are lines.
pub(super) type LineFilter = Keyed<[u8], QuotientFilter>;

/// Reads a filter. Takes the secret from the filter file, or from the file that `--secret-file`
/// names.
pub(super) fn load(path: &Path, secret: &SecretArgs) -> Result<LineFilter> {
    LineFilter::open(path, secret.read()?).map_err(|error| match error.cause() {
        SnapshotError::NoSecret => {
            anyhow!("{}: the secret is not in this file; use --secret-file", path.display())
        }
        _ => error.into(),
    })
}

/// Reads a filter without its secret, for commands that look up no keys. Also returns whether the
/// file contains the secret.
pub(super) fn load_unasked(path: &Path) -> Result<(QuotientFilter, bool)> {
    match LineFilter::open(path, None) {
        Ok(filter) => Ok((filter.filter().clone(), true)),
        Err(error) if matches!(error.cause(), SnapshotError::NoSecret) => {
            Ok((QuotientFilter::open(path)?, false))
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes a filter. If this fails, an existing file is unchanged.
pub(super) fn save(filter: &LineFilter, target: &Target, with_secret: bool) -> Result<()> {
    let mode = if with_secret { SecretMode::Include } else { SecretMode::Omit };
    Ok(filter.save(target.path(), mode)?)
}
