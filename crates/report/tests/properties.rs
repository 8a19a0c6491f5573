//! Tests that any page is well-formed, and that nothing panics.

use proptest::prelude::*;
use proptest::{collection::vec, option};
use roxmltree::{Document, ParsingOptions};
use twiceshy_report::{
    Axis, Best, Block, Cell, Column, Format, Kind, Page, Phase, Plot, Point, Reference, Scale,
    Section, Series, Table, Verdict,
};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[<>&\"'`/!\\-\\[\\]\n\r\t\u{0}\u{b}\u{ffff} a]{0,20}",
        Just("]]><script>alert(1)</script><!--".to_owned()),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -10.0..10.0f64,
        2 => (-5..5i32).prop_map(f64::from),
        2 => any::<f64>(),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(0.0), Just(1e150), Just(1e-150)],
    ]
}

fn cell() -> impl Strategy<Value = Cell> {
    prop_oneof![Just(Cell::Empty), number().prop_map(Cell::Number), text().prop_map(Cell::Text)]
}

fn column() -> impl Strategy<Value = Column> {
    let format = prop_oneof![
        Just(Format::Text),
        any::<u8>().prop_map(Format::Decimals),
        any::<u8>().prop_map(Format::Significant),
        any::<u8>().prop_map(Format::Percent),
    ];
    (text(), text(), format).prop_map(|(name, unit, format)| Column::number(name, unit, format))
}

fn table() -> impl Strategy<Value = Table> {
    let rows = vec(vec(cell(), 0..5), 0..5);
    (text(), vec(column(), 0..5), rows, vec(text(), 0..2)).prop_map(
        |(title, columns, rows, notes)| {
            let table = Table { title, columns, rows, notes, highlights: vec![(9, 9)] };
            table.highlight(1, Best::Least).highlight(7, Best::Greatest)
        },
    )
}

fn axis() -> impl Strategy<Value = Axis> {
    let scale = prop_oneof![Just(Scale::Linear), Just(Scale::Log10), Just(Scale::Log2)];
    let flags = any::<(bool, bool, bool)>();
    (text(), text(), scale, flags, vec(text(), 0..3)).prop_map(
        |(label, unit, scale, (zero, si, whole), categories)| Axis {
            label,
            unit,
            scale,
            zero,
            si,
            whole,
            categories,
        },
    )
}

fn series() -> impl Strategy<Value = Series> {
    let point = (number(), number(), option::of((number(), number())))
        .prop_map(|(x, y, spread)| Point { x, y, spread });
    (text(), vec(point, 0..40)).prop_map(|(name, points)| Series { name, points })
}

fn plot() -> impl Strategy<Value = Plot> {
    let kind =
        prop_oneof![Just(Kind::Lines), Just(Kind::Steps), Just(Kind::Points), Just(Kind::Bars)];
    let reference = (text(), number()).prop_map(|(label, y)| Reference { label, y });
    let phase = (text(), number()).prop_map(|(label, from)| Phase { label, from });
    let lines = (vec(reference, 0..3), vec(phase, 0..3));
    (kind, (text(), text()), axis(), axis(), vec(series(), 0..12), lines).prop_map(
        |(kind, (title, note), x, y, series, (references, phases))| Plot {
            title,
            note,
            kind,
            x,
            y,
            series,
            references,
            phases,
        },
    )
}

fn page() -> impl Strategy<Value = Page> {
    let block = prop_oneof![
        text().prop_map(Block::Text),
        table().prop_map(Block::Table),
        plot().prop_map(Block::Plot)
    ];
    let section = (vec(text(), 6), vec(block, 0..4)).prop_map(|(texts, blocks)| Section {
        id: texts[0].clone(),
        title: texts[1].clone(),
        question: texts[2].clone(),
        paper: texts[3].clone(),
        seen: texts[4].clone(),
        verdict: (texts[5].len() % 2 == 0).then_some(Verdict::Open),
        command: texts[5].clone(),
        blocks,
    });
    (text(), text(), vec((text(), text()), 0..3), vec(section, 0..4))
        .prop_map(|(title, lead, facts, sections)| Page { title, lead, facts, sections })
}

/// Parses a page as XML. This fails if a tag is not closed.
fn parse(html: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(html, options).unwrap_or_else(|error| panic!("{error}:\n{html}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_page_is_well_formed(page in page()) {
        let html = page.to_html();
        let document = parse(&html);
        let elements = || document.descendants().filter(roxmltree::Node::is_element);
        prop_assert!(elements().all(|element| element.tag_name().name() != "script"));
        let mut ids: Vec<_> = elements().filter_map(|element| element.attribute("id")).collect();
        ids.sort_unstable();
        prop_assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", ids);
        for element in elements() {
            for attribute in element.attributes().filter(|attribute| attribute.name() == "d") {
                let path = attribute.value();
                prop_assert!(!path.contains("NaN") && !path.contains("inf"), "{}", path);
            }
        }
    }

    #[test]
    fn page_round_trips_through_json(page in page()) {
        let json = serde_json::to_string(&page).unwrap();
        let read: Page = serde_json::from_str(&json).unwrap();
        // Non-finite numbers are read back as NaN, so compare the JSON.
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), json);
        prop_assert!(parse(&read.to_html()).root().has_children());
    }

    #[test]
    fn text_tables_have_no_control_characters(table in table(), width in 0..200usize) {
        let text = table.to_text(width);
        prop_assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()));
        let rules = text.lines().filter(|line| line.starts_with('─')).count();
        prop_assert!(rules <= table.columns.len().max(5));
    }
}
