//! Statistics for tests. Seeds are fixed, so a test that passes once always passes. Bounds are so
//! wide that a correct distribution passes with any seed, and a wrong one still fails.

/// Panics unless the counts fit the probabilities: Pearson's chi-squared statistic must be within
/// five standard deviations above its mean.
pub(crate) fn assert_fits(counts: &[u64], probabilities: &[f64]) {
    assert_eq!(counts.len(), probabilities.len());
    let total = counts.iter().sum::<u64>() as f64;
    let statistic: f64 = counts
        .iter()
        .zip(probabilities)
        .map(|(&count, probability)| {
            let expected = total * probability;
            assert!(expected >= 5.0, "too few samples for the statistic");
            (count as f64 - expected).powi(2) / expected
        })
        .sum();
    let freedom = (counts.len() - 1) as f64;
    let bound = freedom + 5.0 * (2.0 * freedom).sqrt();
    assert!(statistic < bound, "chi-squared is {statistic}, above {bound}");
}

/// Counts how often each of the numbers `0..universe` occurs.
pub(crate) fn histogram(universe: usize, numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut counts = vec![0; universe];
    for number in numbers {
        counts[number as usize] += 1;
    }
    counts
}
