//! Tables and their cells.

use serde::{Deserialize, Serialize};

use crate::number;

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    /// The title.
    pub title: String,
    /// The columns. If a row has more cells, they are shown in columns without a name.
    pub columns: Vec<Column>,
    /// The rows. Short rows are filled with empty cells.
    pub rows: Vec<Vec<Cell>>,
    /// Notes that are shown below the table.
    pub notes: Vec<String>,
    /// The row and the column of each highlighted cell.
    pub highlights: Vec<(usize, usize)>,
}

/// A column and its number format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The unit. It may be empty.
    pub unit: String,
    /// The number format.
    pub format: Format,
}

/// The number format of a column. Numbers are right-aligned, text is left-aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Text. Numbers in such a column have six digits.
    #[default]
    Text,
    /// A number with a fixed number of decimals.
    Decimals(u8),
    /// A number with a minimum number of significant digits, or with a power of ten if that is
    /// shorter.
    Significant(u8),
    /// A fraction, shown in percent with a fixed number of decimals.
    Percent(u8),
}

/// The content of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// No value.
    #[default]
    Empty,
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

/// Which number in a column is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// The smallest.
    Least,
    /// The largest.
    Greatest,
}

impl Table {
    /// Creates an empty table.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds columns.
    #[must_use]
    pub fn columns(mut self, columns: impl IntoIterator<Item = Column>) -> Self {
        self.columns.extend(columns);
        self
    }

    /// Adds a row.
    #[must_use]
    pub fn row(mut self, cells: impl IntoIterator<Item = Cell>) -> Self {
        self.rows.push(cells.into_iter().collect());
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Highlights the best number in a column, and all numbers that equal it.
    #[must_use]
    pub fn highlight(mut self, column: usize, best: Best) -> Self {
        let number = |row: &Vec<Cell>| match row.get(column) {
            Some(Cell::Number(number)) if !number.is_nan() => Some(*number),
            _ => None,
        };
        let numbers = self.rows.iter().filter_map(number);
        let extreme = match best {
            Best::Least => numbers.reduce(f64::min),
            Best::Greatest => numbers.reduce(f64::max),
        };
        let rows = self.rows.iter().enumerate();
        let found = rows.filter(|(_, row)| extreme.is_some() && number(row) == extreme);
        self.highlights.extend(found.map(|(row, _)| (row, column)));
        self
    }

    /// Returns the number of columns, including those without a name.
    pub(crate) fn width(&self) -> usize {
        self.rows.iter().map(Vec::len).fold(self.columns.len(), usize::max)
    }

    /// Returns a column. Beyond the last column, returns a column without a name.
    pub(crate) fn column(&self, column: usize) -> Column {
        self.columns.get(column).cloned().unwrap_or_default()
    }

    /// Returns the text of a cell.
    pub(crate) fn shown(&self, row: usize, column: usize) -> String {
        let format = self.columns.get(column).map_or(Format::Text, |column| column.format);
        match self.rows[row].get(column) {
            None | Some(Cell::Empty) => String::new(),
            Some(Cell::Text(text)) => text.clone(),
            Some(Cell::Number(number)) => format.write(*number),
        }
    }
}

impl Column {
    /// Creates a column of text.
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Creates a column of numbers.
    pub fn number(name: impl Into<String>, unit: impl Into<String>, format: Format) -> Self {
        Self { name: name.into(), unit: unit.into(), format }
    }

    /// Creates a column of numbers with `decimals` decimals.
    pub fn decimals(name: impl Into<String>, unit: impl Into<String>, decimals: u8) -> Self {
        Self::number(name, unit, Format::Decimals(decimals))
    }

    /// Creates a column of fractions, shown in percent.
    pub fn percent(name: impl Into<String>, decimals: u8) -> Self {
        Self::number(name, "", Format::Percent(decimals))
    }
}

impl Format {
    fn write(self, number: f64) -> String {
        match self {
            Self::Text => number::short(number, 6),
            Self::Decimals(decimals) => number::decimals(number, decimals.into()),
            Self::Significant(digits) => number::significant(number, digits.into()),
            Self::Percent(decimals) => {
                format!("{} %", number::decimals(number * 100.0, decimals.into()))
            }
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::Empty, Into::into)
    }
}
