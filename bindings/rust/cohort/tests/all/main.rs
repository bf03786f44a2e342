// SPDX-License-Identifier: Apache-2.0

//! Tests of the safe crate on the host platform: results of calls, ends of groups, lifetimes

mod bootstrap;
mod collectives;
mod failures;
mod group_calls;
mod handles;
mod reducer;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cohort::{Comm, Deadlines, Error, Group, Options, Platform};

/// Serializes the tests, because devices and scripted faults are global to the process.
static TURN: Mutex<()> = Mutex::new(());

pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn options() -> Options {
    Options::new().platform(Platform::Host)
}

/// Return options with short deadlines, for tests that hang on purpose.
pub fn hasty() -> Options {
    let second = Some(Duration::from_secs(1));
    let deadlines = Deadlines { join: second, exec: second, ..Deadlines::default() };
    options().deadlines(deadlines)
}

/// Run `worker` on `n` ranks, assert that it succeeds, and return its results.
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
