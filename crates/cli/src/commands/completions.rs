//! `twiceshy completions`.

use crate::cli::Cli;
use crate::exit::Answer;
use crate::session::Session;
use anyhow::Result;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

#[derive(Args)]
#[command(after_help = "\
Examples:
  twiceshy completions bash > ~/.local/share/bash-completion/completions/twiceshy
  twiceshy completions zsh > ~/.zfunc/_twiceshy
  twiceshy completions fish > ~/.config/fish/completions/twiceshy.fish")]
pub(crate) struct Completions {
    /// The shell to print completions for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "twiceshy", &mut script);
        session.output.bytes(&script)?;
        Ok(Answer::Yes)
    }
}
