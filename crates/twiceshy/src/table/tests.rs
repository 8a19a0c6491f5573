//! Tests the table against an exact model: a list of entries per quotient.

use super::block::{Plane, SATURATED};
use super::read::Stored;
use super::validate::Run;
use super::{
    Budget, Editor, Kind, Place, QuotientTable, SLOTS, Shape, Slot, TableFull, TableWriter, Usage,
};
use crate::bits::machine::{AnyShape, Level, Machine, Operation, Target};
use crate::bits::word::low_bits;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};

impl QuotientTable {
    pub(crate) fn for_machine(slots: u64, shape: impl Into<Shape>, level: Level) -> Option<Self> {
        let mut table = Self::new(slots, shape)?;
        table.header.level = level;
        Some(table)
    }

    /// Returns an invalid table: the run of quotient 0 is one slot, but all later slots continue
    /// its entry.
    pub(crate) fn of_one_endless_entry(slots: u64, width: u32) -> Option<Self> {
        let mut table = Self::new(slots, width)?;
        table.set_bit(0, Plane::Occupied, true);
        table.set_bit(0, Plane::RunEnd, true);
        (1..table.end()).for_each(|position| table.set_bit(position, Plane::Extension, true));
        Some(table)
    }
}

/// A table and its writer's state.
#[derive(Clone)]
struct Whole {
    table: QuotientTable,
    usage: Usage,
}

impl Deref for Whole {
    type Target = QuotientTable;
    fn deref(&self) -> &QuotientTable {
        &self.table
    }
}

impl DerefMut for Whole {
    fn deref_mut(&mut self) -> &mut QuotientTable {
        &mut self.table
    }
}

impl Whole {
    fn new(slots: u64, shape: impl Into<Shape>) -> Option<Self> {
        QuotientTable::new(slots, shape).map(Self::empty)
    }

    fn empty(table: QuotientTable) -> Self {
        Self { usage: table.usage(0), table }
    }

    fn editor(&mut self) -> Editor<'_> {
        self.table.editor(&mut self.usage)
    }

    /// Checks all invariants of a table, but not the values of its entries.
    fn check(&self) -> Result<(), crate::error::Invalid> {
        self.validate(self.usage.used, self.width(), |_| Ok(())).map(|_| ())
    }

    /// Returns all runs, in order.
    fn runs(&self) -> impl Iterator<Item = Run> {
        let stored: Vec<Stored> = self.stored().collect();
        let runs: Vec<Run> = stored
            .chunk_by(|a, b| a.quotient == b.quotient)
            .map(|run| Run {
                quotient: run[0].quotient,
                slots: run[0].slots.start..run[run.len() - 1].slots.end,
            })
            .collect();
        runs.into_iter()
    }
}

/// Approximate number of slots per block. It is exact for 9-bit slots.
const LANES: u64 = 42;

type Entry = Vec<Slot>;

/// The expected content of a table.
#[derive(Clone, Default)]
struct Model(BTreeMap<u64, Vec<Entry>>);

impl Model {
    fn used(&self) -> u64 {
        self.0.values().flatten().map(|entry| entry.len() as u64).sum()
    }

    /// Returns the expected position of each run.
    fn layout(&self) -> Vec<(u64, Range<u64>)> {
        let mut end = 0;
        self.0
            .iter()
            .map(|(&quotient, entries)| {
                let start = u64::max(end, quotient);
                end = start + entries.iter().map(|entry| entry.len() as u64).sum::<u64>();
                (quotient, start..end)
            })
            .collect()
    }

    fn fits(&self, table: &Whole) -> bool {
        let end = self.layout().last().map_or(0, |(_, range)| range.end);
        self.used() <= table.slots() && end <= table.end()
    }

    fn replace(&mut self, quotient: u64, range: Range<usize>, entries: &[Entry]) {
        let run = self.0.entry(quotient).or_default();
        run.splice(range, entries.iter().cloned());
        if run.is_empty() {
            self.0.remove(&quotient);
        }
    }

    fn check(&self, table: &Whole) {
        table.check().unwrap();
        let runs: Vec<_> = table.runs().map(|run| (run.quotient, run.slots)).collect();
        assert_eq!(runs, self.layout());
        table.target().run(Locate { table, runs: &runs });
        PORTABLE.run(Locate { table, runs: &runs });
        for (quotient, slots) in runs {
            let entries: Vec<Entry> = table
                .entries(slots)
                .map(|entry| {
                    entry.map(|at| Slot { value: table.value(at), kind: table.kind(at) }).collect()
                })
                .collect();
            assert_eq!(&entries, &self.0[&quotient]);
        }
    }

    fn written(&self, mut table: Whole) -> Result<Whole, TableFull> {
        table = Whole::new(table.slots(), table.width()).unwrap();
        let mut writer = TableWriter::new(table.editor());
        for (&quotient, entries) in &self.0 {
            for entry in entries {
                writer.push(quotient, entry.iter().copied())?;
            }
        }
        writer.finish()?;
        Ok(table)
    }
}

const PORTABLE: Target = Target { level: Level::Portable, shape: 0 };

/// Locates the runs and spills of a table, and compares them with the expected runs and spills.
struct Locate<'a> {
    table: &'a Whole,
    runs: &'a [(u64, Range<u64>)],
}

impl Operation for Locate<'_> {
    type Argument = ();
    type Output = ();
    type Shapes = AnyShape;
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) {
        let Locate { table, runs } = self;
        for (quotient, slots) in runs {
            assert_eq!(table.run_start(machine, *quotient), slots.start);
            assert_eq!(table.run_end(machine, *quotient), slots.end);
        }
        for block in 0..table.blocks() {
            let start = table.start_of(block);
            let before = runs.partition_point(|(quotient, _)| *quotient < start);
            let end = before.checked_sub(1).map_or(0, |last| runs[last].1.end);
            assert_eq!(table.spill(machine, block), end.saturating_sub(start));
        }
    }
}

/// Replaces the entries `range` of a run of `table`.
struct Replace<'a> {
    table: &'a mut Whole,
    quotient: u64,
    range: Range<usize>,
    slots: &'a [Slot],
}

impl Operation for Replace<'_> {
    type Argument = ();
    type Output = Result<(), TableFull>;
    type Shapes = AnyShape;
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Self::Output {
        let Replace { table, quotient, range, slots } = self;
        let start = table.run_start(machine, quotient);
        let mut borders = vec![start];
        if table.is_occupied(quotient) {
            let run = start..table.run_end(machine, quotient);
            borders.extend(table.entries(run).map(|entry| entry.end));
        }
        table.editor().replace(machine, quotient, borders[range.start]..borders[range.end], slots)
    }
}

fn assert_same(a: &Whole, b: &Whole) {
    let blocks = a.blocks();
    assert_eq!(
        (a.slots(), a.width(), a.usage.used, blocks),
        (b.slots(), b.width(), b.usage.used, b.blocks())
    );
    for block in 0..blocks {
        assert_eq!(a.stored_spill(block), b.stored_spill(block));
        assert_eq!(a.occupied(block), b.occupied(block));
    }
    for position in 0..a.end() {
        assert_eq!(
            (a.value(position), a.kind(position), a.bit(position, Plane::RunEnd)),
            (b.value(position), b.kind(position), b.bit(position, Plane::RunEnd))
        );
    }
}

#[derive(Clone, Debug)]
struct Edit {
    quotient: u64,
    from: usize,
    remove: usize,
    entries: Vec<(u64, Vec<(u64, bool)>)>,
}

/// Generates three kinds of quotients: uniform, near the start of the table, and near its end.
fn quotients() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => any::<u64>(),
        2 => 0u64..3,
        2 => (0u64..3).prop_map(|back| u64::MAX - back),
    ]
}

fn edits(most: usize) -> impl Strategy<Value = Vec<Edit>> {
    let entry = (any::<u64>(), prop::collection::vec((any::<u64>(), any::<bool>()), 0..3));
    let edit = (
        quotients(),
        0..8usize,
        prop_oneof![4 => Just(0), 1 => 0..6usize],
        prop_oneof![
            4 => prop::collection::vec(entry.clone(), 1..2),
            1 => prop::collection::vec(entry, 0..9),
        ],
    )
        .prop_map(|(quotient, from, remove, entries)| Edit { quotient, from, remove, entries });
    prop::collection::vec(edit, 0..most)
}

/// Applies the same edits to a table for this machine, to a portable one, and to the model.
fn drive(slots: u64, width: u32, edits: Vec<Edit>) {
    let mut table = Whole::new(slots, width).unwrap();
    let portable = QuotientTable::for_machine(slots, width, Level::Portable).unwrap();
    let mut portable = Whole::empty(portable);
    let mut model = Model::default();
    for edit in edits {
        // The three largest numbers count from the end of the table.
        let quotient = match edit.quotient {
            high if high > u64::MAX - 3 => slots - 1 - (u64::MAX - high) % slots,
            other => other % slots,
        };
        let entries: Vec<Entry> = edit
            .entries
            .iter()
            .map(|(head, rest)| {
                let mut entry = vec![Slot { value: head & low_bits(width), kind: Kind::Remainder }];
                entry.extend(rest.iter().map(|(value, counter)| Slot {
                    value: value & low_bits(width),
                    kind: if *counter { Kind::Counter } else { Kind::Extension },
                }));
                entry
            })
            .collect();
        let length = model.0.get(&quotient).map_or(0, Vec::len);
        let from = edit.from.min(length);
        let range = from..(from + edit.remove).min(length);

        let mut expected = model.clone();
        expected.replace(quotient, range.clone(), &entries);
        let fits = expected.fits(&table);
        let slots: Vec<Slot> = entries.concat();
        for table in [&mut table, &mut portable] {
            let target = table.target();
            let operation = Replace { table, quotient, range: range.clone(), slots: &slots };
            assert_eq!(target.run(operation).is_ok(), fits);
        }
        if fits {
            model = expected;
        }
        model.check(&table);
        assert_same(&table, &portable);
    }
    assert_same(&table, &model.written(table.clone()).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn edits_match_the_model(slots in 1u64..400, width in 1u32..=56, edits in edits(120)) {
        drive(slots, width, edits);
    }

    #[test]
    fn refused_edits_leave_full_tables_unchanged(slots in 1u64..40, width in 1u32..=56, edits in edits(200)) {
        drive(slots, width, edits);
    }
}

fn remainder(value: u64) -> Slot {
    Slot { value, kind: Kind::Remainder }
}

/// Appends an entry to the run of `quotient`.
fn append(table: &mut Whole, quotient: u64, slots: &[Slot]) -> Result<(), TableFull> {
    struct Append<'a>(&'a mut Whole, u64, &'a [Slot]);
    impl Operation for Append<'_> {
        type Argument = ();
        type Output = Result<(), TableFull>;
        type Shapes = AnyShape;
        fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Self::Output {
            let Append(table, quotient, slots) = self;
            let end = if table.is_occupied(quotient) {
                table.run_end(machine, quotient)
            } else {
                table.run_start(machine, quotient)
            };
            table.editor().replace(machine, quotient, end..end, slots)
        }
    }
    table.target().run(Append(table, quotient, slots))
}

#[test]
fn invalid_parameters_return_none() {
    assert!(Whole::new(0, 8).is_none());
    assert!(Whole::new(*SLOTS.end() + 1, 8).is_none());
    assert!(Whole::new(*SLOTS.end(), 56).is_none(), "no machine has 2 petabytes");
    assert!(Whole::new(8, 0).is_none());
    assert!(Whole::new(8, 57).is_none());
    assert_eq!(QuotientTable::bytes_for(0, 8), None);
}

#[test]
fn bytes_for_equals_actual_bytes() {
    for (slots, width) in [(1, 1), (63, 5), (64, 9), (1000, 13), (1 << 20, 9), (12345, 56)] {
        let table = Whole::new(slots, width).unwrap();
        assert_eq!(QuotientTable::bytes_for(slots, width), Some(table.bytes()));
    }
}

#[test]
fn new_tables_are_zeroed() {
    let dirty: Vec<u64> = vec![u64::MAX; 20_000];
    drop(dirty);
    Whole::new(8_000, 9).unwrap().check().unwrap();
}

/// Guards against a pitfall of the published prototype: in a cluster over several blocks, bits of
/// counters and extensions look like run ends.
#[test]
fn counters_and_extensions_are_not_mistaken_for_run_ends() {
    let mut table = Whole::new(4 * LANES, 9).unwrap();
    let mut model = Model::default();
    for quotient in 0..LANES {
        let mut entry = vec![remainder(quotient)];
        entry.extend(
            [Kind::Counter, Kind::Extension, Kind::Counter].map(|kind| Slot { value: 511, kind }),
        );
        append(&mut table, quotient, &entry[..3]).unwrap();
        model.replace(quotient, 0..0, &[entry[..3].to_vec()]);
        model.check(&table);
    }
}

/// Guards against a pitfall of the published prototype: an offset that doesn't fit in its byte.
/// Here one run becomes much longer than the byte can express, and then shrinks again.
#[test]
fn spills_that_exceed_a_byte_are_exact() {
    let slots = 40 * LANES;
    let mut table = Whole::new(slots, 7).unwrap();
    let mut model = Model::default();
    for value in 0..30 * LANES {
        append(&mut table, 5, &[remainder(value % 128)]).unwrap();
        model.replace(5, value as usize..value as usize, &[vec![remainder(value % 128)]]);
    }
    for quotient in [6, 63, 64, 300, 1000, slots - 1] {
        append(&mut table, quotient, &[remainder(1)]).unwrap();
        model.replace(quotient, 0..0, &[vec![remainder(1)]]);
        model.check(&table);
    }
    let spills: Vec<u64> = (0..table.blocks()).map(|block| table.stored_spill(block)).collect();
    assert!(
        spills.contains(&SATURATED) && spills.iter().any(|spill| (200..SATURATED).contains(spill))
    );
    while let Some(length) = model.0.get(&5).map(Vec::len) {
        let range = length.saturating_sub(37)..length;
        model.replace(5, range.clone(), &[]);
        let target = table.target();
        target.run(Replace { table: &mut table, quotient: 5, range, slots: &[] }).unwrap();
        model.check(&table);
    }
}

/// Guards against a pitfall of the published prototype: runs that end in the tail. Here all entries
/// belong to the last quotient, and they fill the tail.
#[test]
fn full_tail_refuses_inserts() {
    let slots = 1000;
    let mut table = Whole::new(slots, 3).unwrap();
    let mut model = Model::default();
    let room = table.end() - (slots - 1);
    for index in 0..room {
        append(&mut table, slots - 1, &[remainder(index % 8)]).unwrap();
        model.replace(slots - 1, index as usize..index as usize, &[vec![remainder(index % 8)]]);
    }
    model.check(&table);
    assert_eq!(append(&mut table, slots - 1, &[remainder(0)]), Err(TableFull));
    assert_eq!(append(&mut table, 998, &[remainder(0), remainder(0)]), Err(TableFull));
    model.check(&table);
    append(&mut table, 998, &[remainder(7)]).unwrap();
    model.replace(998, 0..0, &[vec![remainder(7)]]);
    model.check(&table);
    assert!(model.written(table).is_ok());
}

/// An operation that returns the position where a lookup finds the run of a quotient, or `None` if
/// the lookup gives up.
struct Walk<'a>(&'a Whole, u64);

impl Operation for Walk<'_> {
    type Argument = ();
    type Output = Option<u64>;
    type Shapes = AnyShape;
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Self::Output {
        let Walk(table, quotient) = self;
        table
            .try_walk::<M, 0>(machine, table.place(quotient), Budget::LOOKUP)
            .map(|walk| walk.position())
    }
}

/// One run fills almost all of 2^16 blocks. After it come the runs of one quotient per block.
#[test]
fn lookup_finds_runs_in_large_clusters() {
    let slots = (1 << 16) * LANES;
    let mut table = Whole::new(slots, 9).unwrap();
    let mut writer = TableWriter::new(table.editor());
    let others = (0..slots - LANES).step_by(LANES as usize).skip(1);
    for index in 0..slots - 3 * others.clone().count() as u64 {
        writer.push(3, [remainder(index % 512)]).unwrap();
    }
    for quotient in others {
        let extension = Slot { value: 1, kind: Kind::Extension };
        writer.push(quotient, [remainder(7), extension, extension]).unwrap();
    }
    writer.finish().unwrap();
    table.check().unwrap();
    for run in table.runs().step_by(997).chain(table.runs().last()) {
        for target in [table.target(), PORTABLE] {
            assert_eq!(target.run(Walk(&table, run.quotient)), Some(run.slots.start));
        }
    }
}

#[test]
fn lookup_gives_up_in_invalid_tables() {
    let slots = (9 << 16) * LANES;
    let mut table = Whole::new(slots, 9).unwrap();
    for block in 1..table.blocks() {
        table.set_spill(block, SATURATED);
    }
    let target = table.target();
    assert!(target.run(Walk(&table, slots / 10)).is_some());
    assert_eq!(target.run(Walk(&table, slots - 1)), None);
    // Now the spill of block 0 is unknown, too.
    table.set_spill(0, SATURATED);
    assert_eq!(target.run(Walk(&table, 50)), None);
    assert!(table.check().is_err());
}

#[test]
fn check_finds_broken_invariants() {
    let mut table = Whole::new(200, 9).unwrap();
    for quotient in 0..150 {
        append(
            &mut table,
            quotient / 2,
            &[remainder(quotient), Slot { value: 1, kind: Kind::Extension }],
        )
        .ok();
    }
    table.check().unwrap();
    let breakers: [fn(&mut Whole); 7] = [
        |table| table.set_bit(100, Plane::Occupied, true),
        |table| table.set_bit(3, Plane::Occupied, false),
        |table| table.table.set_bit(table.table.slots() + 1, Plane::Occupied, true),
        |table| table.set_spill(1, 7),
        |table| table.usage.used += 1,
        |table| table.table.set_value(table.table.end() - 1, 1),
        |table| table.write(14, remainder(0)),
    ];
    for (index, breaker) in breakers.into_iter().enumerate() {
        let mut broken = table.clone();
        breaker(&mut broken);
        assert!(broken.check().is_err(), "broken invariant {index} was not found");
    }
}

#[test]
fn check_finds_nonzero_bits_after_the_slots() {
    // Blocks with 50 slots of 7 bits have 4 unused bits.
    let mut table = Whole::new(200, 7).unwrap();
    table.block_mut_of(Place::new(1, 0))[63] |= 1 << 4;
    assert!(table.check().is_err());
}

#[test]
fn writer_never_uses_the_last_slot() {
    for slots in [1, 41, 42, 43, 1000] {
        let mut table = Whole::new(slots, 9).unwrap();
        let room = (table.end() - (slots - 1)).min(slots);
        let slot = Slot { value: 5, kind: Kind::Remainder };
        let mut writer = TableWriter::new(table.editor());
        assert!((0..room).all(|_| writer.push(slots - 1, [slot]).is_ok()));
        writer.finish().unwrap();
        table.check().unwrap();
        table.editor().clear();
        let mut writer = TableWriter::new(table.editor());
        assert!((0..room).all(|_| writer.push(slots - 1, [slot]).is_ok()));
        let pushed = writer.push(slots - 1, [slot]);
        assert_eq!(pushed.and_then(|()| writer.finish()), Err(TableFull));
    }
}

/// The last remainder of a run is in the last slot of the block after the run's home. The counter
/// of that remainder is in the block after that.
#[test]
fn check_accepts_a_counter_two_blocks_after_its_home() {
    let mut table = Whole::new(113, 24).unwrap();
    let lanes = 504 / 27;
    let mut writer = TableWriter::new(table.editor());
    for value in 0..=lanes {
        let remainder = Slot { value, kind: Kind::Remainder };
        let counter = (value == lanes).then_some(Slot { value: 1, kind: Kind::Counter });
        writer.push(lanes - 1, core::iter::once(remainder).chain(counter)).unwrap();
    }
    writer.finish().unwrap();
    table.check().unwrap();
    assert_eq!(table.stored().last().unwrap().slots, 2 * lanes - 1..2 * lanes + 1);
}
