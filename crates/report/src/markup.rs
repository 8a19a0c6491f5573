//! Writes markup that is both HTML and well-formed XML.

use std::fmt::{self, Display, Formatter, Write as _};

/// Markup under construction.
#[derive(Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// Appends markup. Any text in the markup must be [`Escaped`].
    pub(crate) fn put(&mut self, markup: fmt::Arguments<'_>) {
        self.0.write_fmt(markup).expect("writing to a string never fails");
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// Appends formatted markup.
macro_rules! put {
    ($out:expr, $($format:tt)*) => { $out.put(format_args!($($format)*)) };
}
pub(crate) use put;

/// Text, escaped for use between tags and in attributes.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\t' | '\n' => out.write_char(letter)?,
                // Replace characters that HTML or XML forbids.
                '\0'..='\x1f' | '\x7f'..='\u{9f}' => out.write_char('\u{fffd}')?,
                _ if (letter as u32) & 0xfffe == 0xfffe => out.write_char('\u{fffd}')?,
                '\u{fdd0}'..='\u{fdef}' => out.write_char('\u{fffd}')?,
                _ => out.write_char(letter)?,
            }
        }
        Ok(())
    }
}

/// Writes prose. Empty lines in it separate paragraphs, and code is between backticks.
pub(crate) fn prose(out: &mut Markup, class: &str, text: &str) {
    let text = text.replace("\r\n", "\n");
    for paragraph in text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        put!(out, "<p class=\"{class}\">");
        inline(out, paragraph);
        put!(out, "</p>\n");
    }
}

/// Writes one paragraph of prose.
pub(crate) fn inline(out: &mut Markup, text: &str) {
    let mut pieces = text.split('`').peekable();
    let mut code = false;
    while let Some(piece) = pieces.next() {
        match (code, pieces.peek().is_some()) {
            (true, true) => put!(out, "<code>{}</code>", Escaped(piece)),
            // An unpaired backtick stays as it is.
            (true, false) => put!(out, "`{}", Escaped(piece)),
            (false, _) => put!(out, "{}", Escaped(piece)),
        }
        code = !code;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut out = Markup::default();
        inline(&mut out, text);
        out.finish()
    }

    #[test]
    fn text_between_backticks_is_code() {
        assert_eq!(written("run `a < b` now"), "run <code>a &lt; b</code> now");
        assert_eq!(written("one ` alone"), "one ` alone");
        assert_eq!(written("`a` and ` alone"), "<code>a</code> and ` alone");
    }

    #[test]
    fn characters_not_allowed_in_markup_are_replaced() {
        assert_eq!(Escaped("a\0b\u{ffff}\"'").to_string(), "a\u{fffd}b\u{fffd}&quot;'");
    }
}
