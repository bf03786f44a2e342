// SPDX-License-Identifier: Apache-2.0

//! Supervise threads as a framework would: the main thread opens and splits the group, each
//! worker thread gets a communicator, and a supervisor thread ends the group if a rank hangs
//!
//! In the first generation, rank 2 waits in step 10 for data that never arrives. The supervisor
//! detects the hang in a snapshot and ends the generation; the other ranks continue without rank 2.

use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use cohort::{AbortHandle, Comm, Group, Observer, Op, Options};

const STEPS: u64 = 20;
const PATIENCE: Duration = Duration::from_millis(300);

/// Progress of a rank's training.
#[derive(Clone, Copy)]
struct State {
    step: u64,
    weight: f64,
}

/// Train on a rank. `state` holds the progress, even after an error.
fn train(comm: &Comm, state: &mut State, data: Option<Receiver<()>>) -> cohort::Result<()> {
    // Start from rank 0's state, because ranks may be one step apart after a generation ended.
    let mut begin = [state.step as f64, state.weight];
    comm.broadcast_host(&mut begin, 0, Duration::MAX)?;
    *state = State { step: begin[0] as u64, weight: begin[1] };
    while state.step < STEPS {
        comm.tag(&format!("step {}", state.step))?;
        if let (Some(data), true) = (&data, state.step == STEPS / 2) {
            data.recv().unwrap_or(());
        }
        let gradient = comm.buffer_of(&[state.weight + comm.origin() as f64])?;
        let gradient = comm.all_reduce(gradient, Op::Avg)?.wait()?;
        state.weight -= 0.1 * comm.read(&gradient)?[0];
        state.step += 1;
    }
    Ok(())
}

/// Number of workers that are running, and a signal that it changed.
type Working = Arc<(Mutex<usize>, Condvar)>;

/// Wait until no worker is running. If a rank hangs before that, end the generation and return
/// that rank.
fn supervise(working: &Working, observer: &Observer, handle: &AbortHandle) -> Option<usize> {
    let mut lost = None;
    let mut count = working.0.lock().unwrap();
    while *count > 0 && lost.is_none() {
        count = working.1.wait_timeout(count, PATIENCE).unwrap().0;
        let ranks = observer.snapshot().unwrap_or_default();
        // If some ranks wait in a collective, the ranks that have not called it are late.
        let late = ranks.iter().find(|rank| !rank.joined && rank.age > PATIENCE);
        if let (Some(late), true) = (late, ranks.iter().any(|rank| rank.joined)) {
            handle.fire(&late.text);
            lost = Some(late.rank);
        }
    }
    lost
}

fn main() -> cohort::Result<()> {
    let mut group = Group::open_first(4, Options::new().name("supervised"))?;
    let mut states = vec![State { step: 0, weight: 1.0 }; group.size()];
    let (sender, receiver) = channel();
    let mut never = Some((receiver, sender));
    loop {
        let working: Working = Arc::new((Mutex::new(group.size()), Condvar::new()));
        let comms = group.split()?;
        let (handle, observer) = (comms[0].abort_handle(), group.observer());
        let watched = working.clone();
        let supervisor = thread::spawn(move || supervise(&watched, &observer, &handle));
        let (mut data, sender) = never.take().map_or((None, None), |(r, s)| (Some(r), Some(s)));
        let mut workers = Vec::new();
        for (comm, state) in comms.into_iter().zip(&states) {
            let (working, mut state) = (working.clone(), *state);
            let data = if comm.rank() == 2 { data.take() } else { None };
            workers.push(thread::spawn(move || {
                let result = train(&comm, &mut state, data);
                *working.0.lock().unwrap() -= 1;
                working.1.notify_one();
                (state, result)
            }));
        }
        let lost = supervisor.join().unwrap();
        drop(sender); // makes the hung rank return
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        states = ends.iter().map(|end| end.0).collect();
        if let Some(rank) = lost {
            println!("rank {} has not reached step {}", rank, states[rank].step);
            states.remove(rank);
            group.respawn(&[rank])?;
            println!("generation {}: {} ranks continue", group.generation(), group.size());
            continue;
        }
        for (_, result) in ends {
            result?;
        }
        println!("trained to step {}", states[0].step);
        return group.close();
    }
}
