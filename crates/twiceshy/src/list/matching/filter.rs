//! Filters that are asked for lines, and look up every key that matches.

use super::Matching;
use crate::{BuildError, Hash, Keyed, KeyedHasher, YesNoFilter, YesNoFilterBuilder};

/// A [`YesNoFilter`] of lines, hosts or URLs, as `twiceshy list build --match` writes them.
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
/// Each line of the no list is answered no, and so are all hosts above it. Any other line is looked
/// up once for each key that could match it, and the false-positive rate holds for each of these
/// lookups: a host has one key per label.
#[derive(Clone, Debug)]
pub struct MatchingFilter {
    filter: Keyed<[u8], YesNoFilter>,
    matching: Matching,
}

impl MatchingFilter {
    pub(crate) fn new(filter: Keyed<[u8], YesNoFilter>) -> Option<Self> {
        let matching = Matching::from_label(filter.filter().label())?;
        Some(Self { filter, matching })
    }

    /// Returns how its lines are matched.
    pub const fn matching(&self) -> Matching {
        self.matching
    }

    /// Returns the filter of keys underneath.
    pub const fn keyed(&self) -> &Keyed<[u8], YesNoFilter> {
        &self.filter
    }

    /// Returns whether the yes list has a key that matches a line.
    ///
    /// The answer is certain for lines of both lists, and for lines without a key, which are
    /// answered no.
    pub fn contains(&self, line: impl AsRef<[u8]>) -> bool {
        let mut found = false;
        self.matching.each_asked(line.as_ref(), |key| found = found || self.filter.contains(key));
        found
    }

    /// Answers many lookups: `answers` is cleared and then has one answer per line, as from
    /// [`contains`](Self::contains). Several times as fast when the filter is larger than the cache.
    pub fn contains_many<L: AsRef<[u8]>>(&self, lines: &[L], answers: &mut Vec<bool>) {
        let (mut hashes, mut ends) = (Vec::new(), Vec::with_capacity(lines.len()));
        for line in lines {
            self.matching.each_asked(line.as_ref(), |key| hashes.push(self.filter.hash(key)));
            ends.push(hashes.len());
        }
        let mut found = Vec::new();
        self.filter.filter().contains_many(&hashes, &mut found);
        answers.clear();
        let mut start = 0;
        answers.extend(ends.into_iter().map(|end| {
            let any = found[start..end].contains(&true);
            start = end;
            any
        }));
    }
}

/// Builds a [`MatchingFilter`]; see [`YesNoFilterBuilder::matching`].
#[derive(Clone, Debug)]
pub struct MatchingFilterBuilder {
    builder: YesNoFilterBuilder,
    matching: Matching,
}

impl YesNoFilterBuilder {
    /// Builds the filter from lines, and records how they are matched as the filter's
    /// [label](Self::label). Set all other options first.
    ///
    /// ```
    /// use twiceshy::{Matching, YesNoFilter};
    /// let builder = YesNoFilter::builder().false_positive_rate(0.001).matching(Matching::Host);
    /// let list = builder.build(&["evil.example"], &["www.good.example"])?;
    /// assert!(list.contains("www.evil.example") && !list.contains("good.example"));
    /// # Ok::<(), twiceshy::BuildError>(())
    /// ```
    #[must_use]
    pub fn matching(self, matching: Matching) -> MatchingFilterBuilder {
        MatchingFilterBuilder { builder: self.label(matching.label()), matching }
    }
}

impl MatchingFilterBuilder {
    /// Builds a filter of two lists of lines, in any order. Lines without a key are skipped.
    ///
    /// # Errors
    /// [`BuildError::OnBothLists`] if a line of the yes list matches one of the no list. As
    /// [`YesNoFilterBuilder::build_keyed`] otherwise.
    pub fn build<Y: AsRef<[u8]>, N: AsRef<[u8]>>(
        self,
        yes: &[Y],
        no: &[N],
    ) -> Result<MatchingFilter, BuildError> {
        let Self { mut builder, matching } = self;
        let secret = builder.take_secret()?;
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
            BuildError::OnBothLists { hash, .. } => BuildError::OnBothLists {
                hash,
                yes: yes.iter().position(|line| listed(line) == Some(hash)).unwrap_or(0),
                no: no.iter().position(|line| asked(line).contains(&hash)).unwrap_or(0),
            },
            other => other,
        })?;
        Ok(MatchingFilter { filter: Keyed::new(filter, secret), matching })
    }
}
