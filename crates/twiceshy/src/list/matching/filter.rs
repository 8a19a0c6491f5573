//! Filters of lines, hosts or URLs.

use super::super::ListError;
use super::Matching;
use crate::builder::Builder;
use crate::error::BuildError;
use crate::{Filter, Hash, Keyed, YesNoFilter, hash::KeyedHasher};

/// A [`YesNoFilter`] of lines, hosts or URLs. `twiceshy list build --match` writes such filters.
///
/// ```
/// use twiceshy::{Matching, MatchingFilter, YesNoFilter};
/// # let directory = std::env::temp_dir().join(format!("twiceshy-matching-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let path = directory.join("blocked.list");
/// let blocked = ["evil.example", "bücher.example"];
/// let popular = ["www.good.example"];
/// let list = YesNoFilter::builder().matching(Matching::Host).build(&blocked, &popular)?;
/// list.save(&path)?;
///
/// let list = MatchingFilter::open(&path)?;
/// assert!(list.contains("www.evil.example"));
/// assert!(list.contains("https://www.xn--bcher-kva.example/catalogue"));
/// assert!(!list.contains("good.example"));
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The answer is "no" for each line of the no list and for all hosts above it. For any other line,
/// the filter looks up every key that could match it; a host has one such key per label. The
/// false-positive rate applies to each of these lookups separately.
///
/// To read a file in place, convert a [`Frozen`](crate::Frozen) filter:
///
/// ```
/// use twiceshy::{Frozen, Keyed, KeyedSnapshot, Matching, MatchingFilter, SecretMode, YesNoFilter};
/// # let list = YesNoFilter::builder().matching(Matching::Host).build(&["evil.example"], &[""])?;
/// # let mut bytes = Vec::new();
/// # list.keyed().write_to(&mut bytes, SecretMode::Include)?;
/// // The bytes may be a `MappedFile`.
/// let frozen = Keyed::<[u8], Frozen<YesNoFilter>>::from_bytes(bytes, None)?;
/// let list = MatchingFilter::try_from(frozen)?;
/// assert!(list.contains("www.evil.example"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MatchingFilter<F = YesNoFilter> {
    filter: Keyed<[u8], F>,
    matching: Matching,
}

impl<F: Filter> MatchingFilter<F> {
    /// Returns a filter of keys that were made from lines in the way that the label says.
    pub(crate) fn new(filter: Keyed<[u8], F>, label: u32) -> Option<Self> {
        Some(Self { filter, matching: Matching::from_label(label)? })
    }

    /// Returns how the filter matches lines.
    pub const fn matching(&self) -> Matching {
        self.matching
    }

    /// Returns the underlying filter of keys.
    pub const fn keyed(&self) -> &Keyed<[u8], F> {
        &self.filter
    }

    /// Returns whether the yes list has a key that matches a line.
    ///
    /// The answer is exact for lines of both lists. For lines without a key, it is "no".
    pub fn contains(&self, line: impl AsRef<[u8]>) -> bool {
        let mut found = false;
        self.matching.each_asked(line.as_ref(), |key| found = found || self.filter.contains(key));
        found
    }

    /// Looks up many lines, as [`Filter::contains_many`](crate::Filter::contains_many) looks up
    /// hashes.
    pub fn contains_many<L: AsRef<[u8]>>(&self, lines: &[L], answers: &mut Vec<bool>) {
        let (mut hashes, mut ends) = (Vec::new(), Vec::with_capacity(lines.len()));
        for line in lines {
            self.matching.each_asked(line.as_ref(), |key| hashes.push(self.filter.hash(key)));
            ends.push(hashes.len());
        }
        let (mut found, mut start) = (Vec::new(), 0);
        self.filter.filter().contains_many(&hashes, &mut found);
        answers.clear();
        answers.extend(ends.into_iter().map(|end| {
            let keys = core::mem::replace(&mut start, end)..end;
            found[keys].contains(&true)
        }));
    }
}

/// Builds a [`MatchingFilter`]; see [`Builder::matching`].
#[derive(Clone, Debug)]
pub struct MatchingFilterBuilder {
    builder: Builder<YesNoFilter>,
    matching: Matching,
}

impl Builder<YesNoFilter> {
    /// Builds the filter from lines, and records `matching` as the filter's [label](Self::label).
    /// Set all other options first.
    #[must_use]
    pub fn matching(self, matching: Matching) -> MatchingFilterBuilder {
        MatchingFilterBuilder { builder: self.label(matching.label()), matching }
    }
}

impl MatchingFilterBuilder {
    /// Builds a filter from two lists of lines, in any order. Lines without a key are skipped.
    ///
    /// # Errors
    /// [`ListError::OnBothLists`] if a line of the yes list matches one of the no list. Otherwise
    /// the same as for [`Builder::build_keyed`].
    pub fn build<Y: AsRef<[u8]>, N: AsRef<[u8]>>(
        &self,
        yes: &[Y],
        no: &[N],
    ) -> Result<MatchingFilter, ListError> {
        let &Self { ref builder, matching } = self;
        let secret = builder.secret_or_fresh().map_err(BuildError::from)?;
        let hasher = KeyedHasher::new(&secret);
        let listed = |line: &Y| matching.listed(line.as_ref()).map(|key| hasher.hash_bytes(&key));
        let asked = |line: &N| {
            let mut hashes = Vec::new();
            matching.each_asked(line.as_ref(), |key| hashes.push(hasher.hash_bytes(key)));
            hashes
        };
        let yes_keys: Vec<Hash> = yes.iter().filter_map(listed).collect();
        let no_keys: Vec<Hash> = no.iter().flat_map(asked).collect();
        let filter = builder.build(&yes_keys, &no_keys).map_err(|error| match error {
            ListError::OnBothLists { hash, .. } => ListError::OnBothLists {
                hash,
                yes: yes.iter().position(|line| listed(line) == Some(hash)).unwrap_or(0),
                no: no.iter().position(|line| asked(line).contains(&hash)).unwrap_or(0),
            },
            other => other,
        })?;
        Ok(MatchingFilter { filter: Keyed::new(filter, secret), matching })
    }
}
