//! The tables of benchmarks: which rows and columns are shown, and what they are called.

use super::source;
use crate::origin::Origin;
use serde_json::Value;
use twiceshy_report::{Cell, Column, Table};

/// How a benchmark's rows are laid out in tables.
struct Bench {
    /// The first words of the benchmark's command.
    command: &'static str,
    title: &'static str,
    tables: &'static [Layout],
}

/// The layout of one table. Rows and columns without results are left out.
struct Layout {
    lead: &'static str,
    /// The fields that identify a row, and a row name for each combination of their values.
    rows: (&'static [&'static str], &'static [(&'static str, &'static str)]),
    columns: Columns,
}

enum Columns {
    /// One column per value of a field. The cells show the number `shown`. The numbers in `totals`
    /// are the same in all rows of a column, so each gets a single row at the end.
    Each {
        field: &'static str,
        names: &'static [(&'static str, &'static str)],
        shown: Number,
        totals: &'static [Number],
    },
    /// One column for each of these numbers.
    Numbers(&'static [Number]),
}

/// A number in a result, and its format.
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

const BENCHES: [Bench; 8] = [
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
                    ("bulk", "fill an empty filter, including hashing the keys"),
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
                    ("yes", "yes-list keys"),
                    ("no", "no-list keys"),
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
                totals: &[number("bits_per_yes_key", "bits per yes-list key", 1), FALSE_POSITIVES],
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
                lead: "Thousands of operations per second in the median round. Background work is \
                       finished within the time. All setups have the same memory, besides what the \
                       table of the memory shows. An adversary replays mistakes that it has learnt.",
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
                lead: "Repeated disk reads for the same absent key, per million queries:",
                rows: (&["op", "hostile_percent"], HOSTILE),
                columns: stores(number("repeated_per_million", "repeated", 0)),
            },
            Layout {
                lead: "Disk reads for absent keys, skipped repairs, and rotations of the shard that \
                       was rotated least often:",
                rows: (&["setup", "op", "hostile_percent"], REPAIRED),
                columns: Columns::Numbers(&[
                    number("seconds", "seconds", 1),
                    number("backend_gets", "disk reads", 0),
                    number("skipped_repairs", "skipped repairs", 0),
                    number("least_rotations", "rotations", 0),
                ]),
            },
            Layout {
                lead: "All memory in KiB, with the engine's block cache, memtables, and the filters \
                       and indexes that it keeps of its tables:",
                rows: (
                    &["op", "hostile_percent"],
                    &[("insert 0", "insert"), ("hostile 10", "absent keys, adversary at 10 %")],
                ),
                columns: stores(kibibytes("memory_bytes", "KiB")),
            },
            Layout {
                lead: "The part of it that isn't in the block cache nor in our store:",
                rows: (
                    &["op", "hostile_percent"],
                    &[("insert 0", "insert"), ("hostile 10", "absent keys, adversary at 10 %")],
                ),
                columns: stores(kibibytes("engine_bytes", "KiB")),
            },
            Layout {
                lead: "Absent keys, each queried once, in thousands per second. The ratio is that \
                       to a store without repairs. Repairs and rotations are finished within the \
                       time.",
                rows: (&["op", "setup", "cores"], UNIFORM),
                columns: Columns::Numbers(&[
                    number("seconds", "seconds", 1),
                    number("kops", "k/s", 0),
                    number("plain_kops", "without repairs", 0),
                    number("ratio", "ratio", 3),
                    number("mistakes", "mistakes", 0),
                    number("skipped_repairs", "skipped repairs", 0),
                    number("least_rotations", "fewest rotations of a shard", 0),
                    kibibytes("memory_bytes", "memory, KiB"),
                    kibibytes("plain_memory_bytes", "without repairs, KiB"),
                    kibibytes("engine_bytes", "engine, KiB"),
                    kibibytes("plain_engine_bytes", "without repairs, KiB"),
                ]),
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
        command: "bench life",
        title: "The life of a store",
        tables: &[
            Layout {
                lead: "A growing store without a planned size. Rates are measured with absent keys \
                       that were not queried before; memory excludes the backend, and is measured \
                       at rest. One thread puts members, another one gets members and absent keys. \
                       Latencies are in µs. The control is a short computation by the thread that \
                       gets keys: what the machine alone causes.",
                rows: (&["phase", "members"], GROWING),
                columns: Columns::Numbers(&[
                    RATE,
                    number("memory_bits_per_member", "bits per member", 2),
                    number("members_listed_per_put", "members listed per put", 2),
                    THOUSAND_PUTS,
                    number("put_p99999_us", "put 99.999 %", 0),
                    number("put_max_us", "put, slowest", 0),
                    number("get_p9999_us", "get 99.99 %", 1),
                    number("get_p99999_us", "get 99.999 %", 0),
                    number("get_max_us", "get, slowest", 0),
                    number("control_p9999_us", "control 99.99 %", 1),
                    number("control_p99999_us", "control 99.999 %", 0),
                    number("delayed_writes", "delayed puts", 0),
                    number("stalled_writes", "stalled puts", 0),
                ]),
            },
            Layout {
                lead: "Two threads that put members in batches of 16, into a store with 5 % of a \
                       core for background work. Latencies are those of a batch, in µs:",
                rows: (
                    &["phase", "backend"],
                    &[
                        ("outrun memory", "in memory"),
                        ("outrun fjall", "fjall"),
                        ("outrun redb", "redb"),
                    ],
                ),
                columns: Columns::Numbers(&[
                    number("puts", "members put", 0),
                    THOUSAND_PUTS,
                    number("put_p9999_us", "99.99 %", 0),
                    number("put_max_us", "slowest", 0),
                    number("delayed_writes", "delayed batches", 0),
                    number("stalled_writes", "stalled batches", 0),
                    number("failed_puts", "failed batches", 0),
                    RATE,
                    number("filter_bits_per_member", "bits per member, filter", 2),
                    number("memory_bits_per_member", "all memory", 2),
                ]),
            },
            Layout {
                lead: "The grown store while its members are deleted, and stores that are filled to \
                       their plan:",
                rows: (&["phase", "members"], SHRINKING),
                columns: Columns::Numbers(&[
                    RATE,
                    number("filter_bits_per_member", "bits per member, filter", 2),
                    number("memory_bits_per_member", "all memory", 2),
                    number("remainder_bits", "bits per remainder", 0),
                    number("remainder_bits_of_plan", "planned", 0),
                    Number {
                        field: "deletes_per_second",
                        name: "deletes, k/s",
                        factor: 1e-3,
                        decimals: 0,
                    },
                ]),
            },
            Layout {
                lead: "A flood of different absent keys. Rows are named after the number of queries \
                       per member. Mistakes per million are those since the row before.",
                rows: (
                    &["phase", "queries_per_member"],
                    &[
                        ("flood 1", "1"),
                        ("flood 10", "10"),
                        ("flood 100", "100"),
                        ("flood 1000", "1,000"),
                        ("flood 10000", "10,000"),
                    ],
                ),
                columns: Columns::Numbers(&[
                    number("mistakes_per_million", "mistakes per million", 0),
                    number("mistakes", "mistakes", 0),
                    number("allowed_mistakes", "allowed", 0),
                    kibibytes("memory_bytes", "memory, KiB"),
                    kibibytes("disk_bytes", "data, KiB"),
                    number("kept_mistakes", "kept mistakes", 0),
                    number("rotations", "rotations", 0),
                    number("skipped_repairs", "skipped repairs", 0),
                    number("members_read_per_repair", "members read per repair", 1),
                ]),
            },
            Layout {
                lead: "Opening the store again, in ms:",
                rows: (
                    &["phase", "backend"],
                    &[
                        ("restart memory", "after a close, in memory"),
                        ("restart fjall", "after a close, fjall"),
                        ("restart redb", "after a close, redb"),
                        ("crash memory", "after a crash, in memory"),
                        ("crash fjall", "after a crash, fjall"),
                        ("crash redb", "after a crash, redb"),
                    ],
                ),
                columns: Columns::Numbers(&[
                    number("members", "members", 0),
                    number("kept_mistakes", "kept mistakes", 0),
                    number("backend_ms", "backend opened", 1),
                    number("first_answer_ms", "first answer", 2),
                    number("full_speed_ms", "full speed", 1),
                    Number {
                        field: "members_per_second",
                        name: "M members/s",
                        factor: 1e-6,
                        decimals: 2,
                    },
                ]),
            },
        ],
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
                    (
                        "hasty_cuckoo_array",
                        "cuckoo array, evicts as soon as the first bucket is full",
                    ),
                ],
                shown: number("pages", "pages", 2),
                totals: &[],
            },
        }],
    },
];

const RATE: Number = Number { field: "rate", name: "rate, %", factor: 100.0, decimals: 3 };

const THOUSAND_PUTS: Number =
    Number { field: "puts_per_second", name: "puts, k/s", factor: 1e-3, decimals: 0 };

const fn kibibytes(field: &'static str, name: &'static str) -> Number {
    Number { field, name, factor: 1.0 / 1024.0, decimals: 0 }
}

/// The rows of hostile queries in `bench store`.
const HOSTILE: &[(&str, &str)] = &[
    ("hostile 0", "adversary at 0 %"),
    ("hostile 1", "adversary at 1 %"),
    ("hostile 10", "adversary at 10 %"),
];

/// The rows of `bench store` in which mistakes are repaired.
const REPAIRED: &[(&str, &str)] = &[
    ("adaptive insert 0", "insert"),
    ("adaptive hostile 0", "adversary at 0 %"),
    ("adaptive hostile 10", "adversary at 10 %"),
    ("split insert 0", "insert, split layout"),
    ("split hostile 0", "adversary at 0 %, split layout"),
    ("split hostile 10", "adversary at 10 %, split layout"),
];

/// The rows of uniform absent keys in `bench store`.
const UNIFORM: &[(&str, &str)] = &[
    ("uniform memory one", "in memory, one core reads"),
    ("uniform memory all", "in memory, all cores read"),
    ("uniform fjall one", "fjall, one core reads"),
    ("uniform fjall all", "fjall, all cores read"),
    ("uniform synced fjall one", "synced fjall, one core reads"),
    ("uniform synced fjall all", "synced fjall, all cores read"),
    ("uniform redb one", "redb, one core reads"),
    ("uniform redb all", "redb, all cores read"),
];

/// The rows of a growing store in `bench life`.
const GROWING: &[(&str, &str)] = &[
    ("grow 16384", "2^14 members"),
    ("grow 32768", "2^15 members"),
    ("grow 65536", "2^16 members"),
    ("grow 131072", "2^17 members"),
    ("grow 262144", "2^18 members"),
    ("grow 524288", "2^19 members"),
    ("grow 1048576", "2^20 members"),
    ("grow 2097152", "2^21 members"),
    ("grow 4194304", "2^22 members"),
    ("grow_total null", "all together"),
];

/// The rows of a shrinking store and of planned stores in `bench life`.
const SHRINKING: &[(&str, &str)] = &[
    ("shrink 2097152", "2^21 members left"),
    ("shrink 1048576", "2^20 members left"),
    ("shrink 524288", "2^19 members left"),
    ("shrink 262144", "2^18 members left"),
    ("shrink 131072", "2^17 members left"),
    ("shrink 65536", "2^16 members left"),
    ("shrink 32768", "2^15 members left"),
    ("shrink 16384", "2^14 members left"),
    ("planned 1048576", "planned for 2^20"),
    ("planned 4194304", "planned for 2^22"),
];

/// Returns a column for each setup of `bench store`.
const fn stores(shown: Number) -> Columns {
    Columns::Each {
        field: "setup",
        names: &[
            ("none", "no filter"),
            ("engine", "the engine's filter"),
            ("plain", "ours, without repairs"),
            ("adaptive", "ours, with repairs"),
            ("split", "ours, with repairs, split layout"),
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
    let with_lead = |lead: &str, table: &Table| {
        if table.rows.is_empty() {
            return String::new();
        }
        format!("\n{lead}\n\n{}", table.to_markdown())
    };
    let tables = bench.tables.iter().map(|layout| with_lead(layout.lead, &layout.table(rows)));
    let targets = with_lead("The targets, and whether they were met:", &targets(rows));
    Ok(head + &tables.collect::<String>() + &targets)
}

/// Returns a table of the targets among the rows.
fn targets(rows: &[Value]) -> Table {
    let table = Table::default().columns([
        Column::text("target"),
        Column::text("goal"),
        Column::decimals("measured", "", 3),
        Column::text("verdict"),
    ]);
    let targets = rows.iter().filter(|row| row["verdict"].is_string());
    targets.fold(table, |table, row| {
        let sign = if row["at_least"] == true { "at least" } else { "at most" };
        let goal = format!("{sign} {} {}", row["goal"], text(&row["unit"]));
        let verdict = text(&row["verdict"]).replace('_', " ");
        table.row([
            text(&row["name"]).into(),
            goal.trim_end().into(),
            row["measured"].as_f64().into(),
            verdict.into(),
        ])
    })
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
                        // Format the number here, because a total may have a different number of
                        // decimals than its column.
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
    fn rows_of_bench_point_become_a_table_with_a_column_per_filter() {
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
    fn row_names_combine_operation_and_adversary_share() {
        let rows = [
            json!({ "setup": "adaptive", "op": "hostile", "hostile_percent": 10,
                    "median_kops": 10_554.0, "repeated_per_million": 0.0 }),
            json!({ "setup": "none", "op": "hostile", "hostile_percent": 10,
                    "median_kops": 153.0, "repeated_per_million": null }),
        ];
        let section = section(&origin("bench store"), &rows).unwrap();
        assert!(section.contains("| absent keys, adversary at 10 % | 153 | 10,554 |"), "{section}");
        assert!(section.contains("| adversary at 10 % | | 0 |"), "{section}");
    }

    #[test]
    fn targets_and_verdicts_are_listed_below_the_tables() {
        let target = |name: &str, measured: Option<f64>, verdict: &str| {
            json!({ "phase": "target", "name": name, "unit": "µs", "at_least": false,
                    "goal": 50.0, "measured": measured, "verdict": verdict })
        };
        let rows = [target("get", Some(1234.5), "missed"), target("put", None, "not_measured")];
        let section = section(&origin("bench life"), &rows).unwrap();
        let table = "\
| target | goal | measured | verdict |
| --- | --- | ---: | --- |
| get | at most 50.0 µs | 1,234.500 | missed |
| put | at most 50.0 µs | | not measured |
";
        assert!(section.ends_with(table), "{section}");
        assert!(!section.contains("Opening the store again"), "an empty table: {section}");
    }

    #[test]
    fn unknown_benchmark_is_refused() {
        assert!(section(&origin("bench other"), &[]).unwrap_err().contains("bench other"));
    }
}
