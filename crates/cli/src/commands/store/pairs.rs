//! Reads pairs of a key and a value from lines.

use super::form::Form;
use super::open::Store;
use crate::input::{Block, Lines};
use anyhow::{Context as _, Error, Result, anyhow};

pub(super) type Pair = (Vec<u8>, Vec<u8>);

impl Form {
    /// Returns the pairs of a block, with an error for each line that a store cannot take.
    fn pairs(&self, block: &Block, name: &str) -> impl Iterator<Item = Result<Pair>> {
        block.numbered().map(move |(number, line)| {
            let (key, value) =
                self.split(line).map_err(|fault| anyhow!("{name}: line {number} {fault}"))?;
            Store::check_pair(&key, &value).with_context(|| format!("{name}: line {number}"))?;
            Ok((key.into_owned(), value.into_owned()))
        })
    }

    /// Checks that a store can take the pairs of all lines.
    pub(super) fn check(&self, mut lines: Lines) -> Result<()> {
        while let Some(block) = lines.next_block()? {
            self.pairs(&block, lines.name()).try_for_each(|pair| pair.map(drop))?;
        }
        Ok(())
    }
}

/// Iterates over the pairs of a source, up to the first bad line.
pub(super) struct Pairs<'a> {
    lines: Lines,
    form: &'a Form,
    block: std::vec::IntoIter<Pair>,
    /// What is wrong with the bad line.
    pub(super) error: Option<Error>,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(lines: Lines, form: &'a Form) -> Self {
        Self { lines, form, block: Vec::new().into_iter(), error: None }
    }

    /// Returns the pairs of the next block, up to the first error.
    fn next_pairs(&mut self) -> Result<Option<Vec<Pair>>> {
        let Some(block) = self.lines.next_block()? else { return Ok(None) };
        let pairs = self.form.pairs(&block, self.lines.name());
        Ok(Some(
            pairs.map_while(|pair| pair.map_err(|error| self.error = Some(error)).ok()).collect(),
        ))
    }
}

impl Iterator for Pairs<'_> {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        loop {
            if let Some(pair) = self.block.next() {
                return Some(pair);
            }
            if self.error.is_some() {
                return None;
            }
            match self.next_pairs() {
                Ok(pairs) => self.block = pairs?.into_iter(),
                Err(error) => self.error = Some(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::LineWriter;
    use super::*;
    use crate::input::Encoding;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use std::io::Cursor;

    /// Separators that clash with escapes, or with themselves.
    const SEPARATORS: [&str; 16] = [
        "\t", "\t\t", "\t|", ",", ":", "::", ":;:", " ", "x", "n", "t", "0", "5c", "aab", "é", "→;",
    ];

    /// Separators that look like something special in a file, such as a line ending or the start of
    /// a compressed file. They are for lines without escapes.
    const SPECIAL_SEPARATORS: [&str; 8] =
        ["\\", "\r", ";\r", "\r;", "\u{feff}", "*M\x18", "P*M\x18", "\u{85}"];

    /// Parts of keys and values: complete and incomplete separators, escapes, characters, line
    /// endings, and beginnings of compressed files.
    const PARTS: [&[u8]; 24] = [
        b":",
        b";",
        b"\t",
        b"a",
        b"b",
        b"x",
        b"n",
        b"5",
        b"c",
        b"\\",
        b"\\x",
        b"\\n",
        b"\n",
        b"\r",
        b" ",
        b"\0",
        b"\xc3",
        b"\xa9",
        b"\xe2\x86",
        b"\xef\xbb",
        b"\xbf",
        b"\x1f\x8b",
        b"P*M",
        b"\x18",
    ];

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            8 => select(&PARTS[..]).prop_map(<[u8]>::to_vec),
            1 => select(&SEPARATORS[..]).prop_map(|text| text.as_bytes().to_vec()),
            1 => select(&SPECIAL_SEPARATORS[..]).prop_map(|text| text.as_bytes().to_vec()),
            2 => any::<u8>().prop_map(|byte| vec![byte]),
        ];
        prop_oneof![
            3 => vec(part, 0..6).prop_map(|parts| parts.concat()),
            1 => vec(any::<u8>(), 0..40),
        ]
    }

    fn separator(separators: Vec<&'static str>) -> impl Strategy<Value = Option<String>> {
        prop_oneof![4 => select(separators).prop_map(|text| Some(text.into())), 1 => Just(None)]
    }

    /// Reads all pairs of a file, as `store import` does.
    fn read(file: Vec<u8>, form: &Form) -> Result<Vec<Pair>> {
        let lines = Lines::new("test".into(), Cursor::new(file), Encoding::Utf8, None)?;
        let mut pairs = Pairs::new(lines, form);
        let all = pairs.by_ref().collect();
        pairs.error.map_or(Ok(all), Err)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn all_pairs_can_be_read_back_from_escaped_lines(
            mut pairs in vec((bytes(), bytes()), 0..5),
            separator in separator(SEPARATORS.to_vec()),
        ) {
            if separator.is_none() {
                for (_, value) in &mut pairs {
                    value.clear();
                }
            }
            let form = Form::new(separator, true).unwrap();
            let mut lines = LineWriter::new(&form);
            let mut file = Vec::new();
            for (key, value) in &pairs {
                file.extend(lines.line(key, value).unwrap());
            }
            let text = String::from_utf8(file.clone()).unwrap();
            prop_assert!(text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
            prop_assert_eq!(&read(file, &form).unwrap(), &pairs);
            let windows = text.replace('\n', "\r\n").into_bytes();
            prop_assert_eq!(&read(windows, &form).unwrap(), &pairs);
        }

        /// A pair is refused if and only if import would read something else.
        #[test]
        fn pair_is_refused_if_and_only_if_import_would_misread_it(
            key in bytes(),
            value in bytes(),
            separator in separator([&SEPARATORS[..], &SPECIAL_SEPARATORS].concat()),
        ) {
            let (value, between) = match &separator {
                Some(separator) => (value, separator.clone()),
                None => (Vec::new(), String::new()),
            };
            let form = Form::new(separator, false).unwrap();
            let file = [&key[..], between.as_bytes(), &value, b"\n"].concat();
            let expected = vec![(key.clone(), value.clone())];
            let is_read_back = read(file.clone(), &form).is_ok_and(|pairs| pairs == expected);
            match LineWriter::new(&form).line(&key, &value) {
                Ok(line) => prop_assert!(is_read_back && line == file),
                Err(error) => prop_assert!(!is_read_back, "{error}"),
            }
        }
    }
}
