//! Renders results as one self-contained HTML file, without scripts, fonts or other external
//! resources.
//!
//! A [`Page`] is plain data that can be stored as JSON and rendered later. [`Page::to_html`]
//! returns markup that is both HTML and well-formed XML for any strings. Plots are SVG, drawn once
//! for wide and once for narrow screens, with light and dark colours. [`Table::to_text`] renders a
//! table for the terminal.
//!
//! ```
//! use twiceshy_report::{Axis, Block, Column, Page, Plot, Section, Series, Table};
//!
//! let curve = Series::new("AQF").points([(0.1, 9.1e6), (0.5, 8.7e6), (0.9, 7.2e6)]);
//! let plot = Plot::lines(
//!     "Inserts while the filter fills",
//!     Axis::linear("load factor", ""),
//!     Axis::linear("throughput", "op/s").si().from_zero(),
//! );
//! let table = Table::new("Space")
//!     .columns([Column::text("filter"), Column::decimals("space", "bits/key", 2)])
//!     .row(["AQF".into(), 12.23.into()]);
//! assert_eq!(table.to_text(80), "\
//! Space
//! filter       space
//!         (bits/key)
//! ──────  ──────────
//! AQF          12.23
//! ");
//!
//! let section = Section::new("inserts", "Inserts").block(plot.series(curve)).block(table);
//! let html = Page::new("Results").section(section).to_html();
//! assert!(html.starts_with("<!DOCTYPE html>"));
//! ```

#![forbid(unsafe_code)]

mod html;
mod markdown;
mod markup;
mod number;
mod page;
mod plot;
mod svg;
mod table;
mod text;
mod ticks;

pub use page::{Block, Page, Section, Verdict};
pub use plot::{Axis, Kind, Phase, Plot, Point, Reference, Scale, Series};
pub use table::{Best, Cell, Column, Format, Table};
