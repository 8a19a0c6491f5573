//! Renders tables as HTML. A table that is wider than the page gets its own scroll bar.

use crate::markup::{Escaped, Markup, inline, put};
use crate::{Format, Table};

pub(super) fn table(out: &mut Markup, table: &Table) {
    put!(out, "<figure class=\"table\">\n");
    if !table.title.is_empty() {
        put!(out, "<figcaption>");
        inline(out, &table.title);
        put!(out, "</figcaption>\n");
    }
    cells(out, table);
    for note in &table.notes {
        put!(out, "<p class=\"note\">");
        inline(out, note);
        put!(out, "</p>\n");
    }
    put!(out, "</figure>\n");
}

/// Writes the table without its title and notes.
pub(super) fn cells(out: &mut Markup, table: &Table) {
    let name = if table.title.is_empty() { "Table" } else { &table.title };
    put!(
        out,
        "<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n<table>\n<thead><tr>",
        Escaped(name)
    );
    let classes: Vec<_> = (0..table.width())
        .map(|column| if table.column(column).format == Format::Text { "t" } else { "n" })
        .collect();
    for (column, class) in classes.iter().enumerate() {
        let column = table.column(column);
        put!(out, "<th scope=\"col\" class=\"{class}\">{}", Escaped(&column.name));
        if !column.unit.is_empty() {
            put!(out, " <span class=\"unit\">{}</span>", Escaped(&column.unit));
        }
        put!(out, "</th>");
    }
    put!(out, "</tr></thead>\n<tbody>\n");
    for row in 0..table.rows.len() {
        put!(out, "<tr>");
        for (column, class) in classes.iter().enumerate() {
            let text = table.shown(row, column);
            let (open, close) = if table.highlights.contains(&(row, column)) {
                ("<strong>", "</strong>")
            } else {
                ("", "")
            };
            put!(out, "<td class=\"{class}\">{open}{}{close}</td>", Escaped(&text));
        }
        put!(out, "</tr>\n");
    }
    put!(out, "</tbody>\n</table>\n</div>\n");
}
