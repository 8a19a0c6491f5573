//! Stores that are opened after they were closed, or after a crash. They have made mistakes before,
//! so there are repairs in the saved filter, and records of mistakes in the backend.

use super::rows::{Recovery, Row};
use super::subject::{Engine, Place, Strangers, Subject, member};
use super::{Emit, PUT, Phase, RATE, Work};
use crate::bench::measure;
use indicatif::ProgressBar;
use std::process::ExitCode;
use std::time::Instant;
use twiceshy_store::Keyspace;

impl Work {
    /// Returns the backends on which stores are opened again.
    pub(super) fn recovered(&self) -> Vec<Engine> {
        match self.backend {
            Engine::Memory => vec![Engine::Memory, Engine::Fjall],
            other => vec![other],
        }
    }
}

/// Fills a store on each backend. Opens it again after it was closed, and after a simulated crash.
///
/// To simulate a crash, the files are copied while the store is open, as in the experiment `crash`,
/// and the copy is opened. A backend in memory is not copied, but opened again without the saved
/// filter.
pub(super) fn recover(work: &Work, bar: &ProgressBar, emit: &mut Emit<'_>) -> Result<(), ExitCode> {
    for engine in work.recovered() {
        let parent = work.directory.as_deref();
        let subject = Subject::open(Place::new(engine, parent), None, work);
        let pairs = (0..work.members).map(|number| (member(number), b""));
        subject.store.import(pairs).expect("room for members");
        make_mistakes(&subject);
        subject.store.flush().expect("room on the disk");
        let Subject { store, backend, place } = subject;
        let kept_mistakes = backend.pairs(Keyspace::Mistakes);
        measure::settle();
        let image = work.wants(Phase::Crash).then(|| place.crashed(parent));
        store.close().expect("room for the filter");
        drop(backend);
        if work.wants(Phase::Restart) {
            emit(Row::Restart(reopen(place, kept_mistakes, work)))?;
            bar.inc(work.members * PUT);
        }
        if let Some(image) = image {
            emit(Row::Crash(reopen(image, kept_mistakes, work)))?;
            bar.inc(work.members * PUT);
        }
    }
    Ok(())
}

/// Asks for absent keys until a few thousand mistakes were repaired, fewer in a small store. Then
/// waits until the store is at rest.
fn make_mistakes(subject: &Subject) {
    const MOST: u64 = 8192;
    const TURN: u64 = 1 << 14;
    let wanted = (subject.store.stats().members / 64).clamp(1, MOST);
    let mut strangers = Strangers::new(5);
    // Allow four times the expected number of queries, because some repairs may be skipped.
    let turns = 4 * (wanted as f64 / RATE) as u64 / TURN + 4;
    for _ in 0..turns {
        subject.ask(&mut strangers, TURN);
        if subject.rest().0.repairs >= wanted {
            return;
        }
    }
    panic!("the store made fewer mistakes than expected: {:?}", subject.store.stats());
}

fn reopen(place: Place, kept_mistakes: u64, work: &Work) -> Recovery {
    let start = Instant::now();
    let backend = place.open();
    let backend_ms = start.elapsed().as_secs_f64() * 1e3;
    measure::settle();
    let absent = Strangers::new(4).next().expect("an endless series");
    let start = Instant::now();
    let mut subject = Subject::over(backend, place, None, work);
    let value = subject.store.get(&absent).expect("a backend that can be read");
    let first_answer = start.elapsed();
    subject.store.wait_until_ready().expect("a backend that can be read");
    let full_speed = start.elapsed();
    assert!(value.is_none(), "an absent key");
    assert_eq!(subject.store.stats().members, work.members, "all members");
    Recovery {
        backend: subject.place.engine.name(),
        members: work.members,
        kept_mistakes,
        backend_ms,
        first_answer_ms: first_answer.as_secs_f64() * 1e3,
        full_speed_ms: full_speed.as_secs_f64() * 1e3,
        members_per_second: work.members as f64 / full_speed.as_secs_f64(),
        members_listed: subject.members_read().listed,
    }
}
