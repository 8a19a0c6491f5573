//! How good and how large a store's filter should be.

use anyhow::Result;
use clap::Args;
use twiceshy::AdaptiveQuotientFilter;
use twiceshy_store::Options;

#[derive(Args)]
pub(super) struct ShapeArgs {
    /// How many keys to plan the filter for: a million if nothing is said; it grows by itself
    #[arg(long, value_name = "KEYS", allow_negative_numbers = true)]
    capacity: Option<usize>,
    /// How often an absent key is looked for on the disk, the first time: 0.002 if nothing is said
    #[arg(long, allow_negative_numbers = true)]
    rate: Option<f64>,
}

impl ShapeArgs {
    /// Whether anything was said.
    pub(super) fn is_given(&self) -> bool {
        self.capacity.is_some() || self.rate.is_some()
    }

    /// Refuses what is impossible before anything is on the disk.
    pub(super) fn options(&self) -> Result<Options> {
        let (mut options, mut builder) = (Options::new(), AdaptiveQuotientFilter::builder());
        if let Some(rate) = self.rate {
            options = options.false_positive_rate(rate);
            builder = builder.false_positive_rate(rate);
        }
        if let Some(capacity) = self.capacity {
            options = options.capacity(capacity);
        }
        builder.capacity(self.capacity.unwrap_or(1)).plan()?;
        Ok(options)
    }
}
