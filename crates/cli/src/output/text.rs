//! Writes keys and values as JSON.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use std::fmt::Write as _;

/// Bytes to be written as JSON. UTF-8 becomes a string. Other bytes become an object with
/// hexadecimal digits.
pub(super) struct Text<'a>(pub(super) &'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let mut hex = String::with_capacity(2 * self.0.len());
        for byte in self.0 {
            let _ = write!(hex, "{byte:02x}");
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("hex", &hex)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf8_become_hexadecimal() {
        let json = |bytes| serde_json::to_string(&Text(bytes)).unwrap();
        assert_eq!(json("é\"".as_bytes()), r#""é\"""#);
        assert_eq!(json(b"\xff\x0a"), r#"{"hex":"ff0a"}"#);
    }
}
