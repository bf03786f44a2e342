// SPDX-License-Identifier: Apache-2.0

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use cohort::{
    Buffer, Comm, Deadlines, Error, Group, Op, Parameter, Reducer, ReducerOptions, Status, Ticket,
    Waited,
};

use super::{hasty, options, turn};

fn pair(options: cohort::Options) -> (Group, Comm, Comm) {
    let mut group = Group::open_first(2, options).unwrap();
    let mut comms = group.split().unwrap();
    let second = comms.remove(1);
    (group, comms.remove(0), second)
}

fn sum(comm: &Comm) -> i32 {
    let sum = comm.all_reduce(comm.buffer_of(&[1_i32]).unwrap(), Op::Sum).unwrap();
    comm.read(&sum.wait().unwrap()).unwrap()[0]
}

#[test]
fn dropped_ticket_waits_for_its_operation() {
    let _turn = turn();
    let (group, first, second) = pair(options());
    let ticket = first.all_reduce(first.buffer_of(&[1_i32; 64]).unwrap(), Op::Sum).unwrap();
    let (sender, receiver) = channel();
    let thread = thread::spawn(move || {
        receiver.recv().unwrap();
        let data = second.buffer_of(&[2_i32; 64]).unwrap();
        let data = second.all_reduce(data, Op::Sum).unwrap().wait().unwrap();
        (second.read(&data).unwrap()[63], second)
    });
    sender.send(()).unwrap();
    drop(ticket);
    // The wait is over, so the operation is done.
    assert!(first.synchronize(Duration::ZERO).unwrap());
    let (value, second) = thread.join().unwrap();
    assert_eq!(value, 3);
    drop((first, second));
    group.close().unwrap();
}

#[test]
fn forgotten_ticket_only_leaks() {
    let _turn = turn();
    let (group, first, second) = pair(options());
    std::mem::forget(first.all_reduce(first.alloc::<f32>(1 << 16).unwrap(), Op::Sum).unwrap());
    let ticket = second.all_reduce(second.alloc::<f32>(1 << 16).unwrap(), Op::Sum).unwrap();
    ticket.wait().unwrap();
    assert!(first.synchronize(Duration::MAX).unwrap());
    // The forgotten ticket also leaks its link, so only this closes the group.
    drop((first, second));
    group.close().unwrap();
}

#[test]
fn last_handle_closes_the_group() {
    let _turn = turn();
    let (group, first, second) = pair(options());
    let observer = group.observer();
    drop(group);
    let thread = thread::spawn(move || sum(&second));
    assert_eq!(sum(&first), 2);
    assert_eq!(thread.join().unwrap(), 2);
    let buffer = first.buffer_of(&[5_u64]).unwrap();
    drop(first);
    assert!(observer.cause().is_none() && observer.snapshot().is_ok());
    drop(buffer);
    assert_eq!(observer.snapshot().unwrap_err().status(), Status::STALE);
}

#[test]
fn handles_return_stale_after_group_close() {
    let _turn = turn();
    let (group, first, second) = pair(options());
    let buffer = first.alloc::<i8>(4).unwrap();
    let child = thread::spawn(move || second.split(Some(0), 0).unwrap().map(|c| (c, second)));
    let own = first.split(Some(0), 0).unwrap().unwrap();
    let (other, second) = child.join().unwrap().unwrap();
    group.close().unwrap();
    for comm in [&first, &second, &own, &other] {
        let error = comm.barrier().unwrap_err();
        assert_eq!((error.status(), error.rank()), (Status::STALE, None));
        assert_eq!((comm.size(), comm.stream()), (0, std::ptr::null_mut()));
    }
    // Not INVALID although the size is wrong, because C, which compares sizes, is not called.
    let error = first.all_gather_host(&[1], &mut [0; 2], Duration::MAX).unwrap_err();
    assert_eq!(error.status(), Status::STALE);
    let failed = first.all_reduce(buffer, Op::Sum).unwrap_err();
    assert_eq!(failed.into_parts().1.unwrap().len(), 4);
    assert!(!first.abort_handle().fire("nothing is left"));
}

#[test]
fn group_close_waits_for_the_close_of_a_split_comm() {
    let _turn = turn();
    let (group, first, second) = pair(options());
    let thread = thread::spawn(move || second.split(Some(0), 0).unwrap().map(|c| (c, second)));
    let own = first.split(Some(0), 0).unwrap().unwrap();
    let (other, second) = thread.join().unwrap().unwrap();
    // The child's close waits for this ticket, because the other rank has not called.
    drop(own.barrier().unwrap());
    let (sender, receiver) = channel();
    let closing = thread::spawn(move || {
        sender.send(()).unwrap();
        drop(own);
    });
    receiver.recv().unwrap();
    (0..1000).for_each(|_| thread::yield_now());
    // If the thread is inside its close, an abort makes it return. Its deadline is a minute.
    let begin = Instant::now();
    group.close().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(40));
    closing.join().unwrap();
    assert_eq!(other.barrier().unwrap_err().status(), Status::STALE);
    drop((first, second));
}

#[test]
fn group_close_ends_the_wait_of_another_thread() {
    let _turn = turn();
    let close = Some(Duration::from_millis(100));
    let (group, first, second) =
        pair(options().deadlines(Deadlines { close, ..Deadlines::default() }));
    let (sender, receiver) = channel();
    let thread = thread::spawn(move || {
        let ticket = first.all_reduce(first.alloc::<f32>(8).unwrap(), Op::Sum).unwrap();
        sender.send(()).unwrap();
        ticket.wait().unwrap_err().into_parts()
    });
    receiver.recv().unwrap();
    // The thread must get an error, whether or not its wait has started.
    let closed = group.close();
    let (error, buffer) = thread.join().unwrap();
    assert!([Status::ABORTED, Status::STALE].contains(&error.status()), "{:?}", error);
    assert_eq!(buffer.unwrap().len(), 8);
    drop(second);
    // If it was inside, the abort ended its wait, and the close found nothing in flight. If it was
    // not, the close cut its operation short.
    match closed {
        Ok(()) => assert_eq!(error.status(), Status::ABORTED),
        Err(closed) => assert_eq!(closed.status(), Status::ABORTED),
    }
}

#[test]
fn ticket_returns_only_after_group_close_returns() {
    let _turn = turn();
    let close = Some(Duration::from_millis(200));
    let deadlines = Deadlines { close, ..Deadlines::default() };
    let (group, first, _second) = pair(options().deadlines(deadlines));
    // In flight until the close cuts it short; the buffer must not be returned before.
    let ticket = first.all_reduce(first.alloc::<u8>(1 << 20).unwrap(), Op::Sum).unwrap();
    let (sender, receiver) = channel();
    let thread = thread::spawn(move || {
        sender.send(()).unwrap();
        group.close().unwrap_err().status()
    });
    receiver.recv().unwrap();
    while is_open(&first) {
        thread::yield_now();
    }
    match ticket.wait_for(Duration::ZERO) {
        Ok(Waited::Pending(ticket)) => ended(ticket),
        other => panic!("{:?}", other),
    }
    assert_eq!(thread.join().unwrap(), Status::ABORTED);
}

fn ended(ticket: Ticket<Buffer<u8>>) {
    let (error, back) = ticket.wait().unwrap_err().into_parts();
    assert_eq!(error.status(), Status::STALE);
    assert_eq!(back.unwrap().len(), 1 << 20);
}

/// Return whether the communicator's gate is open.
fn is_open(comm: &Comm) -> bool {
    comm.size() > 0
}

#[test]
fn panic_that_drops_a_comm_ends_the_group() {
    let _turn = turn();
    let (_group, first, second) = pair(options());
    let thread = thread::spawn(move || {
        let _second = second;
        panic!("in a thread of the program's own");
    });
    let waited = first.barrier().and_then(|ticket| ticket.wait().map_err(Error::from));
    let error = waited.unwrap_err();
    assert!(thread.join().is_err());
    assert_eq!((error.status(), error.rank()), (Status::WORKER, Some(1)));
    assert!(error.text().contains("a panic dropped its communicator"), "{}", error);
}

#[test]
fn panic_that_drops_only_a_buffer_does_not_end_the_group() {
    let _turn = turn();
    let (group, first, second) = pair(options());
    let thread = thread::spawn(move || sum(&second));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        // This copy is done, so that unwinding does not wait.
        let _buffer = first.buffer_of(&[1.0_f32]).unwrap();
        panic!("not of the rank");
    }));
    assert!(panicked.is_err());
    assert_eq!(sum(&first), 2);
    assert_eq!(thread.join().unwrap(), 2);
    drop(first);
    assert!(group.cause().is_none());
    group.close().unwrap();
}

#[test]
fn panic_with_a_ticket_in_flight_does_not_wait() {
    let _turn = turn();
    let (group, first, _second) = pair(options());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ticket = first.all_reduce(first.alloc::<f32>(8).unwrap(), Op::Sum).unwrap();
        panic!("before the others have called");
    }));
    assert!(panicked.is_err());
    let cause = group.cause().unwrap();
    assert_eq!((cause.status, cause.rank), (Status::WORKER, Some(0)));
}

#[test]
fn any_thread_can_drop_buffers_while_the_rank_calls() {
    let _turn = turn();
    let (group, first, second) = pair(options());
    let (sender, buffers) = channel();
    let dropper = thread::spawn(move || buffers.into_iter().for_each(drop));
    let other = thread::spawn(move || (0..200).for_each(|_| assert_eq!(sum(&second), 2)));
    for _ in 0..200 {
        sender.send(first.alloc::<u32>(16).unwrap()).unwrap();
        assert_eq!(sum(&first), 2);
    }
    drop(sender);
    dropper.join().unwrap();
    other.join().unwrap();
    drop(first);
    group.close().unwrap();
}

#[test]
fn comm_close_leaves_without_ending_the_group() {
    let _turn = turn();
    let (group, first, second) = pair(hasty());
    let buffer = second.alloc::<u32>(16).unwrap();
    second.close().unwrap();
    assert_eq!(second.barrier().unwrap_err().status(), Status::STATE);
    assert_eq!(second.close().unwrap_err().status(), Status::STATE);
    drop(buffer); // the memory is freed when the group closes
    let failed = first.barrier().unwrap().wait().unwrap_err();
    assert_eq!(failed.error().rank(), Some(1));
    drop((first, second));
    group.close().unwrap();
}

#[test]
fn buffer_of_another_device_is_refused() {
    let _turn = turn();
    let (group, first, second) = pair(options());
    let mut other = Group::open_first(1, options()).unwrap();
    let alike = other.split().unwrap().remove(0);
    let buffer = alike.all_reduce(first.buffer_of(&[7_i32]).unwrap(), Op::Sum).unwrap();
    let mut buffer = buffer.wait().unwrap();
    let parameter = Parameter::with_buffer("w", first.alloc::<f32>(1).unwrap());
    for error in [
        second.read(&buffer).unwrap_err(),
        second.write(&mut buffer, &[1]).unwrap_err(),
        second.send(buffer, 0).unwrap_err().into(),
        Reducer::new(&second, vec![parameter], &ReducerOptions::default()).unwrap_err(),
    ] {
        assert_eq!(error.status(), Status::INVALID);
        assert_eq!(
            error.text(),
            "the buffer is on device 0 of platform Host, but the communicator on 1 of Host"
        );
    }
    drop((first, second));
    group.close().unwrap();
}

#[test]
fn run_is_refused_while_a_comm_is_alive() {
    let _turn = turn();
    let (mut group, first, second) = pair(options());
    let error = group.run(|_| Ok::<_, Error>(())).unwrap_err();
    assert_eq!(error.status(), Status::STATE);
    assert!(error.text().contains("alive"), "{}", error);
    drop((first, second));
    let ranks = group.run(|comm| Ok::<_, Error>(comm.rank())).unwrap();
    assert_eq!(ranks, [0, 1]);
    assert_eq!(group.split().unwrap_err().status(), Status::STATE);
}

#[test]
fn drop_error_function_may_own_a_handle_that_reports() {
    struct Tells;

    impl Drop for Tells {
        fn drop(&mut self) {
            cohort::on_drop_error(|error| eprintln!("dropped: {}", error));
        }
    }

    let _turn = turn();
    let owned = Tells;
    cohort::on_drop_error(move |error| eprintln!("{} {}", error, std::mem::size_of_val(&owned)));
    cohort::on_drop_error(|error| eprintln!("dropped: {}", error));
}

#[test]
fn facts_and_counters_match_the_rank() {
    let _turn = turn();
    let (group, first, second) = pair(options());
    let thread = thread::spawn(move || (sum(&second), second));
    sum(&first);
    let (_, second) = thread.join().unwrap();
    assert_eq!((second.rank(), second.size(), second.generation()), (1, 2, 1));
    assert!(!second.stream().is_null());
    let stats = second.stats().unwrap();
    assert_eq!((stats.collectives, stats.transfers, stats.aborts), (1, 0, 0));
    let reports = first.snapshot().unwrap();
    assert_eq!(reports.len(), 2);
    assert!(reports[1].text.contains("rank 1"), "{}", reports[1].text);
    assert_eq!(cohort::version(), cohort::sys::VERSION);
    assert_eq!(format!("{:?}", Status::STALLED), "COHORT_STALLED (-19)");
    assert_eq!(format!("{:?}", first), "Comm of rank 0 of 2");
    drop((first, second));
    group.close().unwrap();
}
