//! All integration tests, in one program, because building one program takes much less time than building
//! eleven.

mod backends;
mod common;
mod damage;
mod faults;
mod fixtures;
mod journal;
mod kill;
mod limits;
mod lists;
mod promises;
mod ranges;
mod rebuilds;
mod repairs;
mod store;
mod surface;
mod threads;
mod years;
