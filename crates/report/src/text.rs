//! Renders tables as text.
//!
//! This doesn't use the crate `comfy-table`, which wraps the text of cells if a table is too wide.
//! Here, columns that don't fit follow below.

use crate::{Format, Table};

const GAP: usize = 2;

impl Table {
    /// Renders the table for a terminal of this width. Columns that don't fit follow below, after a
    /// copy of the first column. Assumes that all characters have the same width.
    pub fn to_text(&self, width: usize) -> String {
        let columns: Vec<_> = (0..self.width()).map(|column| Lines::of(self, column)).collect();
        let mut out = String::new();
        if !self.title.is_empty() {
            out += &(line(&self.title) + "\n");
        }
        let mut next = 0;
        while next < columns.len() {
            let mut shown = vec![&columns[next]];
            let mut used = columns[next].width;
            if next > 0 {
                shown.insert(0, &columns[0]);
                used += GAP + columns[0].width;
                out.push('\n');
            }
            next += 1;
            while next < columns.len() && used + GAP + columns[next].width <= width {
                used += GAP + columns[next].width;
                shown.push(&columns[next]);
                next += 1;
            }
            write(&shown, &mut out);
        }
        for note in &self.notes {
            out += &(line(note) + "\n");
        }
        out
    }
}

/// The cells of a column: its name, its unit, a rule, and its values.
struct Lines {
    cells: Vec<String>,
    width: usize,
    left: bool,
}

impl Lines {
    fn of(table: &Table, column: usize) -> Self {
        let has_units = table.columns.iter().any(|column| !column.unit.is_empty());
        let marks = table.highlights.iter().any(|(_, at)| *at == column);
        let head = table.column(column);
        let mut cells = vec![line(&head.name)];
        if has_units {
            let unit = line(&head.unit);
            cells.push(if unit.is_empty() { unit } else { format!("({unit})") });
        }
        let rule = cells.len();
        for row in 0..table.rows.len() {
            let mut cell = line(&table.shown(row, column));
            if marks {
                cell.push(if table.highlights.contains(&(row, column)) { '*' } else { ' ' });
            }
            cells.push(cell);
        }
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        cells.insert(rule, "─".repeat(width));
        Self { cells, width, left: head.format == Format::Text }
    }
}

fn write(columns: &[&Lines], out: &mut String) {
    for at in 0..columns[0].cells.len() {
        let mut text = String::new();
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                text.push_str(&" ".repeat(GAP));
            }
            let cell = &column.cells[at];
            let pad = " ".repeat(column.width - cell.chars().count());
            let (before, after) = if column.left { ("", &*pad) } else { (&*pad, "") };
            text.extend([before, cell, after]);
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
}

/// Replaces control characters, so that the text stays on one line.
fn line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Best, Cell, Column, Table};

    fn sample() -> Table {
        Table::new("Sample")
            .columns([
                Column::text("filter"),
                Column::decimals("lookups", "op/s", 0),
                Column::percent("wrong", 2),
            ])
            .row(["AQF".into(), 12_345_678.0.into(), 0.0012.into()])
            .row(["cuckoo\nfilter".into(), 9_876_543.0.into(), Cell::Empty])
            .highlight(1, Best::Greatest)
            .note("* the most")
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            sample().to_text(80),
            "\
Sample
filter             lookups   wrong
                    (op/s)
─────────────  ───────────  ──────
AQF            12,345,678*  0.12 %
cuckoo filter   9,876,543
* the most
"
        );
    }

    #[test]
    fn columns_that_do_not_fit_are_printed_below_the_others() {
        let text = sample().to_text(30);
        assert!(text.lines().all(|line| line.chars().count() <= 30), "{text}");
        assert_eq!(text.matches("cuckoo filter").count(), 2);
    }
}
