//! Statistics for monitoring systems.

use crate::stats::Stats;
use metrics::{counter, describe_counter, describe_gauge, gauge};
use std::time::Duration;

impl Stats {
    /// Passes the statistics to the installed recorder of the [`metrics`] facade. Call this before each
    /// export, or every few seconds. The label `name` tells stores and guards apart.
    ///
    /// Counters: `twiceshy_lookups_total`, `twiceshy_answered_from_memory_total`,
    /// `twiceshy_true_positives_total`, `twiceshy_false_positives_total`,
    /// `twiceshy_repeated_false_positives_total`, `twiceshy_unfiltered_total`,
    /// `twiceshy_repairs_total`, `twiceshy_repairs_failed_total`, `twiceshy_repairs_skipped_total`,
    /// `twiceshy_ghosts_left_total`,
    /// `twiceshy_ghosts_cleared_total`, `twiceshy_mistakes_forgotten_total`,
    /// `twiceshy_backend_gets_total`, `twiceshy_backend_scans_total`, `twiceshy_rebuilds_total`,
    /// `twiceshy_rotations_total`, `twiceshy_rebuilds_failed_total`,
    /// `twiceshy_rebuild_milliseconds_total`, `twiceshy_delayed_writes_total`,
    /// `twiceshy_stalled_writes_total`.
    ///
    /// Gauges: `twiceshy_doubts`, `twiceshy_records_waiting`, `twiceshy_repairs_waiting`,
    /// `twiceshy_mistakes`, `twiceshy_members`, `twiceshy_load`, `twiceshy_bits_per_key`, `twiceshy_false_positive_rate`, `twiceshy_expected_rate`,
    /// `twiceshy_shards`, `twiceshy_shards_ready`, `twiceshy_shards_due`,
    /// `twiceshy_longest_rebuild_milliseconds`, `twiceshy_has_background_thread`; and memory by part:
    /// `twiceshy_filter_bytes`, `twiceshy_upkeep_bytes`, `twiceshy_rebuild_bytes`, `twiceshy_list_bytes`,
    /// `twiceshy_doubt_bytes`, and all of it: `twiceshy_memory_bytes`.
    ///
    /// ```
    /// # use twiceshy_store::{MemoryBackend, OpenOptions, Store};
    /// # let users: Store<_> = OpenOptions::new().open_with(MemoryBackend::new(), None)?;
    /// users.stats().record_metrics("users");
    /// # Ok::<(), twiceshy_store::StoreError>(())
    /// ```
    pub fn record_metrics(&self, name: &str) {
        for (metric, value, what) in self.counts() {
            describe_counter!(metric, what);
            counter!(metric, "name" => name.to_owned()).absolute(value);
        }
        for (metric, value, what) in self.levels() {
            describe_gauge!(metric, what);
            gauge!(metric, "name" => name.to_owned()).set(value);
        }
    }

    fn counts(&self) -> [(&'static str, u64, &'static str); 20] {
        [
            ("twiceshy_lookups_total", self.lookups, "Lookups of keys and ranges"),
            (
                "twiceshy_answered_from_memory_total",
                self.answered_from_memory,
                "Lookups that the filter answered alone",
            ),
            ("twiceshy_true_positives_total", self.true_positives, "Lookups that found something"),
            (
                "twiceshy_false_positives_total",
                self.false_positives,
                "Lookups that found nothing although the filter had said maybe",
            ),
            (
                "twiceshy_repeated_false_positives_total",
                self.repeated_false_positives,
                "False positives that had been repaired before",
            ),
            (
                "twiceshy_unfiltered_total",
                self.unfiltered,
                "Lookups that found nothing and that the filter could not answer",
            ),
            ("twiceshy_repairs_total", self.repairs, "Mistakes repaired"),
            ("twiceshy_repairs_failed_total", self.repairs_failed, "Repairs that failed"),
            ("twiceshy_repairs_skipped_total", self.repairs_skipped, "Repairs that were not made"),
            ("twiceshy_ghosts_left_total", self.ghosts_left, "Ghosts left by failed writes"),
            ("twiceshy_ghosts_cleared_total", self.ghosts_cleared, "Ghosts cleared by repairs"),
            (
                "twiceshy_mistakes_forgotten_total",
                self.mistakes_forgotten,
                "Mistakes forgotten to make room for others",
            ),
            ("twiceshy_backend_gets_total", self.backend_gets, "Point reads of the backend"),
            ("twiceshy_backend_scans_total", self.backend_scans, "Range scans of the backend"),
            ("twiceshy_rebuilds_total", self.rebuilds, "Shards that were rebuilt"),
            (
                "twiceshy_rotations_total",
                self.rotations,
                "Shards that were rebuilt because repairs had used up their room",
            ),
            ("twiceshy_rebuilds_failed_total", self.rebuilds_failed, "Rebuilds that failed"),
            (
                "twiceshy_rebuild_milliseconds_total",
                milliseconds(self.rebuild_time) as u64,
                "Duration of all rebuilds",
            ),
            (
                "twiceshy_delayed_writes_total",
                self.delayed_writes,
                "Writes that were delayed because their shard was nearly full",
            ),
            (
                "twiceshy_stalled_writes_total",
                self.stalled_writes,
                "Times that a write waited for a rebuild, because its shard was full",
            ),
        ]
    }

    fn levels(&self) -> [(&'static str, f64, &'static str); 20] {
        [
            ("twiceshy_doubts", self.doubts as f64, "Keys whose write may still take effect"),
            (
                "twiceshy_doubt_bytes",
                self.doubt_bytes as f64,
                "Bytes of memory that keys in doubt take",
            ),
            (
                "twiceshy_records_waiting",
                self.records_waiting as f64,
                "Records of mistakes that wait to be written",
            ),
            (
                "twiceshy_repairs_waiting",
                self.repairs_waiting as f64,
                "Repairs that wait because another thread held their locks",
            ),
            ("twiceshy_mistakes", self.mistakes as f64, "Mistakes that are kept"),
            (
                "twiceshy_list_bytes",
                self.list_bytes as f64,
                "Bytes of memory that the no list, or the mistakes of a guard, take",
            ),
            ("twiceshy_members", self.members as f64, "Members of the filter"),
            (
                "twiceshy_filter_bytes",
                self.filter_bytes as f64,
                "Bytes of memory that the filter takes",
            ),
            ("twiceshy_load", self.load, "Share of slots in use"),
            ("twiceshy_bits_per_key", self.bits_per_key(), "Bits of the filter per member"),
            (
                "twiceshy_false_positive_rate",
                self.false_positive_rate(),
                "Share of absent keys that were looked up in the backend",
            ),
            ("twiceshy_shards_ready", self.shards_ready as f64, "Shards that are ready to answer"),
            ("twiceshy_shards", self.shards as f64, "Shards of the filter"),
            ("twiceshy_shards_due", self.shards_due as f64, "Shards that are to be rebuilt"),
            (
                "twiceshy_expected_rate",
                self.expected_rate,
                "Probability that a new absent key is a false positive",
            ),
            (
                "twiceshy_longest_rebuild_milliseconds",
                milliseconds(self.longest_rebuild),
                "Duration of the longest rebuild of a shard",
            ),
            (
                "twiceshy_has_background_thread",
                f64::from(u8::from(self.has_background_thread)),
                "Whether a background thread tends the filter",
            ),
            (
                "twiceshy_upkeep_bytes",
                self.upkeep_bytes as f64,
                "Bytes of memory that locks and the state of shards take",
            ),
            (
                "twiceshy_rebuild_bytes",
                self.rebuild_bytes as f64,
                "Bytes of memory that running rebuilds take",
            ),
            ("twiceshy_memory_bytes", self.memory() as f64, "Bytes of memory in all"),
        ]
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use crate::{MemoryBackend, OpenOptions, Store};
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use std::collections::BTreeMap;

    #[test]
    fn recorder_gets_all_statistics() {
        let options = OpenOptions::new().capacity(100);
        let mut store: Store<_> = options.open_with(MemoryBackend::new(), None).unwrap();
        store.wait_until_ready().unwrap();
        store.put(b"alice", b"1").unwrap();
        assert!(store.contains(b"alice").unwrap());

        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            store.stats().record_metrics("users");
            // A second call replaces the values and does not add to them.
            store.stats().record_metrics("users");
        });
        let recorded: BTreeMap<String, DebugValue> = snapshotter
            .snapshot()
            .into_vec()
            .into_iter()
            .map(|(key, _, description, value)| {
                let (name, labels) = key.key().clone().into_parts();
                let labels: Vec<_> = labels.iter().map(metrics::Label::value).collect();
                assert_eq!(labels, ["users"]);
                assert!(description.is_some() && name.as_str().starts_with("twiceshy_"));
                (name.as_str().to_owned(), value)
            })
            .collect();
        assert_eq!(recorded.len(), 40);
        let is = |name: &str, value| assert_eq!(recorded[name], value, "{name}");
        is("twiceshy_lookups_total", DebugValue::Counter(1));
        is("twiceshy_true_positives_total", DebugValue::Counter(1));
        is("twiceshy_members", DebugValue::Gauge(1.0.into()));
        is("twiceshy_shards_ready", DebugValue::Gauge(64.0.into()));
    }
}
