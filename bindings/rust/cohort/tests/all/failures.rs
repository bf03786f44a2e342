// SPDX-License-Identifier: Apache-2.0

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use cohort::{
    sim, AbortHandle, Comm, Deadlines, Error, Group, Op, Panic, Policy, Result, Stage, Status,
    Verdict, VerdictKind, Waited,
};

use super::{hasty, options, turn};

/// A sender that `Fn` workers can share.
struct Shared<T>(Mutex<Sender<T>>);

impl<T> Shared<T> {
    fn new(sender: Sender<T>) -> Shared<T> {
        Shared(Mutex::new(sender))
    }

    fn send(&self, value: T) {
        self.0.lock().unwrap().send(value).unwrap();
    }
}

/// Wait in a collective that another rank does not call.
fn wait_for_the_others(comm: &Comm) -> Result<()> {
    comm.all_reduce(comm.buffer_of(&[1.0_f32])?, Op::Sum)?.wait()?;
    Ok(())
}

#[test]
fn panic_becomes_the_ranks_error_and_unblocks_other_ranks() {
    let _turn = turn();
    let (sender, errors) = channel();
    let sender = Shared::new(sender);
    let mut group = Group::open_first(3, options()).unwrap();
    let error = group
        .run(move |comm| {
            if comm.rank() == 1 {
                panic!("shard {} is unreadable", 12);
            }
            let error = wait_for_the_others(comm).unwrap_err();
            sender.send(error.clone());
            Err::<(), _>(error)
        })
        .unwrap_err();
    assert_eq!((error.status(), error.rank()), (Status::WORKER, Some(1)));
    assert_eq!(error.verdict(), Some(VerdictKind::WORKER));
    assert!(error.text().contains("panicked: shard 12 is unreadable"), "{}", error);
    assert!(error.source().unwrap().downcast_ref::<Panic>().is_some());
    let others: Vec<_> = errors.try_iter().collect();
    assert_eq!(others.len(), 2);
    for other in others {
        assert_eq!((other.status(), other.rank()), (Status::WORKER, Some(1)));
        assert!(other.text().contains("shard 12 is unreadable"), "{}", other);
    }
    assert!(group.abandoned().is_empty());
    // The group continues without that rank.
    group.respawn(&[1]).unwrap();
    assert_eq!((group.generation(), group.size()), (2, 2));
    assert_eq!(group.run(|comm| Ok::<_, Error>(comm.origin())).unwrap(), [0, 2]);
    group.close().unwrap();
}

#[test]
fn worker_error_is_text_and_source_of_the_run_error() {
    let _turn = turn();
    let mut group = Group::open_first(2, options()).unwrap();
    let error = group
        .run(|comm| match comm.rank() {
            0 => wait_for_the_others(comm).map_err(|error| error.to_string()),
            _ => Err("no data".to_string()),
        })
        .unwrap_err();
    assert_eq!((error.status(), error.rank()), (Status::WORKER, Some(1)));
    assert!(error.text().contains("no data"), "{}", error);
    assert_eq!(error.source().unwrap().to_string(), "no data");
    assert_eq!(error.cause().unwrap().worker, Status::WORKER.code());
    // The group has a cause, so it cannot run before a respawn.
    let error = group.run(|_| Ok::<_, Error>(())).unwrap_err();
    assert_eq!(error.status(), Status::STATE);
}

#[test]
fn hung_rank_is_named_in_the_errors_of_other_ranks() {
    let _turn = turn();
    let mut group = Group::open_first(3, hasty()).unwrap();
    let mut comms = group.split().unwrap();
    let hung = comms.remove(1);
    let workers = comms.into_iter().map(|comm| {
        thread::spawn(move || (wait_for_the_others(&comm).unwrap_err(), comm.tag("after").is_ok()))
    });
    for worker in workers.collect::<Vec<_>>() {
        let (error, _) = worker.join().unwrap();
        assert_eq!((error.status(), error.rank()), (Status::STALLED, Some(1)));
        assert_eq!(error.verdict(), Some(VerdictKind::NEVER_CALLED));
        let cause = error.cause().unwrap();
        assert_eq!(cause.missing.iter().collect::<Vec<_>>(), [1]);
        assert!(cause.joined.contains(0) && cause.joined.contains(2));
        assert_eq!(cause.deadline, Some(Duration::from_secs(1)));
        assert_eq!((cause.world_rank, &*cause.text), (Some(1), error.text()));
        assert!(cause.details.lines().count() > 1, "{}", cause.details);
    }
    assert_eq!(group.lost(), [1]);
    let error = hung.barrier().unwrap_err();
    assert_eq!(error.status(), Status::STALLED);
    group.respawn(&[1]).unwrap();
    assert_eq!(hung.barrier().unwrap_err().status(), Status::STALE);
    assert_eq!(group.run(|comm| comm.barrier()?.wait().map_err(Error::from)).unwrap().len(), 2);
}

#[test]
fn worker_that_returns_without_calling_is_named() {
    let _turn = turn();
    let mut group = Group::open_first(3, hasty()).unwrap();
    let error = group
        .run(|comm| match comm.rank() {
            2 => Ok(()),
            _ => wait_for_the_others(comm),
        })
        .unwrap_err();
    assert_eq!((error.status(), error.rank()), (Status::STALLED, Some(2)));
    assert!(error.text().contains("rank 2"), "{}", error);
}

#[test]
fn exit_of_a_bound_thread_ends_the_group() {
    let _turn = turn();
    let mut group = Group::open_first(2, options()).unwrap();
    let mut comms = group.split().unwrap();
    let dies = comms.remove(1);
    let (sender, receiver) = channel();
    let thread = thread::spawn(move || {
        std::mem::forget(dies.bind().unwrap());
        sender.send(dies).unwrap();
    });
    let dead = receiver.recv().unwrap();
    thread.join().unwrap();
    let error = wait_for_the_others(&comms[0]).unwrap_err();
    assert_eq!((error.status(), error.rank()), (Status::THREAD_EXITED, Some(1)));
    assert_eq!(dead.cause().unwrap().status, Status::THREAD_EXITED);
}

extern "C" {
    fn fork() -> i32;
    fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: i32) -> !;
}

#[test]
fn child_of_a_fork_gets_errors_and_exits() {
    let _turn = turn();
    let mut group = Group::open_first(2, options()).unwrap();
    let comms = group.split().unwrap();
    // SAFETY: the child makes no call that could wait for another thread's lock; glibc makes its
    // allocator safe in the child.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: these calls have no preconditions.
        unsafe { alarm(60) };
        cohort::on_drop_error(|_| unsafe { _exit(2) });
        let refused = comms[0].buffer_of(&[1.0_f32]).map(drop).unwrap_err();
        drop((comms, group));
        unsafe { _exit(i32::from(refused.status() != Status::FORKED)) };
    }
    let mut status = -1;
    // SAFETY: the status outlives the call.
    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    drop(comms);
    group.close().unwrap();
}

#[test]
fn abort_handle_ends_waiting_calls() {
    let _turn = turn();
    let mut group = Group::open_first(2, options()).unwrap();
    let mut comms = group.split().unwrap();
    let (late, comm) = (comms.remove(1), comms.remove(0));
    let handle = comm.abort_handle();
    assert!(!handle.fired());
    let (sender, called) = channel();
    let worker = thread::spawn(move || {
        let ticket = comm.all_reduce(comm.buffer_of(&[1.0_f64]).unwrap(), Op::Sum).unwrap();
        sender.send(()).unwrap();
        let (error, buffer) = ticket.wait().unwrap_err().into_parts();
        assert_eq!(buffer.unwrap().len(), 1);
        error
    });
    called.recv().unwrap();
    let supervisor = thread::spawn(move || (handle.fire("no more time"), handle));
    let (fired, handle) = supervisor.join().unwrap();
    assert!(fired && handle.fired() && !handle.fire("again"));
    let error = worker.join().unwrap();
    assert_eq!((error.status(), error.rank()), (Status::ABORTED, None));
    assert!(error.text().contains("no more time"), "{}", error);
    drop(late);
    assert_eq!(group.cause().unwrap().kind, VerdictKind::ABORTED);
    group.close().unwrap();
    assert!(handle.fired());
}

#[test]
fn abort_handle_created_before_the_group_ends_it() {
    let _turn = turn();
    let handle = AbortHandle::new().unwrap();
    let group = Group::open_first(2, options().abort(&handle)).unwrap();
    assert!(!handle.fired());
    assert!(handle.fire("enough") && handle.fired());
    assert_eq!(group.cause().unwrap().status, Status::ABORTED);
    let error = Group::open_first(2, options().abort(&handle)).unwrap_err();
    assert_eq!(error.status(), Status::STATE);
    group.close().unwrap();
}

#[test]
fn open_fails_with_a_fired_abort_handle() {
    let _turn = turn();
    let handle = AbortHandle::new().unwrap();
    assert!(handle.fire("enough"));
    let error = Group::open_first(2, options().abort(&handle)).unwrap_err();
    assert_eq!(error.status(), Status::ABORTED);
    assert!(error.text().contains("enough"), "{}", error);
}

#[test]
fn different_calls_return_mismatch() {
    let _turn = turn();
    let mut group = Group::open_first(3, options()).unwrap();
    let error = group
        .run(|comm| {
            let count = if comm.rank() == 2 { 4 } else { 3 };
            comm.all_reduce(comm.alloc::<f32>(count)?, Op::Max)?.wait()?;
            Ok::<_, Error>(())
        })
        .unwrap_err();
    assert_eq!((error.status(), error.rank()), (Status::MISMATCH, Some(2)));
}

#[test]
fn native_error_names_its_rank() {
    let _turn = turn();
    let mut group = Group::open_first(2, options()).unwrap();
    sim::fault(Some(1), 1, sim::Kind::Error(3)).unwrap();
    let error = group.run(|comm| (0..3).try_for_each(|_| wait_for_the_others(comm))).unwrap_err();
    sim::clear();
    assert_eq!((error.status(), error.rank()), (Status::NCCL, Some(1)));
    assert_eq!(error.cause().unwrap().nccl, 3);
}

#[test]
fn wedged_ticket_never_returns_its_buffers() {
    let _turn = turn();
    let deadlines = Deadlines {
        exec: Some(Duration::from_secs(1)),
        abort: Some(Duration::from_millis(200)),
        ..Deadlines::default()
    };
    let mut group = Group::open_first(2, options().deadlines(deadlines)).unwrap();
    let mut comms = group.split().unwrap();
    let (hung, comm) = (comms.remove(1), comms.remove(0));
    sim::fault(Some(1), 0, sim::Kind::Hung).unwrap();
    let thread = thread::spawn(move || {
        let failed = hung.all_reduce(hung.alloc::<i32>(1).unwrap(), Op::Sum).unwrap_err();
        (failed.into_parts(), hung)
    });
    // The deadline ends the group, but the abort cannot make rank 1 return from its call.
    let ticket = comm.all_reduce(comm.buffer_of(&[1_i32]).unwrap(), Op::Sum).unwrap();
    let (error, buffer) = ticket.wait().unwrap_err().into_parts();
    assert_eq!((error.status(), error.rank()), (Status::WEDGED, Some(1)));
    assert!(buffer.is_none());
    sim::clear();
    let ((error, buffer), _hung) = thread.join().unwrap();
    assert_eq!(error.status(), Status::WEDGED);
    assert!(buffer.is_none());
    assert_eq!(group.close().unwrap_err().status(), Status::WEDGED);
}

#[test]
fn abandoned_worker_does_not_keep_the_group_open() {
    let _turn = turn();
    let abort = Some(Duration::from_millis(200));
    let deadlines = Deadlines { abort, ..Deadlines::default() };
    let mut group = Group::open_first(2, options().deadlines(deadlines)).unwrap();
    let (release, released) = channel::<()>();
    let (sender, ends) = channel();
    let (released, sender) = (Mutex::new(released), Shared::new(sender));
    let error = group
        .run(move |comm| {
            if comm.rank() == 0 {
                return Err("gives up".to_string());
            }
            let buffer = comm.buffer_of(&[1_u8]);
            released.lock().unwrap().recv().unwrap_err();
            // The group is closed, so neither this call nor the buffer's drop may use it.
            let error = comm.barrier().unwrap_err();
            drop(buffer);
            sender.send(error.status());
            Ok(())
        })
        .unwrap_err();
    assert_eq!(error.rank(), Some(0));
    assert_eq!(group.abandoned(), [1]);
    assert_eq!(group.lost(), []);
    let observer = group.observer();
    drop(group);
    assert!(!observer.abort("too late"));
    assert_eq!(observer.snapshot().unwrap_err().status(), Status::STALE);
    drop(release);
    assert_eq!(ends.recv().unwrap(), Status::STALE);
}

#[test]
fn callbacks_are_called_and_may_panic() {
    let _turn = turn();
    let (sender, told) = channel::<(Stage, Option<usize>)>();
    let verdicts = Shared::new(sender);
    let asked = AtomicBool::new(false);
    let options = hasty()
        .name("told")
        .policy(Policy::Ask)
        .on_verdict(move |verdict: &Verdict| {
            assert_eq!((verdict.group.as_str(), verdict.ranks.len()), ("told", 2));
            verdicts.send((verdict.stage, verdict.rank));
            if verdict.stage == Stage::Expired && asked.swap(true, Ordering::SeqCst) {
                panic!("a panic says that the group cannot go on");
            }
            false
        })
        .slow(Duration::from_millis(1));
    let mut group = Group::open_first(2, options).unwrap();
    let mut comms = group.split().unwrap();
    let (_late, comm) = (comms.remove(1), comms.remove(0));
    let error = wait_for_the_others(&comm).unwrap_err();
    assert_eq!(error.status(), Status::STALLED);
    drop((_late, comm));
    group.close().unwrap();
    let told: Vec<_> = told.try_iter().collect();
    assert_eq!(told.iter().filter(|told| told.0 == Stage::Expired).count(), 2);
    assert_eq!(told.last(), Some(&(Stage::Ended, Some(1))));
    assert_eq!(told.iter().filter(|told| told.0 == Stage::Slow).count(), 1);
}

#[test]
fn no_callback_runs_after_an_abandoned_one_returns() {
    let _turn = turn();
    let abort = Some(Duration::from_millis(200));
    let (release, released) = channel::<()>();
    let (entered, inside) = channel();
    let (verdicts, told) = channel();
    let (released, entered, verdicts) =
        (Mutex::new(released), Shared::new(entered), Shared::new(verdicts));
    let is_first = AtomicBool::new(true);
    let options =
        options().deadlines(Deadlines { abort, ..Deadlines::default() }).on_verdict(move |_| {
            if is_first.swap(false, Ordering::SeqCst) {
                entered.send(());
                released.lock().unwrap().recv().unwrap_err();
            } else {
                verdicts.send(());
            }
            false
        });
    let mut group = Group::open_first(2, options).unwrap();
    group.abort("to leave its callback behind");
    inside.recv().unwrap();
    group.respawn(&[]).unwrap();
    assert_eq!(group.close().unwrap_err().status(), Status::WEDGED);
    // The abandoned thread returns from on_verdict, and must not call it again.
    drop(release);
    let none = told.recv_timeout(Duration::from_secs(60));
    assert_eq!(none, Err(RecvTimeoutError::Disconnected));
}

/// A panic payload that panics again when it is dropped.
struct Twice(u32);

impl Drop for Twice {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::panic_any(Twice(self.0 - 1));
        }
    }
}

#[test]
fn no_panic_escapes_from_functions_that_c_calls() {
    let _turn = turn();
    let tell = |_: &Verdict| std::panic::panic_any(Twice(1));
    let mut group = Group::open_first(2, options().on_verdict(tell)).unwrap();
    let error = group
        .run(|comm| match comm.rank() {
            0 => wait_for_the_others(comm),
            _ => std::panic::panic_any(Twice(2)),
        })
        .unwrap_err();
    assert_eq!((error.status(), error.rank()), (Status::WORKER, Some(1)));
    group.close().unwrap();
}

#[test]
fn scopes_end_when_dropped() {
    let _turn = turn();
    let mut group = Group::open_first(2, options()).unwrap();
    let mut comms = group.split().unwrap();
    let (late, comm) = (comms.remove(1), comms.remove(0));
    let join = Some(Duration::from_millis(100));
    let error = comm.push_deadlines(Deadlines { init: join, ..Deadlines::default() });
    assert_eq!(error.unwrap_err().status(), Status::INVALID);
    drop(comm.push_deadlines(Deadlines { join, ..Deadlines::default() }).unwrap());
    let ticket = comm.barrier().unwrap();
    let ticket = match ticket.wait_for(Duration::from_millis(150)).unwrap() {
        Waited::Pending(ticket) => ticket,
        Waited::Done(()) => panic!("nobody else has called"),
    };
    late.barrier().unwrap().wait().unwrap();
    ticket.wait().unwrap();

    let pause = late.pause().unwrap();
    let scope = comm.push_deadlines(Deadlines { join, ..Deadlines::default() }).unwrap();
    let ticket = comm.barrier().unwrap();
    assert!(!ticket.is_done().unwrap());
    drop(pause);
    let error = ticket.wait().unwrap_err();
    assert_eq!(error.error().status(), Status::STALLED);
    drop(scope);
    let quiet = cohort::quiet().unwrap();
    drop(quiet);
}

#[test]
fn bad_options_are_named() {
    let _turn = turn();
    let error = Group::open_first(2, options().recorder_slots(17)).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    assert!(error.text().contains("17"), "{}", error);
    let error = Group::open_first(2, options().log("nonne")).unwrap_err();
    assert!(error.text().contains("options->log is \"nonne\""), "{}", error);
    let error = Group::open_first(2, options().name("a\0b")).unwrap_err();
    assert_eq!(error.text(), "name contains a NUL");
    assert_eq!(Group::open_first(0, options()).unwrap_err().status(), Status::INVALID);
    assert_eq!(Group::open_devices(&[], options()).unwrap_err().status(), Status::INVALID);
    assert!(Group::open_devices(&[0, 0], options()).is_err());
    let mut group = Group::open_devices(&[3, 1], options()).unwrap();
    assert_eq!(group.devices(), [3, 1]);
    assert_eq!(group.run(|comm| Ok::<_, Error>(comm.device())).unwrap(), [3, 1]);
}
