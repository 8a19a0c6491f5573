//! Injects faults into system calls, in child processes.
//!
//! The child runs the script on a real engine, and reports the beginning and the result of each
//! operation through a pipe. From these reports, the parent updates the model. It waits for the end of
//! the child, opens the store, and compares it with the model.

use crate::backend_faults::inspect_twice;
use crate::coverage::Coverage;
use crate::ffi;
use crate::model::Model;
use crate::plan::{Counts, Ending, Engine, Plan, Shot};
use crate::script::{Op, aftermath, script};
use crate::session::{self, Outcome, Place, Session};
use crate::stores::{Opened, Style, Target};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write, stdout};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use twiceshy_store::{RedbBackend, RedbOptions};

/// The longest time that a child may take, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A store on disk.
struct Disk {
    engine: Engine,
    directory: PathBuf,
}

impl Disk {
    fn open_at(&self, directory: &Path, style: &Style) -> Opened {
        match self.engine {
            Engine::Fjall => style.open_default(directory),
            Engine::Redb => {
                let data = directory.join("data");
                let backend = RedbBackend::open(data, RedbOptions::default())?;
                style.open_with(backend, Some(directory))
            }
            Engine::Memory => unreachable!("no engine on disk"),
        }
    }
}

impl Place for Disk {
    fn open(&self, style: &Style) -> Opened {
        self.open_at(&self.directory, style)
    }

    fn open_copy(&self, path: &Path, style: &Style) -> Opened {
        match self.engine {
            Engine::Fjall => style.open_default(path),
            _ => style.open_with(RedbBackend::open(path, RedbOptions::default())?, None),
        }
    }

    fn crash(&self, target: Option<Box<dyn Target>>) {
        ffi::black_out(true);
        drop(target);
        ffi::black_out(false);
    }

    fn pause(&self, is_paused: bool) {
        ffi::pause(is_paused);
    }
}

/// Returns the store's directory in the scratch directory of a case. Faults also hit files in its parent.
fn directory(scratch: &Path) -> PathBuf {
    scratch.join("files").join("store")
}

/// Returns the operations of a case, and the index of the operation that gets the fault.
fn sequence(plan: &Plan) -> (Vec<Op>, usize) {
    let Plan { store, seed, .. } = *plan;
    let mut ops = script(store, seed);
    let Some(Shot { step, ending, .. }) = plan.shot else { return (ops, usize::MAX) };
    ops.truncate(step + 1);
    let after = aftermath(store, seed, step, &ops[step]);
    ops.extend(after.into_iter().flat_map(|op| [Op::Open, op]));
    match ending {
        Ending::Crash => {}
        Ending::Drop => ops.push(Op::Drop),
        Ending::Close => ops.push(Op::Close),
    }
    (ops, step)
}

/// Runs a case in the child.
pub(crate) fn child(plan: &Plan, scratch: &Path, lie: Option<u64>) {
    let (ops, step) = sequence(plan);
    let place = Disk { engine: plan.engine, directory: directory(scratch) };
    let watched = scratch.join("files");
    fs::create_dir_all(&watched).expect("a directory for the case");
    // Copies of the store go to this directory, too.
    let style = Style::new(plan.store, plan.seed, &watched);
    ffi::watch(watched.as_os_str().as_bytes());
    let mut model = Model::new(plan.store);
    model.loses_writes = style.loses_writes(plan.engine);
    let mut session = Session::new(&place, &style, model);
    let mut writes = 0;
    for (at, op) in ops.iter().enumerate() {
        say(&format!("B {at}"));
        if let Some(Shot { fault, n, lasts, .. }) = plan.shot.filter(|_| at == step) {
            ffi::arm(fault, n, lasts);
        }
        let needs_open = !matches!(op, Op::Open | Op::Close | Op::Drop | Op::Crash);
        writes += u64::from(!op.changes().0.is_empty());
        let outcome = if needs_open && !session.is_open() {
            "N".into()
        } else if lie == Some(writes) && !op.changes().0.is_empty() {
            "D".into()
        } else {
            match session.step(op) {
                Ok(Outcome::Done) => "D".into(),
                Ok(Outcome::Refused) => "N".into(),
                Ok(Outcome::Failed(failure)) if !failure.is_backend() => "N".into(),
                Ok(Outcome::Failed(_)) => "Q".into(),
                Err(problem) => format!("W {}", problem.replace('\n', " ")),
            }
        };
        let Counts(counts) = ffi::take_counts();
        say(&format!("{outcome}\nC {}", counts.map(|count| count.to_string()).join(" ")));
    }
    // Skip the destructor of a store that is still open.
    std::process::exit(0);
}

fn say(line: &str) {
    // Ignore the error if the parent has ended.
    let _ = writeln!(stdout(), "{line}");
    let _ = stdout().flush();
}

/// Runs a case. Returns the number of system calls in each step.
///
/// If `lie` is given, the child acknowledges the write with this number without doing it, and then the case
/// must fail.
///
/// # Errors
/// Returns a description of the broken promise.
pub(crate) fn run(
    plan: &Plan,
    lie: Option<u64>,
    scratch: &Path,
    coverage: &mut Coverage,
) -> Result<Vec<Counts>, String> {
    let (ops, _) = sequence(plan);
    let tells = session::TELLS.load(Ordering::Relaxed);
    let mut model = Model::new(plan.store);
    let files = scratch.join("parent");
    fs::create_dir_all(&files).map_err(|error| error.to_string())?;
    let style = Style::new(plan.store, plan.seed, &files);
    model.loses_writes = style.loses_writes(plan.engine);
    let mut running: Option<&Op> = None;
    let mut counts = Vec::new();
    let mut hits = 0;
    let mut problem = None;
    let status = follow(plan, lie, scratch, |line| {
        let (kind, rest) = line.split_at(line.len().min(1));
        let rest = rest.trim();
        if tells && kind != "C" {
            let op = rest.parse().ok().and_then(|at: usize| ops.get(at));
            eprintln!("{line} {}", op.map(|op| format!("{op:?}")).unwrap_or_default());
        }
        match kind {
            "B" => running = rest.parse().ok().and_then(|at: usize| ops.get(at)),
            "D" => model.acknowledged(running.take().unwrap_or(&Op::Open)),
            "N" => running = None,
            "Q" => model.in_doubt(running.take().unwrap_or(&Op::Open)),
            "W" => problem = Some(rest.to_owned()),
            "C" => {
                let mut each = rest.split(' ').map(|count| count.parse().unwrap_or_default());
                counts.push(Counts::new(|_| each.next().unwrap_or_default()));
            }
            "H" => {
                hits += 1;
                if let (Some(Shot { fault, .. }), Some(op)) = (plan.shot, running) {
                    coverage.hit(plan.store, op.name(plan.store), fault, 1);
                    coverage.call(rest, fault);
                }
            }
            _ => {}
        }
    })?;
    coverage.totals.operations += counts.len() as u64;
    coverage.totals.misses += u64::from(plan.shot.is_some() && hits == 0);
    if let Some(problem) = problem {
        return Err(problem);
    }
    let was_killed = status.signal() == Some(libc::SIGKILL);
    let may_be_killed = plan.shot.is_some_and(|shot| shot.fault.kills()) && hits > 0;
    coverage.totals.kills += u64::from(was_killed);
    if !(status.success() || was_killed && may_be_killed) {
        let said = fs::read_to_string(scratch.join("stderr")).unwrap_or_default();
        return Err(format!("the process ended with {status}: {said}"));
    }
    if let Some(op) = running {
        model.in_doubt(op);
    }
    let place = Disk { engine: plan.engine, directory: directory(scratch) };
    let mut session = Session::new(&place, &style, model);
    coverage.totals.reopenings += 2;
    let inspected = inspect_twice(&mut session);
    coverage.totals.operations += session.operations;
    inspected.map(|()| counts)
}

/// Starts a child, and handles each line that it prints until it ends.
fn follow(
    plan: &Plan,
    lie: Option<u64>,
    scratch: &Path,
    mut hear: impl FnMut(&str),
) -> Result<ExitStatus, String> {
    let failed = |error: std::io::Error| format!("cannot start a child: {error}");
    let stderr = File::create(scratch.join("stderr")).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("child").arg(plan.to_string()).arg(scratch);
    command.args(lie.map(|lie| lie.to_string()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    let mut child = Reaped(command.spawn().map_err(failed)?);
    let lines = BufReader::new(child.0.stdout.take().expect("a pipe")).lines();
    let (sender, lines) = {
        let (sender, receiver) = channel();
        ((sender, lines), receiver)
    };
    thread::spawn(move || {
        let (sender, lines) = sender;
        lines.map_while(Result::ok).take_while(|line| sender.send(line.clone()).is_ok()).count()
    });
    let end = Instant::now() + PATIENCE;
    loop {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => hear(&line),
            Err(Timeout) => {
                return Err(format!("the child hangs: it printed nothing for {PATIENCE:?}"));
            }
            Err(Disconnected) => break,
        }
    }
    while Instant::now() < end {
        if let Some(status) = child.0.try_wait().map_err(failed)? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err("the child hangs: it does not end".into())
}

/// A child process that is killed on drop.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
