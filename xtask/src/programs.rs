//! Programs of this workspace. They are built with the profile of tests, which optimises and keeps
//! all assertions.

use crate::shell::{Done, Screen, command, root};
use std::env::consts::EXE_SUFFIX;
use std::process::Command;

/// A binary or an example of a package.
pub(crate) struct Program {
    package: &'static str,
    /// The option of cargo that selects the program: `--bin` or `--example`.
    kind: &'static str,
    name: &'static str,
}

pub(crate) const COMMAND_LINE: Program =
    Program { package: "twiceshy-cli", kind: "--bin", name: "twiceshy" };
pub(crate) const DANCE: Program = Program { package: "twiceshy", kind: "--example", name: "dance" };
pub(crate) const GALLERY: Program =
    Program { package: "twiceshy-report", kind: "--example", name: "gallery" };
pub(crate) const TORTURE: Program =
    Program { package: "twiceshy-torture", kind: "--bin", name: "twiceshy-torture" };

impl Program {
    /// Builds only this program. After `cargo test`, use the program that is already built:
    /// building it alone would compile some dependencies again, because the tests turn on more of
    /// their features.
    pub(crate) fn build(&self, screen: &Screen) -> Done {
        let mut build = command(&["cargo", "build", "--profile", "test", "--all-features"]);
        build.args(["--package", self.package, self.kind, self.name]);
        screen.run(build)
    }

    /// Returns a command that runs the program as it was last built.
    pub(crate) fn command(&self) -> Command {
        let folder =
            if self.kind == "--example" { "target/debug/examples" } else { "target/debug" };
        let path = root().join(folder).join(format!("{}{EXE_SUFFIX}", self.name));
        command(&[&path.to_string_lossy()])
    }
}
