//! Benchmarks as tables: which rows and columns people want to see, and what they are called.

use super::source;
use crate::origin::Origin;
use serde_json::Value;
use twiceshy_report::{Cell, Column, Table};

/// The layout of a benchmark's rows as tables.
struct Bench {
    /// The words that the benchmark's command begins with.
    command: &'static str,
    title: &'static str,
    tables: &'static [Layout],
}

/// The layout of one table. Rows and columns that no result has are left out.
struct Layout {
    lead: &'static str,
    /// The fields that tell rows apart, and what each of them is called if they have these values.
    rows: (&'static [&'static str], &'static [(&'static str, &'static str)]),
    columns: Columns,
}

enum Columns {
    /// A column per value of a field; cells show a number. At the end come numbers that are the same
    /// in all rows of a column, in rows of their own.
    Each {
        field: &'static str,
        names: &'static [(&'static str, &'static str)],
        shown: Number,
        totals: &'static [Number],
    },
    /// A column per number.
    Numbers(&'static [Number]),
}

/// A number of a result, and its format.
struct Number {
    field: &'static str,
    name: &'static str,
    factor: f64,
    decimals: u8,
}

const fn number(field: &'static str, name: &'static str, decimals: u8) -> Number {
    Number { field, name, factor: 1.0, decimals }
}

const FALSE_POSITIVES: Number =
    Number { field: "fpr", name: "false positives, %", factor: 100.0, decimals: 3 };

const FILTERS: &[(&str, &str)] = &[
    ("aqf", "`QuotientFilter`"),
    ("qf", "`PlainQuotientFilter`"),
    ("taf", "`TelescopingFilter`"),
    ("exaf", "`ExtensionFilter`"),
    ("abf", "`AdaptiveBloomFilter`"),
    ("taf-adapted", "telescoping, repaired"),
    ("exaf-adapted", "extension, repaired"),
    ("qfilter", "`qfilter`"),
    ("fastbloom", "`fastbloom`"),
    ("split-block", "split-block Bloom"),
    ("cuckoo", "cuckoo"),
    ("binary-fuse-8", "binary fuse, 8 bits"),
];

const BENCHES: [Bench; 7] = [
    Bench {
        command: "bench point",
        title: "Point filters",
        tables: &[Layout {
            lead: "Millions of operations per second in the best round. Keys are prehashed, except \
                   for inserts one by one. \"Repaired\" filters had one repair per four members.",
            rows: (
                &["op"],
                &[
                    ("insert", "insert"),
                    ("insert_many", "insert, in batches"),
                    ("bulk_prehashed", "fill an empty filter"),
                    ("bulk", "fill an empty filter, keys"),
                    ("negative_prehashed", "absent keys"),
                    ("positive_prehashed", "members"),
                    ("negative_many_prehashed", "absent keys, in batches"),
                    ("positive_many_prehashed", "members, in batches"),
                ],
            ),
            columns: Columns::Each {
                field: "filter",
                names: FILTERS,
                shown: number("mops", "M/s", 1),
                totals: &[number("bits_per_key", "bits per key", 1), FALSE_POSITIVES],
            },
        }],
    },
    Bench {
        command: "bench range",
        title: "Range filters",
        tables: &[Layout {
            lead: "Millions of operations per second in the best round; empty ranges of uniform keys.",
            rows: (
                &["op"],
                &[
                    ("range_negative", "empty ranges"),
                    ("range_negative_many", "empty ranges, in batches"),
                    ("insert", "insert"),
                    ("bulk", "build from sorted keys"),
                ],
            ),
            columns: Columns::Each {
                field: "filter",
                names: &[
                    ("memento", "`RangeFilter`"),
                    ("aeris", "`AdaptiveRangeFilter`"),
                    ("grafite", "Grafite"),
                    ("fst-truncated", "truncated keys (`fst`)"),
                ],
                shown: number("mops", "M/s", 1),
                totals: &[number("bits_per_key", "bits per key", 1), FALSE_POSITIVES],
            },
        }],
    },
    Bench {
        command: "bench list",
        title: "Yes/no lists",
        tables: &[Layout {
            lead: "Millions of keys per second in the best round.",
            rows: (
                &["op"],
                &[
                    ("build", "build"),
                    ("yes", "yes keys"),
                    ("no", "no keys"),
                    ("other", "unlisted keys"),
                    ("other_many", "unlisted keys, in batches"),
                ],
            ),
            columns: Columns::Each {
                field: "filter",
                names: &[
                    ("fixed", "`YesNoFilter`"),
                    ("changing", "`YesNoList`, without its lists"),
                    ("cascade", "Bloom cascade"),
                    ("clubcard", "Clubcard"),
                ],
                shown: number("mops", "M/s", 1),
                totals: &[number("bits_per_yes_key", "bits per yes key", 1), FALSE_POSITIVES],
            },
        }],
    },
    Bench {
        command: "bench aqf-ops",
        title: "Other operations of `QuotientFilter`",
        tables: &[Layout {
            lead: "Best rounds; latencies include reading the clock.",
            rows: (
                &["op"],
                &[
                    ("insert", "insert"),
                    ("bulk", "fill an empty filter"),
                    ("sorted_build", "build from sorted hashes"),
                    ("merge_halves", "merge two filters"),
                    ("remove", "remove"),
                    ("double", "double"),
                    ("save", "save"),
                    ("load", "read and validate"),
                    ("map_open", "open a memory map"),
                    ("negative_plain", "absent keys"),
                    ("negative_concurrent_1t", "absent keys, `Concurrent`, 1 thread"),
                    ("negative_concurrent_2t", "absent keys, `Concurrent`, 2 threads"),
                    ("insert_1t", "insert, `Concurrent`, 1 thread"),
                    ("insert_2t", "insert, `Concurrent`, 2 threads"),
                    ("lookup_latency_90", "absent keys at 90 % load"),
                    ("insert_latency_90", "insert at 90 % load"),
                    ("lookup_latency_95", "absent keys at 95 % load"),
                    ("insert_latency_95", "insert at 95 % load"),
                    ("insert_latency_growing", "insert while the filter doubles"),
                ],
            ),
            columns: Columns::Numbers(&[
                number("mops", "M/s", 1),
                number("gigabytes_per_second", "GB/s", 2),
                number("p50_ns", "median, ns", 0),
                number("p99_ns", "99 %, ns", 0),
                number("p999_ns", "99.9 %, ns", 0),
                number("max_ns", "slowest, ns", 0),
            ]),
        }],
    },
    Bench {
        command: "bench store",
        title: "The store",
        tables: &[
            Layout {
                lead: "Thousands of operations per second in the median round. All setups have the \
                       same memory. An adversary replays mistakes that it has learnt.",
                rows: (
                    &["op", "hostile_percent"],
                    &[
                        ("insert 0", "insert"),
                        ("negative 0", "absent keys, uniform"),
                        ("zipf 0", "absent keys, Zipf 1.5"),
                        ("hostile 0", "absent keys, adversary at 0 %"),
                        ("hostile 1", "absent keys, adversary at 1 %"),
                        ("hostile 10", "absent keys, adversary at 10 %"),
                        ("scan 0", "scan"),
                        ("rebuild 0", "rebuild the filter"),
                    ],
                ),
                columns: stores(number("median_kops", "k/s", 0)),
            },
            Layout {
                lead: "Disk reads for absent keys that were read before:",
                rows: (
                    &["op", "hostile_percent"],
                    &[
                        ("hostile 0", "adversary at 0 %"),
                        ("hostile 1", "adversary at 1 %"),
                        ("hostile 10", "adversary at 10 %"),
                    ],
                ),
                columns: stores(number("repeated_mistakes", "repeated", 0)),
            },
        ],
    },
    Bench {
        command: "bench range-store",
        title: "The store of ranges",
        tables: &[Layout {
            lead: "Thousands of empty ranges per second in the median turn.",
            rows: (
                &["hostile_percent"],
                &[
                    ("0.0", "adversary at 0 %"),
                    ("1.0", "adversary at 1 %"),
                    ("5.0", "adversary at 5 %"),
                    ("10.0", "adversary at 10 %"),
                ],
            ),
            columns: Columns::Each {
                field: "setup",
                names: &[
                    ("adaptive", "`RangeStore`"),
                    ("memento", "`RangeFilter`"),
                    ("grafite", "Grafite"),
                    ("fst-truncated", "truncated keys (`fst`)"),
                ],
                shown: number("kops", "k/s", 0),
                totals: &[],
            },
        }],
    },
    Bench {
        command: "bench reverse-map",
        title: "Reverse maps",
        tables: &[Layout {
            lead: "Pages of 4 KiB that an operation touches, counted.",
            rows: (&["op"], &[("insert", "insert"), ("adapt", "repair"), ("delete", "delete")]),
            columns: Columns::Each {
                field: "map",
                names: &[
                    ("hash", "by hash (ours)"),
                    ("rank", "by rank (`AdaptiveQF`)"),
                    ("quotient_array", "quotient array (telescoping)"),
                    ("cuckoo_array", "cuckoo array"),
                    ("hasty_cuckoo_array", "cuckoo array that kicks first"),
                ],
                shown: number("pages", "pages", 2),
                totals: &[],
            },
        }],
    },
];

/// A column for each setup of `bench store`.
const fn stores(shown: Number) -> Columns {
    Columns::Each {
        field: "setup",
        names: &[
            ("none", "no filter"),
            ("engine", "the engine's filter"),
            ("plain", "ours, not adapting"),
            ("adaptive", "ours, adapting"),
            ("split", "ours, adapting, split layout"),
        ],
        shown,
        totals: &[],
    }
}

/// Writes the section of a benchmark.
pub(super) fn section(origin: &Origin, rows: &[Value]) -> Result<String, String> {
    let words = |command: &str| origin.command.split_whitespace().take(2).eq(command.split(' '));
    let bench = BENCHES.iter().find(|bench| words(bench.command));
    let bench = bench.ok_or_else(|| format!("no table is known for `{}`", origin.command))?;
    let head = format!("\n## {}\n\n{}\n", bench.title, source(origin));
    let table =
        |layout: &Layout| format!("\n{}\n\n{}", layout.lead, layout.table(rows).to_markdown());
    Ok(head + &bench.tables.iter().map(table).collect::<String>())
}

impl Layout {
    fn table(&self, rows: &[Value]) -> Table {
        let (fields, names) = self.rows;
        let is_row = |row: &Value, wanted: &str| {
            let values = fields.iter().map(|field| text(&row[field]));
            values.collect::<Vec<_>>().join(" ") == wanted
        };
        let names: Vec<_> =
            names.iter().filter(|(wanted, _)| rows.iter().any(|row| is_row(row, wanted))).collect();
        match &self.columns {
            Columns::Numbers(numbers) => {
                let columns = numbers.iter().map(Number::column);
                let mut table = Table::default().columns([Column::text("")]).columns(columns);
                for (wanted, name) in names {
                    let row = rows.iter().find(|row| is_row(row, wanted));
                    let cells = numbers.iter().map(|number| number.cell(row));
                    table = table.row([(*name).into()].into_iter().chain(cells));
                }
                table
            }
            Columns::Each { field, names: columns, shown, totals } => {
                let is_in = |row: &&Value, column: &str| text(&row[*field]) == column;
                let columns: Vec<_> = columns
                    .iter()
                    .filter(|(column, _)| rows.iter().any(|row| is_in(&row, column)))
                    .collect();
                let heads = columns
                    .iter()
                    .map(|(_, name)| Column { name: (*name).into(), ..shown.column() });
                let mut table = Table::default().columns([Column::text("")]).columns(heads);
                for (wanted, name) in names {
                    let cells = columns.iter().map(|(column, _)| {
                        let mut rows = rows.iter().filter(|row| is_in(row, column));
                        shown.cell(rows.find(|row| is_row(row, wanted)))
                    });
                    table = table.row([(*name).into()].into_iter().chain(cells));
                }
                for total in *totals {
                    let cells = columns.iter().map(|(column, _)| {
                        let row = rows
                            .iter()
                            .find(|row| is_in(row, column) && !row[total.field].is_null());
                        // The number of decimals differs from that of the column.
                        total.value(row).map_or(Cell::Empty, |value| {
                            format!("{value:.*}", usize::from(total.decimals)).into()
                        })
                    });
                    table = table.row([total.name.into()].into_iter().chain(cells));
                }
                table
            }
        }
    }
}

impl Number {
    fn column(&self) -> Column {
        Column::decimals(self.name, "", self.decimals)
    }

    fn value(&self, row: Option<&Value>) -> Option<f64> {
        row.and_then(|row| row[self.field].as_f64()).map(|value| value * self.factor)
    }

    fn cell(&self, row: Option<&Value>) -> Cell {
        self.value(row).into()
    }
}

/// Returns a field as text, without quotes.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn origin(command: &str) -> Origin {
        Origin { command: command.into(), facts: Vec::new() }
    }

    #[test]
    fn point_rows_become_a_table_of_filters() {
        let row = |filter: &str, op: &str, mops: f64| json!({ "filter": filter, "op": op, "mops": mops, "bits_per_key": 13.55, "fpr": 0.0018 });
        let rows = [
            row("limit", "touch", 200.0),
            row("aqf", "negative_prehashed", 41.87),
            row("aqf", "insert", 8.94),
            row("qfilter", "insert", 8.24),
        ];
        let section = section(&origin("bench point --json"), &rows).unwrap();
        let table = "\
| | `QuotientFilter` | `qfilter` |
| --- | ---: | ---: |
| insert | 8.9 | 8.2 |
| absent keys | 41.9 | |
| bits per key | 13.6 | 13.6 |
| false positives, % | 0.180 | 0.180 |
";
        assert!(section.ends_with(table), "{section}");
    }

    #[test]
    fn row_names_join_all_fields() {
        let rows = [
            json!({ "setup": "adaptive", "op": "hostile", "hostile_percent": 10,
                    "median_kops": 10_554.0, "repeated_mistakes": 0 }),
            json!({ "setup": "none", "op": "hostile", "hostile_percent": 10,
                    "median_kops": 153.0, "repeated_mistakes": null }),
        ];
        let section = section(&origin("bench store"), &rows).unwrap();
        assert!(section.contains("| absent keys, adversary at 10 % | 153 | 10,554 |"), "{section}");
        assert!(section.contains("| adversary at 10 % | | 0 |"), "{section}");
    }

    #[test]
    fn unknown_benchmark_is_refused() {
        assert!(section(&origin("bench other"), &[]).unwrap_err().contains("bench other"));
    }
}
