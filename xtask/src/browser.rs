//! `cargo xtask browser`: pages as a browser shows them.
//!
//! A page is put into a frame of another one, whose script (`browser.js`) looks at it, and
//! complains to the console; what the page itself makes the browser say is a complaint, too.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{self, Done, command, install, output, root};

/// A phone and a desktop.
const WIDTHS: [u32; 2] = [390, 1280];
const SCHEMES: [&str; 2] = ["light", "dark"];
/// How much of a page is in its picture.
const HEIGHT: u32 = 8000;
/// What the script says at its end.
const DONE: &str = "looked at";

const SCRIPT: &str = include_str!("browser.js");

pub(crate) fn run(pages: &[&str]) -> Done {
    install("chromium", &["chromium", "--version"])?;
    let folder = root().join("target/browser");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if pages.is_empty() {
        return check(&gallery(&folder)?, &folder).and_then(|()| check(&demo(&folder)?, &folder));
    }
    pages.iter().try_for_each(|page| check(Path::new(page), &folder))
}

/// The report's sample page, with all that a page can have.
fn gallery(folder: &Path) -> Result<PathBuf, String> {
    let page = folder.join("gallery.html");
    let mut gallery = command(&["cargo", "run", "--package", "twiceshy-report"]);
    gallery.args(["--example", "gallery", "--"]).arg(&page);
    shell::run(gallery).map(|()| page)
}

/// The page of a small demo.
fn demo(folder: &Path) -> Result<PathBuf, String> {
    let page = folder.join("demo.html");
    let mut demo = command(&["cargo", "run", "--release", "--package", "twiceshy-cli", "--"]);
    demo.args(["demo", "--keys", "20000", "--queries", "20000", "--out"]).arg(&page);
    shell::run(demo).map(|()| page)
}

fn check(page: &Path, folder: &Path) -> Done {
    let html = fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let mut complaints = Vec::new();
    for width in WIDTHS {
        for scheme in SCHEMES {
            let stem = page.file_stem().unwrap_or_default().to_string_lossy();
            let picture = folder.join(format!("{stem}-{width}-{scheme}.png"));
            let said = show(&html, width, scheme, folder, &picture)?;
            let complaint = said.iter().filter(|line| !line.contains(DONE));
            complaints.extend(complaint.map(|line| format!("{width} px, {scheme}: {line}")));
            match said.iter().find(|line| line.contains(DONE)) {
                Some(done) => eprintln!("{} px, {scheme}: {done}: {}", width, picture.display()),
                None => complaints.push(format!("{width} px, {scheme}: the script didn't end")),
            }
        }
    }
    if complaints.is_empty() {
        return Ok(());
    }
    Err(format!("{}:\n{}", page.display(), complaints.join("\n")))
}

/// Shows a page, and gives what was said on the console.
fn show(
    html: &str,
    width: u32,
    scheme: &str,
    folder: &Path,
    picture: &Path,
) -> Result<Vec<String>, String> {
    let frame = html.replace('&', "&amp;").replace('"', "&quot;");
    let harness = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"color-scheme\" content=\"{scheme}\"><title>Harness</title>\
         <style>body {{ margin: 0 }} iframe {{ border: 0; display: block; width: {width}px; \
         height: {HEIGHT}px; color-scheme: {scheme} }}</style></head><body>\
         <iframe data-scheme=\"{scheme}\" srcdoc=\"{frame}\"></iframe>\
         <script>{SCRIPT}</script></body></html>"
    );
    let (file, profile) = (folder.join("harness.html"), folder.join("profile"));
    fs::write(&file, harness).map_err(|error| format!("{}: {error}", file.display()))?;
    forget(&profile)?;
    let said = output(&[
        "timeout",
        "--kill-after=10",
        "120",
        "chromium",
        "--headless",
        // The pages are our own, and root can't have a sandbox.
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        "--v=0",
        &format!("--user-data-dir={}", profile.display()),
        &format!("--window-size={width},{HEIGHT}"),
        &format!("--screenshot={}", picture.display()),
        &format!("file://{}", file.display()),
    ])?;
    forget(&profile)?;
    let console = said.lines().filter_map(|line| line.split_once("CONSOLE"));
    Ok(console.map(|(_, line)| message(line).to_owned()).collect())
}

/// What was said, without where: `:12] "message", source: … (12)`.
fn message(line: &str) -> &str {
    let from = line.find('"').map_or(0, |quote| quote + 1);
    let to = line.rfind("\", source:").unwrap_or(line.len());
    line.get(from..to).unwrap_or(line)
}

/// Removes what an earlier browser left.
fn forget(profile: &PathBuf) -> Done {
    match fs::remove_dir_all(profile) {
        Err(error) if profile.exists() => Err(format!("{}: {error}", profile.display())),
        _ => Ok(()),
    }
}
