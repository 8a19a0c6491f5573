//! The options for the size and the false-positive rate of a store's filter.

use anyhow::Result;
use clap::Args;
use twiceshy::QuotientFilter;
use twiceshy_store::OpenOptions;

#[derive(Args)]
pub(super) struct ShapeArgs {
    /// Size the filter for KEYS keys; it grows if needed [default: unchanged, or 1024 for a new store]
    #[arg(long, value_name = "KEYS", allow_negative_numbers = true)]
    capacity: Option<usize>,
    /// Share of absent keys whose first lookup reads the disk [default: unchanged, or 0.001 for a new store]
    #[arg(long, allow_negative_numbers = true)]
    rate: Option<f64>,
}

impl ShapeArgs {
    /// Returns whether one of these options was given.
    pub(super) fn is_given(&self) -> bool {
        self.capacity.is_some() || self.rate.is_some()
    }

    /// Returns the options, or an error if they allow no filter.
    pub(super) fn options(&self) -> Result<OpenOptions> {
        let (mut options, mut builder) = (OpenOptions::new(), QuotientFilter::builder());
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
