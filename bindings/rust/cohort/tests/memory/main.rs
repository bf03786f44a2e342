// SPDX-License-Identifier: Apache-2.0

//! Check under Miri that the crate has no undefined behavior and no leaks
//!
//! Stand-ins replace the C functions (see `stand_in`). Run it with `cargo miri test -p cohort
//! --test memory`; without Miri these are ordinary tests.

#![deny(unsafe_op_in_unsafe_fn)]

mod stand_in;

use std::error::Error as StdError;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use cohort::{
    Buffer, Comm, Group, Op, Options, Outcome, Parameter, Reducer, ReducerOptions, Status, Waited,
};
use stand_in::{ANSWER, REFUSAL};

/// Serializes the tests, because the stand-in's results are global to the process.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    REFUSAL.store(0, SeqCst);
    ANSWER.store(0, SeqCst);
    turn
}

fn opened(options: Options) -> (Group, Comm, Comm) {
    let mut group = Group::open_first(2, options).unwrap();
    let [first, second]: [Comm; 2] = group.split().unwrap().try_into().unwrap();
    (group, first, second)
}

#[test]
fn ticket_keeps_its_buffers_alive() {
    let _turn = turn();
    let (group, comm, _other) = opened(Options::new());
    let data = comm.buffer_of(&[1_i32, 2, 3]).unwrap();
    // Two operations in sequence; the second ticket returns the buffer.
    let ticket = comm.all_reduce(data, Op::Sum).unwrap();
    let ticket = comm.all_reduce(ticket, Op::Sum).unwrap();
    assert!(!ticket.is_done().unwrap());
    let ticket = match ticket.wait_for(Duration::ZERO).unwrap() {
        Waited::Pending(ticket) => ticket,
        Waited::Done(_) => panic!("it was not carried out"),
    };
    let data = ticket.wait().unwrap();
    assert_eq!(comm.read(&data).unwrap(), [1, 2, 3]);
    // Dropping a ticket waits first.
    drop(comm.all_reduce(data, Op::Sum).unwrap());
    drop(comm);
    drop(group);
}

#[test]
fn group_level_tickets_keep_their_buffers_alive() {
    let _turn = turn();
    let group = Group::open_first(2, Options::new()).unwrap();
    let data = group.alloc::<i32>(3).unwrap();
    let (data, rows) = group.upload(data, vec![vec![1, 2, 3]; 2]).unwrap().wait().unwrap();
    let ticket = group.all_reduce(data, Op::Sum).unwrap();
    assert!(!ticket.wait_for(Duration::ZERO).unwrap());
    let data = thread::scope(|scope| scope.spawn(|| ticket.wait().unwrap()).join().unwrap());
    let mut zeros = rows.clone();
    zeros.iter_mut().for_each(|row| row.fill(0));
    let (data, read) = group.download(data, zeros).unwrap().wait().unwrap();
    assert_eq!(read, rows);
    REFUSAL.store(Status::NCCL.code(), SeqCst);
    let (error, data) = group.all_reduce(data, Op::Sum).unwrap_err().into_parts();
    assert_eq!(error.text(), "the stand-in refuses");
    // Dropping a ticket waits first.
    drop(group.all_reduce(data.unwrap(), Op::Sum).unwrap());
    drop(group.upload(group.alloc::<u32>(1).unwrap(), vec![vec![7]; 2]).unwrap());
    drop(group);
}

#[test]
fn shared_buffer_is_freed_with_its_last_owner() {
    let _turn = turn();
    let (group, comm, _other) = opened(Options::new());
    let data = Arc::new(comm.buffer_of(&[1.0_f32; 8]).unwrap());
    let into = || comm.alloc::<f32>(8).unwrap();
    let first = comm.all_reduce_into(data.clone(), into(), Op::Sum).unwrap();
    let second = comm.all_reduce_into(data, into(), Op::Sum).unwrap();
    drop(first);
    let waits = thread::spawn(move || second.wait().unwrap());
    let (data, _) = waits.join().unwrap();
    assert_eq!(Arc::strong_count(&data), 1);
    drop(group);
}

#[test]
fn refused_calls_return_their_buffers() {
    let _turn = turn();
    let (_group, comm, _other) = opened(Options::new());
    let data = comm.alloc::<u32>(4).unwrap();
    REFUSAL.store(Status::NCCL.code(), SeqCst);
    let (error, data) = comm.all_reduce(data, Op::Sum).unwrap_err().into_parts();
    assert_eq!((error.status(), error.text()), (Status::NCCL, "the stand-in refuses"));
    // An end of the group returns the buffer as well.
    let ticket = comm.all_reduce(data.unwrap(), Op::Sum).unwrap();
    ANSWER.store(Status::ABORTED.code(), SeqCst);
    let (error, data) = ticket.wait().unwrap_err().into_parts();
    assert_eq!((error.status(), data.unwrap().len()), (Status::ABORTED, 4));
    // Callbacks of a group that fails to open are dropped as well.
    let kept = Arc::new(());
    let told = kept.clone();
    REFUSAL.store(Status::NO_DEVICE.code(), SeqCst);
    let options = Options::new().on_verdict(move |_| Arc::strong_count(&told) == 2);
    assert_eq!(Group::open(options).unwrap_err().status(), Status::NO_DEVICE);
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn batch_returns_each_buffer_once() {
    let _turn = turn();
    let (_group, comm, _other) = opened(Options::new());
    let (a, b) = (comm.alloc::<i32>(3).unwrap(), comm.alloc::<f32>(5).unwrap());
    let mut batch = comm.batch().unwrap();
    let a = batch.all_reduce(a, Op::Sum).unwrap();
    let b = batch.all_reduce(b, Op::Max).unwrap();
    let mut buffers = batch.end().unwrap().wait().unwrap();
    let (b, a): (Buffer<f32>, Buffer<i32>) = (buffers.take(b), buffers.take(a));
    assert_eq!((a.len(), b.len()), (3, 5));
    drop(buffers);
    // A batch is dropped with the buffers in it.
    let mut batch = comm.batch().unwrap();
    let _slot = batch.all_reduce(a, Op::Sum).unwrap();
    drop(batch);
}

#[test]
fn workers_share_the_state_of_a_run() {
    let _turn = turn();
    let mut group = Group::open_first(3, Options::new()).unwrap();
    let text = String::from("of all ranks");
    let texts = group.run(move |comm| Ok::<_, cohort::Error>(format!("{} {}", comm.rank(), text)));
    assert_eq!(texts.unwrap(), ["0 of all ranks", "1 of all ranks", "2 of all ranks"]);
    let error = group.run(|comm| -> Result<String, Box<dyn StdError + Send + Sync>> {
        let data = comm.buffer_of(&[0_u32; 4])?;
        let data = comm.all_reduce(data, Op::Sum)?;
        assert_ne!(comm.rank(), 1, "rank 1 panics");
        Ok(format!("{:?}", data.wait()?))
    });
    let error = error.unwrap_err();
    assert_eq!(error.status(), Status::WORKER);
    assert!(error.source().unwrap().to_string().starts_with("panicked: "), "{:?}", error);
}

#[test]
fn callbacks_get_copies_and_are_dropped_with_the_group() {
    let _turn = turn();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let verdicts = heard.clone();
    let options = Options::new().name("told").on_verdict(move |verdict| {
        let calls = verdict.ranks.iter().map(|rank| rank.call.clone() + ", " + &rank.stack);
        verdicts.lock().unwrap().extend(calls);
        true
    });
    let (group, comm, _other) = opened(options);
    assert!(comm.fail(3, "a reason").unwrap());
    assert!(!comm.fail(3, "a reason").unwrap());
    let call = "a call, the stand-in's verdict";
    assert_eq!(*heard.lock().unwrap(), [call, call]);
    drop(comm);
    group.close().unwrap();
    assert_eq!(Arc::strong_count(&heard), 1, "the callbacks are still there");
}

#[test]
fn handles_can_be_dropped_in_any_order_on_any_thread() {
    let _turn = turn();
    let (group, comm, other) = opened(Options::new());
    let (handle, observer) = (comm.abort_handle(), group.observer());
    drop(group);
    let child = comm.split(Some(0), 0).unwrap().unwrap();
    let data = child.alloc::<f32>(2).unwrap();
    let ticket = comm.all_reduce(comm.alloc::<f32>(2).unwrap(), Op::Sum).unwrap();
    drop(comm);
    let threads = [
        thread::spawn(move || drop(other)),
        thread::spawn(move || drop(ticket)),
        thread::spawn(move || drop((child, data))),
    ];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // The group is closed; its abort state outlives it.
    assert!(!handle.fired() && handle.fire("late") && handle.fired());
    assert!(observer.cause().is_none() && !observer.abort("late"));
}

#[test]
fn helper_threads_write_gradients() {
    let _turn = turn();
    let (group, comm, _other) = opened(Options::new());
    let parameters = vec![
        Parameter::new::<f32>("a", 3),
        Parameter::with_buffer("b", comm.buffer_of(&[1.0_f32; 2]).unwrap()),
    ];
    let mut reducer = Reducer::new(&comm, parameters, &ReducerOptions::default()).unwrap();
    for k in 1..3 {
        let step = reducer.begin().unwrap();
        let helper = step.helper();
        let first = || helper.update(0, |a: &mut [f32]| a.fill(k as f32)).is_ok();
        thread::scope(|scope| {
            let both = [scope.spawn(first), scope.spawn(first)];
            scope.spawn(|| helper.set(1, &[2.0_f32, 3.0]).unwrap());
            assert_eq!(
                both.map(|thread| thread.join().unwrap()).iter().filter(|is| **is).count(),
                1
            );
        });
        assert_eq!(step.finish().unwrap(), Outcome::Averaged);
        let (a, b) = (reducer.gradient::<f32>(0).unwrap(), reducer.gradient::<f32>(1).unwrap());
        assert_eq!((a, b), (&[k as f32; 3][..], &[2.0, 3.0][..]));
    }
    drop(reducer);
    drop(comm);
    group.close().unwrap();
}

#[test]
fn handles_of_a_closed_group_return_stale() {
    let _turn = turn();
    let (group, comm, other) = opened(Options::new());
    let child = other.split(Some(1), 0).unwrap().unwrap();
    let (mine, its) = (comm.alloc::<i32>(4).unwrap(), child.alloc::<i32>(4).unwrap());
    let tickets =
        (comm.all_reduce(mine, Op::Sum).unwrap(), child.all_reduce(its, Op::Sum).unwrap());
    let calls = thread::spawn(move || while comm.size() == 2 {});
    drop(tickets);
    group.close().unwrap();
    calls.join().unwrap();
    assert_eq!(child.barrier().unwrap_err().status(), Status::STALE);
    assert_eq!((other.rank(), other.size()), (0, 0));
}
