//! Statistics for monitoring systems.

use crate::stats::Stats;
use metrics::{counter, describe_counter, describe_gauge, gauge};

impl Stats {
    /// Passes the statistics to the installed recorder of the [`metrics`] facade. Call this before each
    /// export, or every few seconds. The label `name` tells stores and guards apart.
    ///
    /// Counters: `twiceshy_lookups_total`, `twiceshy_answered_from_memory_total`,
    /// `twiceshy_true_positives_total`, `twiceshy_false_positives_total`,
    /// `twiceshy_repeated_false_positives_total`, `twiceshy_unfiltered_total`,
    /// `twiceshy_repairs_total`, `twiceshy_repairs_failed_total`, `twiceshy_ghosts_left_total`,
    /// `twiceshy_ghosts_cleared_total`, `twiceshy_mistakes_forgotten_total`,
    /// `twiceshy_backend_gets_total`, `twiceshy_backend_scans_total`.
    ///
    /// Gauges: `twiceshy_doubts`, `twiceshy_mistakes`, `twiceshy_list_bytes`, `twiceshy_members`,
    /// `twiceshy_filter_bytes`, `twiceshy_load`, `twiceshy_bits_per_key`, `twiceshy_false_positive_rate`,
    /// `twiceshy_shards_ready`, `twiceshy_shards`.
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

    fn counts(&self) -> [(&'static str, u64, &'static str); 13] {
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
            ("twiceshy_ghosts_left_total", self.ghosts_left, "Ghosts left by failed writes"),
            ("twiceshy_ghosts_cleared_total", self.ghosts_cleared, "Ghosts cleared by repairs"),
            (
                "twiceshy_mistakes_forgotten_total",
                self.mistakes_forgotten,
                "Mistakes forgotten to make room for others",
            ),
            ("twiceshy_backend_gets_total", self.backend_gets, "Point reads of the backend"),
            ("twiceshy_backend_scans_total", self.backend_scans, "Range scans of the backend"),
        ]
    }

    fn levels(&self) -> [(&'static str, f64, &'static str); 10] {
        [
            ("twiceshy_doubts", self.doubts as f64, "Keys whose write may still take effect"),
            ("twiceshy_mistakes", self.mistakes as f64, "Mistakes that are kept"),
            (
                "twiceshy_list_bytes",
                self.list_bytes as f64,
                "Bytes of memory that the no list takes",
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
            ("twiceshy_shards_ready", self.shards_ready as f64, "Shards that answer"),
            ("twiceshy_shards", self.shards as f64, "Shards of the filter"),
        ]
    }
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
        assert_eq!(recorded.len(), 23);
        let is = |name: &str, value| assert_eq!(recorded[name], value, "{name}");
        is("twiceshy_lookups_total", DebugValue::Counter(1));
        is("twiceshy_true_positives_total", DebugValue::Counter(1));
        is("twiceshy_members", DebugValue::Gauge(1.0.into()));
        is("twiceshy_shards_ready", DebugValue::Gauge(64.0.into()));
    }
}
