// SPDX-License-Identifier: Apache-2.0

//! Average a gradient over all ranks, and continue without a rank that fails

use cohort::{Comm, Group, Op, Options};

/// Average the rank's gradient; runs on every rank, each on its own thread.
fn worker(comm: &Comm) -> cohort::Result<()> {
    let gradient = comm.buffer_of(&vec![1.0 + comm.rank() as f32; 1000])?;
    let gradient = comm.all_reduce(gradient, Op::Avg)?.wait()?;
    println!("rank {}: {}", comm.rank(), comm.read(&gradient)?[0]);
    Ok(())
}

fn main() -> cohort::Result<()> {
    let mut group = Group::open(Options::new())?;
    // A supervisor loop: while a rank is to blame, continue without it.
    while let Err(error) = group.run(worker) {
        eprintln!("{}", error);
        match error.rank() {
            Some(rank) => group.respawn(&[rank])?,
            None => return Err(error),
        }
    }
    group.close()
}
