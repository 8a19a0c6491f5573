//! Pages and their parts.

use serde::{Deserialize, Serialize};

use crate::{Plot, Table};

/// A page of results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Page {
    /// The heading, also shown in the browser's tab.
    pub title: String,
    /// The introduction, in the format of [`Block::Text`].
    pub lead: String,
    /// Facts that the results depend on, such as the CPU and the commit. Each has a name and a
    /// value.
    pub facts: Vec<(String, String)>,
    /// The experiments. If there are three or more, the page has a table of contents.
    pub sections: Vec<Section>,
}

/// One experiment: a question, its answer, and the evidence. Empty texts are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Section {
    /// The fragment in the page's address: `page.html#id`.
    pub id: String,
    /// The heading.
    pub title: String,
    /// What the experiment asks.
    pub question: String,
    /// What the paper claims.
    pub paper: String,
    /// What was measured here.
    pub seen: String,
    /// How the measurement compares with the claim.
    pub verdict: Option<Verdict>,
    /// The command that reproduces the experiment.
    pub command: String,
    /// Plots, tables and text, in order.
    pub blocks: Vec<Block>,
}

/// The verdict on a paper's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The results confirm the claim.
    Confirmed,
    /// The results confirm a part of the claim.
    Partly,
    /// The results contradict the claim.
    Refuted,
    /// The results are inconclusive.
    Open,
}

impl Verdict {
    /// All verdicts, best first.
    pub(crate) const ALL: [Self; 4] = [Self::Confirmed, Self::Partly, Self::Refuted, Self::Open];

    /// Returns the verdict in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Partly => "partly",
            Self::Refuted => "not confirmed",
            Self::Open => "open",
        }
    }
}

/// A text, a table or a plot in a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Prose. Empty lines separate paragraphs, and code is between backticks.
    Text(String),
    /// A table.
    Table(Table),
    /// A plot.
    Plot(Plot),
}

impl Page {
    /// Creates an empty page.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Sets the introduction.
    #[must_use]
    pub fn lead(mut self, lead: impl Into<String>) -> Self {
        self.lead = lead.into();
        self
    }

    /// Adds a fact that the results depend on.
    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.push((name.into(), value.into()));
        self
    }

    /// Adds an experiment.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Renders the page as one HTML document. The document is also well-formed XML.
    pub fn to_html(&self) -> String {
        crate::html::page(self)
    }

    /// Iterates over all plots, in order.
    pub(crate) fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Plot(plot) => Some(plot),
            Block::Text(_) | Block::Table(_) => None,
        })
    }
}

impl Section {
    /// Creates a section without evidence.
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), ..Self::default() }
    }

    /// Sets what the experiment asks.
    #[must_use]
    pub fn question(mut self, question: impl Into<String>) -> Self {
        self.question = question.into();
        self
    }

    /// Sets what the paper claims.
    #[must_use]
    pub fn paper(mut self, claim: impl Into<String>) -> Self {
        self.paper = claim.into();
        self
    }

    /// Sets what was measured.
    #[must_use]
    pub fn seen(mut self, seen: impl Into<String>) -> Self {
        self.seen = seen.into();
        self
    }

    /// Sets the verdict on the claim.
    #[must_use]
    pub fn verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// Sets the command that reproduces the experiment.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    /// Adds evidence: a [`Plot`], a [`Table`] or prose.
    #[must_use]
    pub fn block(mut self, block: impl Into<Block>) -> Self {
        self.blocks.push(block.into());
        self
    }
}

impl From<Plot> for Block {
    fn from(plot: Plot) -> Self {
        Self::Plot(plot)
    }
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<&str> for Block {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Block {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
