//! Locks and random bytes. With `--cfg shuttle`, they come from the `shuttle` crate, which runs the
//! threads of a test in many orders and can replay each order.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Fills a buffer with random bytes from the operating system.
pub(crate) fn fill_randomly(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    #[cfg(shuttle)]
    bytes.fill_with(|| shuttle::rand::Rng::r#gen(&mut shuttle::rand::thread_rng()));
    #[cfg(not(shuttle))]
    getrandom::fill(bytes)?;
    Ok(())
}
