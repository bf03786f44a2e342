// SPDX-License-Identifier: Apache-2.0

//! The safe crate on the host platform: what calls give, how groups end, what handles keep

mod collectives;
mod failures;
mod handles;
mod reducer;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cohort::{Comm, Deadlines, Error, Group, Options, Platform};

/// Devices and scripted faults are the process's: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn options() -> Options {
    Options::new().platform(Platform::Host)
}

/// Options whose deadlines are short for what hangs on purpose.
pub fn hasty() -> Options {
    let second = Some(Duration::from_secs(1));
    let deadlines = Deadlines { join: second, exec: second, ..Deadlines::default() };
    options().deadlines(deadlines)
}

/// Run `worker` on `n` ranks, which must succeed, and give what it returns.
pub fn run<R: Send + 'static>(
    n: usize,
    worker: impl Fn(&Comm) -> Result<R, Error> + Send + Sync + 'static,
) -> Vec<R> {
    let _turn = turn();
    let mut group = Group::open_first(n, options()).unwrap();
    let results = group.run(worker).unwrap();
    group.close().unwrap();
    results
}
