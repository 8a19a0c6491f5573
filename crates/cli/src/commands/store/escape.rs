//! Escapes and unescapes bytes, so that one line of text can represent any bytes.
//!
//! A backslash, a tab, a line feed and a carriage return become `\\`, `\t`, `\n` and `\r`. Other
//! characters that are not plain, and bytes that are not UTF-8, become one `\xNN` per byte.

use std::io::Write as _;

/// Returns whether a character stands for itself. Control characters, line breaks, the byte order
/// mark and the backslash do not.
pub(super) fn is_plain(character: char) -> bool {
    !character.is_control() && !matches!(character, '\\' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Appends bytes to a line, escaped. Also escapes the character `reserved`, even if it is plain.
pub(super) fn escape(bytes: &[u8], reserved: Option<char>, line: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut utf8 = [0; 4];
            let utf8 = character.encode_utf8(&mut utf8).as_bytes();
            match character {
                '\\' => line.extend(br"\\"),
                '\t' => line.extend(br"\t"),
                '\n' => line.extend(br"\n"),
                '\r' => line.extend(br"\r"),
                _ if is_plain(character) && Some(character) != reserved => line.extend(utf8),
                _ => escape_bytes(utf8, line),
            }
        }
        escape_bytes(chunk.invalid(), line);
    }
}

fn escape_bytes(bytes: &[u8], line: &mut Vec<u8>) {
    for byte in bytes {
        // Writing to a vector cannot fail.
        let _ = write!(line, "\\x{byte:02x}");
    }
}

/// The error for text that begins like an escape sequence but isn't a known one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownEscape(pub(super) String);

/// Unescapes the front of `rest`, until `is_end` is true for the remaining text. Removes the
/// unescaped text from `rest`, and returns its bytes.
pub(super) fn unescape(
    rest: &mut &[u8],
    is_end: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, UnknownEscape> {
    let mut bytes = Vec::new();
    while !is_end(rest) {
        let Some((byte, after)) = first(rest) else { return Err(unknown(rest)) };
        bytes.push(byte);
        *rest = after;
    }
    Ok(bytes)
}

/// Unescapes one byte, and returns it with the remaining text.
fn first(text: &[u8]) -> Option<(u8, &[u8])> {
    Some(match text {
        [b'\\', b'\\', rest @ ..] => (b'\\', rest),
        [b'\\', b't', rest @ ..] => (b'\t', rest),
        [b'\\', b'n', rest @ ..] => (b'\n', rest),
        [b'\\', b'r', rest @ ..] => (b'\r', rest),
        [b'\\', b'x', high, low, rest @ ..] => (digit(*high)? << 4 | digit(*low)?, rest),
        [b'\\', ..] | [] => return None,
        [byte, rest @ ..] => (*byte, rest),
    })
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Returns the error for a text that begins with an unknown escape.
fn unknown(text: &[u8]) -> UnknownEscape {
    let length = if text.starts_with(br"\x") { 4 } else { 2 };
    // A character has at most 4 bytes, so these bytes contain at least `length` characters.
    let start = String::from_utf8_lossy(&text[..text.len().min(4 * length)]);
    UnknownEscape(start.chars().take(length).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(bytes: &[u8], reserved: Option<char>) -> String {
        let mut line = Vec::new();
        escape(bytes, reserved, &mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn special_characters_and_bytes_that_are_not_utf8_are_escaped() {
        assert_eq!(escaped("a b~é→😀".as_bytes(), None), "a b~é→😀");
        assert_eq!(escaped(b"\\ \t \n \r", None), r"\\ \t \n \r");
        assert_eq!(escaped(b"\0\x1f\x7f\xff", None), r"\x00\x1f\x7f\xff");
        assert_eq!(escaped("\u{85}\u{2028}\u{feff}".as_bytes(), None), {
            r"\xc2\x85\xe2\x80\xa8\xef\xbb\xbf"
        });
        assert_eq!(escaped("a,→".as_bytes(), Some(',')), r"a\x2c→");
        assert_eq!(escaped("a,→".as_bytes(), Some('→')), r"a,\xe2\x86\x92");
    }

    #[test]
    fn error_names_the_unknown_escape_sequence() {
        let unescaped = |text: &str| unescape(&mut text.as_bytes(), <[u8]>::is_empty);
        assert_eq!(unescaped(r"a\\\t\n\r\xFf\x00").unwrap(), b"a\\\t\n\r\xff\0");
        for (text, escape) in [
            (r"a\qb", r"\q"),
            (r"a\", r"\"),
            (r"\x", r"\x"),
            (r"\x4", r"\x4"),
            (r"\x4g5", r"\x4g"),
            (r"\é5", r"\é"),
            (r"\X41", r"\X"),
        ] {
            assert_eq!(unescaped(text), Err(UnknownEscape(escape.into())), "{text}");
        }
    }
}
