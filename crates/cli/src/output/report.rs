//! Reports: named facts that are printed as a table or as a JSON object.

use super::text::Text;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

/// Named facts, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Report {
    facts: Vec<(&'static str, Fact)>,
}

enum Fact {
    Count(u64),
    Bytes(u64),
    Bits(f64),
    Share(f64),
    Word(&'static str),
    Key(Vec<u8>),
    Yes(bool),
    Nothing,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn with(mut self, name: &'static str, fact: Fact) -> Self {
        self.facts.push((name, fact));
        self
    }

    pub(crate) fn count(self, name: &'static str, count: u64) -> Self {
        self.with(name, Fact::Count(count))
    }

    pub(crate) fn bytes(self, name: &'static str, bytes: u64) -> Self {
        self.with(name, Fact::Bytes(bytes))
    }

    /// Adds a number of bits, with one decimal.
    pub(crate) fn bits(self, name: &'static str, bits: f64) -> Self {
        self.with(name, Fact::Bits(bits))
    }

    /// Adds a number from 0 to 1. The table shows it in percent.
    pub(crate) fn share(self, name: &'static str, share: f64) -> Self {
        self.with(name, Fact::Share(share))
    }

    pub(crate) fn word(self, name: &'static str, word: &'static str) -> Self {
        self.with(name, Fact::Word(word))
    }

    pub(crate) fn key(self, name: &'static str, key: &[u8]) -> Self {
        self.with(name, Fact::Key(key.to_vec()))
    }

    pub(crate) fn yes(self, name: &'static str, yes: bool) -> Self {
        self.with(name, Fact::Yes(yes))
    }

    /// Adds a fact that has a name but no value.
    pub(crate) fn nothing(self, name: &'static str) -> Self {
        self.with(name, Fact::Nothing)
    }

    /// Returns one line per fact, with names and values in columns.
    pub(crate) fn table(&self) -> String {
        let rows = || self.facts.iter().map(|(name, fact)| (name, fact.text()));
        let names = rows().map(|(name, _)| name.len()).max().unwrap_or(0);
        let lines: Vec<_> = rows().map(|(name, text)| format!("{name:names$}  {text}\n")).collect();
        lines.concat()
    }
}

impl Fact {
    fn text(&self) -> String {
        match self {
            Self::Count(count) => grouped(*count),
            Self::Bytes(bytes) => sized(*bytes),
            Self::Bits(bits) => format!("{bits:.1}"),
            Self::Share(share) => percent(*share),
            Self::Word(word) => (*word).into(),
            Self::Key(key) => String::from_utf8_lossy(key).into_owned(),
            Self::Yes(yes) => (if *yes { "yes" } else { "no" }).into(),
            Self::Nothing => "none".into(),
        }
    }
}

impl Serialize for Report {
    /// Writes the facts as an object with names in snake case, such as `bits_per_key`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.facts.len()))?;
        for (name, fact) in &self.facts {
            map.serialize_entry(&name.replace([' ', '-'], "_"), fact)?;
        }
        map.end()
    }
}

impl Serialize for Fact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(number) | Self::Bytes(number) => serializer.serialize_u64(*number),
            Self::Bits(number) | Self::Share(number) => serializer.serialize_f64(*number),
            Self::Word(word) => serializer.serialize_str(word),
            Self::Key(key) => Text(key).serialize(serializer),
            Self::Yes(yes) => serializer.serialize_bool(*yes),
            Self::Nothing => serializer.serialize_none(),
        }
    }
}

/// Formats a number with digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of bytes in a suitable unit.
pub(crate) fn sized(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} bytes");
    }
    let unit = (bytes.ilog2() as usize / 10).min(UNITS.len());
    format!("{:.1} {}", bytes as f64 / f64::from(10 * unit as u32).exp2(), UNITS[unit - 1])
}

/// Formats a share in percent, with three significant digits.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 {
        return "0 %".into();
    }
    let decimals = (2.0 - percent.log10().floor()).clamp(0.0, 15.0) as usize;
    format!("{percent:.decimals$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_with_separators_and_units() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(grouped));
        assert_eq!(
            ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "16384.0 PiB"],
            [0, 1023, 1024, 3 << 19, u64::MAX].map(sized)
        );
        assert_eq!(
            ["0 %", "0.00123 %", "0.0984 %", "5.00 %", "90.5 %", "100 %"],
            [0.0, 0.000_012_3, 0.000_984, 0.05, 0.905, 1.0].map(percent)
        );
    }

    #[test]
    fn report_is_printed_as_table_and_as_json() {
        let report = Report::new().count("members", 3).bits("bits per key", 1.5).yes("ok", true);
        assert_eq!(report.table(), "members       3\nbits per key  1.5\nok            yes\n");
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(json, r#"{"members":3,"bits_per_key":1.5,"ok":true}"#);
    }
}
