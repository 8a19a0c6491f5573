//! `cargo xtask browser`: checks pages in a browser.
//!
//! Each page is shown in a frame of a test page. A script in the test page (`browser.js`) examines
//! the framed page, and writes problems to the console. Any other message on the console is also a
//! problem.

use crate::programs::{COMMAND_LINE, GALLERY};
use crate::shell::{Done, Screen, install, output, root};
use std::fs;
use std::path::{Path, PathBuf};

/// The widths of a phone and a desktop, in pixels.
const WIDTHS: [u32; 2] = [390, 1280];
const SCHEMES: [&str; 2] = ["light", "dark"];
/// The height of the browser's window and of the picture, in pixels.
const HEIGHT: u32 = 8000;
/// A part of the script's last message. It shows that the script has finished.
const DONE: &str = "looked at";

const SCRIPT: &str = include_str!("browser.js");

/// Checks the named pages. If none is named, checks the report's sample page and the page of a
/// small demo.
pub(crate) fn run(pages: &[&str], screen: &Screen) -> Done {
    if pages.is_empty() {
        GALLERY.build(screen)?;
        COMMAND_LINE.build(screen)?;
        return run_built(screen);
    }
    let folder = folder()?;
    pages.iter().try_for_each(|page| check(Path::new(page), &folder, screen))
}

/// Runs programs that `cargo test` has built, and checks the pages that they write.
pub(crate) fn run_built(screen: &Screen) -> Done {
    let folder = folder()?;
    let page = folder.join("gallery.html");
    let mut gallery = GALLERY.command();
    gallery.arg(&page);
    screen.run(gallery)?;
    check(&page, &folder, screen)?;

    let page = folder.join("demo.html");
    let mut demo = COMMAND_LINE.command();
    demo.args(["demo", "--keys", "20000", "--queries", "20000", "--out"]).arg(&page);
    screen.run(demo)?;
    check(&page, &folder, screen)
}

/// Installs the browser, and returns the folder for pages and pictures.
fn folder() -> Result<PathBuf, String> {
    install("chromium", &["chromium", "--version"])?;
    let folder = root().join("target/browser");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn check(page: &Path, folder: &Path, screen: &Screen) -> Done {
    let html = fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let mut problems = Vec::new();
    for width in WIDTHS {
        for scheme in SCHEMES {
            let stem = page.file_stem().unwrap_or_default().to_string_lossy();
            let picture = folder.join(format!("{stem}-{width}-{scheme}.png"));
            let messages = show(&html, width, scheme, folder, &picture)?;
            let others = messages.iter().filter(|line| !line.contains(DONE));
            problems.extend(others.map(|line| format!("{width} px, {scheme}: {line}")));
            match messages.iter().find(|line| line.contains(DONE)) {
                Some(done) => {
                    screen.print(&format!("{width} px, {scheme}: {done}: {}", picture.display()));
                }
                None => problems.push(format!("{width} px, {scheme}: the script did not finish")),
            }
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("{}:\n{}", page.display(), problems.join("\n")))
}

/// Shows a page, and returns the messages on the console.
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
    remove(&profile)?;
    let printed = output(&[
        "timeout",
        "--kill-after=10",
        "120",
        "chromium",
        "--headless",
        // The sandbox does not work for root. The pages are our own, so the browser needs no
        // sandbox.
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
    remove(&profile)?;
    let console = printed.lines().filter_map(|line| line.split_once("CONSOLE"));
    Ok(console.map(|(_, line)| message(line).to_owned()).collect())
}

/// Returns the message from a line such as `:12] "message", source: … (12)`.
fn message(line: &str) -> &str {
    let from = line.find('"').map_or(0, |quote| quote + 1);
    let to = line.rfind("\", source:").unwrap_or(line.len());
    line.get(from..to).unwrap_or(line)
}

/// Removes the profile that an earlier browser left.
fn remove(profile: &PathBuf) -> Done {
    match fs::remove_dir_all(profile) {
        Err(error) if profile.exists() => Err(format!("{}: {error}", profile.display())),
        _ => Ok(()),
    }
}
