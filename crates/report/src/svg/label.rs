//! Writes labels and estimates their size.

use crate::markup::{Escaped, Markup, put};

/// Returns the estimated maximum width of a text. The exact width depends on the font.
pub(super) fn width(text: &str, font: f64) -> f64 {
    text.chars().count() as f64 * font * 0.6
}

/// Returns the width of the widest text.
pub(super) fn widest<'a>(texts: impl IntoIterator<Item = &'a str>, font: f64) -> f64 {
    texts.into_iter().map(|text| width(text, font)).fold(0.0, f64::max)
}

/// Shortens a text that is wider than `room`.
pub(super) fn cut(text: &str, font: f64, room: f64) -> String {
    let letters = (room / (font * 0.6)) as usize;
    if text.chars().count() <= letters {
        return text.into();
    }
    text.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}

/// Writes a text. `anchor` says which part of the text is at `x`.
pub(super) fn write(out: &mut Markup, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
    put!(
        out,
        "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n",
        Escaped(text)
    );
}

/// Breaks a text into lines that are at most `room` wide. Shortens words that are wider.
pub(super) fn wrap(text: &str, font: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, font) + width(word, font) + font * 0.6 <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(cut(word, font, room)),
        }
    }
    lines
}

/// Returns the height of some lines.
pub(super) fn height(lines: &[String], font: f64) -> f64 {
    lines.len() as f64 * font * 1.2
}

/// Writes the lines of an axis title, the first one at `y`.
pub(super) fn title(
    out: &mut Markup,
    anchor: &str,
    (x, y): (f64, f64),
    font: f64,
    lines: &[String],
) {
    for (index, line) in lines.iter().enumerate() {
        write(out, "name", anchor, (x, y + height(&lines[..index], font)), line);
    }
}

/// Moves places as little as possible, so that the gap between neighbours is at least `gap`. The
/// places keep their order and stay between `from` and `to`. There must be enough room.
pub(super) fn spread(places: &mut [f64], gap: f64, from: f64, to: f64) {
    let mut least = from;
    for place in places.iter_mut() {
        *place = place.max(least);
        least = *place + gap;
    }
    let mut most = to;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_moved_apart_within_bounds() {
        let mut places = [0.0, 1.0, 50.0, 99.0, 99.0];
        spread(&mut places, 10.0, 0.0, 100.0);
        assert_eq!(places.map(|place| place as i32), [0, 10, 50, 90, 100]);
    }

    #[test]
    fn text_wraps_between_words() {
        assert_eq!(wrap("a bc  defg hijklmnop", 10.0, 36.0), ["a bc", "defg", "hijkl…"]);
        assert!(wrap(" ", 10.0, 36.0).is_empty());
    }

    #[test]
    fn long_texts_are_shortened() {
        assert_eq!(cut("abcdef", 10.0, 36.0), "abcdef");
        assert_eq!(cut("abcdefg", 10.0, 36.0), "abcde…");
        assert_eq!(cut("abcdefg", 10.0, 0.0), "…");
    }
}
