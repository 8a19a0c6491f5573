//! Renders pages as HTML.

mod figure;
mod table;

use std::collections::HashSet;

use crate::markup::{Escaped, Markup, inline, prose, put};
use crate::svg::Looks;
use crate::{Block, Page, Section, Verdict};

const STYLE: &str = include_str!("style.css");

/// Minimum number of sections for which a page gets a table of contents.
const CONTENTS: usize = 3;

/// The content security policy. It makes browsers refuse to load anything from outside the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub(crate) fn page(page: &Page) -> String {
    let mut out = Markup::default();
    let ids = ids(&page.sections);
    let has_contents = page.sections.len() >= CONTENTS;
    put!(
        out,
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body{}>\n",
        Escaped(&page.title),
        if has_contents { " class=\"long\"" } else { "" }
    );
    header(&mut out, page);
    if has_contents {
        contents(&mut out, page, &ids);
    }
    put!(out, "<main>\n");
    let looks = Looks::of(page);
    for (section, id) in page.sections.iter().zip(&ids) {
        experiment(&mut out, section, id, &looks);
    }
    put!(out, "</main>\n</body>\n</html>\n");
    out.finish()
}

fn header(out: &mut Markup, page: &Page) {
    put!(out, "<header>\n<h1>{}</h1>\n", Escaped(&page.title));
    prose(out, "lead", &page.lead);
    if !page.facts.is_empty() {
        put!(out, "<dl class=\"facts\">\n");
        for (name, value) in &page.facts {
            put!(out, "<div><dt>{}</dt><dd>", Escaped(name));
            inline(out, value);
            put!(out, "</dd></div>\n");
        }
        put!(out, "</dl>\n");
    }
    put!(out, "</header>\n");
}

fn contents(out: &mut Markup, page: &Page, ids: &[String]) {
    put!(out, "<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n<ol>\n");
    for (section, id) in page.sections.iter().zip(ids) {
        put!(out, "<li><a href=\"#{id}\">{}</a>", Escaped(&section.title));
        badge(out, section.verdict, false);
        put!(out, "</li>\n");
    }
    put!(out, "</ol>\n");
    if page.sections.iter().any(|section| section.verdict.is_some()) {
        legend(out);
    }
    put!(out, "</nav>\n");
}

/// Writes an explanation of the signs that stand for verdicts.
fn legend(out: &mut Markup) {
    put!(out, "<p class=\"note\">");
    for (number, verdict) in Verdict::ALL.into_iter().enumerate() {
        let (class, sign) = sign(verdict);
        let apart = if number == 0 { "" } else { "; " };
        put!(out, "{apart}<span class=\"sign {class}\">{sign}</span> {}", verdict.word());
        if verdict == Verdict::Open {
            put!(out, ": too short or too noisy to judge");
        }
    }
    put!(out, "</p>\n");
}

fn experiment(out: &mut Markup, section: &Section, id: &str, looks: &Looks<'_>) {
    put!(out, "<section id=\"{id}\">\n<h2>{}", Escaped(&section.title));
    badge(out, section.verdict, true);
    put!(out, "</h2>\n");
    prose(out, "question", &section.question);
    let answers = [("The paper claims", &section.paper), ("Measured here", &section.seen)];
    let answers = answers.into_iter().filter(|(_, text)| !text.trim().is_empty());
    if answers.clone().next().is_some() {
        put!(out, "<div class=\"answers\">\n");
        for (name, text) in answers {
            put!(out, "<div>\n<h3>{name}</h3>\n");
            prose(out, "answer", text);
            put!(out, "</div>\n");
        }
        put!(out, "</div>\n");
    }
    for block in &section.blocks {
        match block {
            Block::Text(text) => prose(out, "text", text),
            Block::Table(table) => table::table(out, table),
            Block::Plot(plot) => figure::figure(out, plot, looks),
        }
    }
    if !section.command.trim().is_empty() {
        put!(
            out,
            "<div class=\"reproduce\">\n<h3>Reproduce</h3>\n<pre tabindex=\"0\"><code>{}</code></pre>\n</div>\n",
            Escaped(section.command.trim())
        );
    }
    put!(out, "</section>\n");
}

/// Returns a verdict's CSS class and sign.
fn sign(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Confirmed => ("good", "✓"),
        Verdict::Partly => ("fair", "≈"),
        Verdict::Refuted => ("bad", "✗"),
        Verdict::Open => ("fair", "?"),
    }
}

/// Writes the sign of a verdict, and also its name if `in_words` is true.
fn badge(out: &mut Markup, verdict: Option<Verdict>, in_words: bool) {
    let Some(verdict) = verdict else { return };
    let (class, sign) = sign(verdict);
    let word = verdict.word();
    if in_words {
        put!(out, " <span class=\"badge {class}\">{sign} {word}</span>");
    } else {
        put!(out, " <span class=\"sign {class}\" role=\"img\" aria-label=\"{word}\" ");
        put!(out, "title=\"{word}\">{sign}</span>");
    }
}

/// Returns a unique name for each section. The names are valid in an address.
fn ids(sections: &[Section]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut ids = Vec::new();
    for section in sections {
        let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let words: String = section.id.to_ascii_lowercase().chars().map(letter).collect();
        let words: Vec<_> = words.split('-').filter(|word| !word.is_empty()).collect();
        let name = if words.is_empty() { "section".into() } else { words.join("-") };
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let id = names.find(|id| !taken.contains(id)).expect("numbers never run out");
        taken.insert(id.clone());
        ids.push(id);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_contents_explains_the_signs_of_verdicts() {
        let section = |id| Section::new(id, "").verdict(Verdict::Open);
        let page = ["a", "b", "c"].map(section).into_iter().fold(Page::new(""), Page::section);
        assert!(page.to_html().contains("?</span> open: too short or too noisy to judge"));
    }

    #[test]
    fn section_ids_are_valid_and_unique() {
        let sections = ["Fig. 3", "fig-3", "", "é", "fig-3-2"].map(|id| Section::new(id, ""));
        assert_eq!(ids(&sections), ["fig-3", "fig-3-2", "section", "section-2", "fig-3-2-2"]);
    }
}
