//! Tables as Markdown.

use crate::{Format, Table};

impl Table {
    /// Returns the table as Markdown: the title as a paragraph, the cells, and the notes.
    /// Highlighted cells are bold.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        if !self.title.is_empty() {
            out += &(line(&self.title) + "\n\n");
        }
        let columns: Vec<_> = (0..self.width()).map(|column| self.column(column)).collect();
        let names = columns.iter().map(|column| {
            let unit = Some(&column.unit).filter(|unit| !unit.is_empty());
            unit.map_or_else(
                || cell(&column.name),
                |unit| cell(&format!("{}, {unit}", column.name)),
            )
        });
        out += &row(names);
        out += &row(columns.iter().map(|column| {
            let rule = if column.format == Format::Text { "---" } else { "---:" };
            rule.to_owned()
        }));
        for at in 0..self.rows.len() {
            out += &row((0..columns.len()).map(|column| {
                let shown = cell(&self.shown(at, column));
                let is_bold = self.highlights.contains(&(at, column)) && !shown.is_empty();
                if is_bold { format!("**{shown}**") } else { shown }
            }));
        }
        for note in &self.notes {
            out.extend(["\n", &line(note), "\n"]);
        }
        out
    }
}

/// Joins cells to a row.
fn row(cells: impl Iterator<Item = String>) -> String {
    let mut out = String::from("|");
    for cell in cells {
        out.extend([if cell.is_empty() { "" } else { " " }, &cell, " |"]);
    }
    out.push('\n');
    out
}

/// Writes text so that it stays in its cell.
fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}

/// Writes text on one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use crate::{Best, Cell, Column, Table};

    #[test]
    fn markdown_has_one_line_per_table_row() {
        let table = Table::new("Sample")
            .columns([Column::text("filter"), Column::decimals("lookups", "op/s", 0)])
            .row(["AQF".into(), 12_345_678.0.into()])
            .row(["a|b\nc".into(), Cell::Empty])
            .highlight(1, Best::Greatest)
            .note("A note");
        assert_eq!(
            table.to_markdown(),
            "\
Sample

| filter | lookups, op/s |
| --- | ---: |
| AQF | **12,345,678** |
| a\\|b c | |

A note
"
        );
    }
}
