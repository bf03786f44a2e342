// SPDX-License-Identifier: Apache-2.0

use std::borrow::Borrow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use cohort::{Comm, Error, Group, Op, Outcome, Parameter, Reducer, ReducerOptions, Status};

use super::{options, run, turn};

const COUNTS: [usize; 3] = [5, 300, 7];

fn parameters() -> Vec<Parameter> {
    let names = ["w1", "w2", "b"];
    names.iter().zip(COUNTS).map(|(name, count)| Parameter::new::<f32>(*name, count)).collect()
}

fn gradient(rank: usize, step: usize, i: usize) -> Vec<f32> {
    (0..COUNTS[i]).map(|k| (rank * 100 + step * 10 + i + k) as f32).collect()
}

fn mean(n: usize, step: usize, i: usize) -> Vec<f32> {
    let mut mean = vec![0.0; COUNTS[i]];
    for rank in 0..n {
        for (mean, value) in mean.iter_mut().zip(gradient(rank, step, i)) {
            *mean += value;
        }
    }
    mean.iter().map(|sum| sum / n as f32).collect()
}

#[test]
fn gradients_are_averaged_in_every_step() {
    run(3, |comm| {
        let mut reducer = Reducer::new(comm, parameters(), &ReducerOptions::default())?;
        for s in 0..3 {
            let mut step = reducer.begin()?;
            for i in (0..3).rev() {
                step.set(i, &gradient(comm.rank(), s, i))?;
            }
            assert_eq!(step.finish()?, Outcome::Averaged);
            for i in 0..3 {
                assert_eq!(reducer.read::<f32>(i)?, mean(3, s, i), "step {}, {}", s, i);
                assert_eq!(reducer.gradient::<f32>(i)?, mean(3, s, i));
            }
        }
        assert!(reducer.buckets() >= 1);
        assert_eq!(reducer.shard(1)?, 0..300);
        assert_eq!(reducer.gradient::<i32>(0).unwrap_err().status(), Status::INVALID);
        assert_eq!(reducer.gradient::<f32>(3).unwrap_err().status(), Status::INVALID);
        Ok(())
    });
}

#[test]
fn helpers_compute_gradients_concurrently_with_the_owner() {
    run(2, |comm| {
        let options = ReducerOptions { op: Some(Op::Sum), ..ReducerOptions::default() };
        let buffer = comm.alloc::<f32>(COUNTS[0])?;
        let mut list = parameters();
        list[0] = Parameter::with_buffer("w1", buffer);
        let mut reducer = Reducer::new(comm, list, &options)?;
        let step = reducer.begin()?;
        let helper = step.helper();
        thread::scope(|scope| {
            for i in 0..3 {
                scope.spawn(move || {
                    let values = gradient(0, 0, i);
                    helper.update(i, |own: &mut [f32]| own.copy_from_slice(&values)).unwrap();
                    let again = helper.set(i, &values).unwrap_err();
                    assert_eq!(again.status(), Status::STATE);
                    assert!(!helper.ready(i).unwrap());
                });
            }
            assert!(step.progress(Duration::MAX).unwrap());
        });
        assert_eq!(step.finish()?, Outcome::Averaged);
        for i in 0..3 {
            let twice: Vec<f32> = gradient(0, 0, i).iter().map(|value| 2.0 * value).collect();
            assert_eq!(reducer.gradient::<f32>(i)?, twice);
        }
        Ok(())
    });
}

#[test]
fn finish_returns_a_step_that_is_not_ready() {
    run(2, |comm| {
        let mut reducer = Reducer::new(comm, parameters(), &ReducerOptions::default())?;
        let mut step = reducer.begin()?;
        step.set(0, &gradient(0, 0, 0))?;
        assert_eq!(step.set(1, &[1.0_f32]).unwrap_err().status(), Status::INVALID);
        step.set(1, &gradient(0, 0, 1))?;
        let failed = step.finish().unwrap_err();
        assert_eq!(failed.error().status(), Status::STATE);
        assert!(failed.error().text().contains('b'), "{}", failed);
        let mut step = failed.into_parts().1.unwrap();
        step.set(2, &gradient(0, 0, 2))?;
        step.finish()?;
        Ok(())
    });
}

#[test]
fn canceled_step_is_skipped_by_all_ranks() {
    run(2, |comm| {
        let mut reducer = Reducer::new(comm, parameters(), &ReducerOptions::default())?;
        let mut step = reducer.begin()?;
        if comm.rank() == 1 {
            step.set(2, &gradient(1, 0, 2))?;
            step.cancel()?;
        } else {
            for i in 0..3 {
                step.set(i, &gradient(0, 0, i))?;
            }
            assert_eq!(step.finish()?, Outcome::Skipped);
        }
        let mut step = reducer.begin()?;
        for i in 0..3 {
            step.set(i, &gradient(comm.rank(), 1, i))?;
        }
        step.finish()?;
        assert_eq!(reducer.read::<f32>(1)?, mean(2, 1, 1));
        Ok(())
    });
}

#[test]
fn dropped_step_ends_the_group_immediately() {
    let _turn = turn();
    let mut group = Group::open_first(2, options()).unwrap();
    let error = group
        .run(|comm| {
            let mut reducer = Reducer::new(comm, parameters(), &ReducerOptions::default())?;
            let mut step = reducer.begin()?;
            if comm.rank() == 1 {
                drop(step);
                let error = reducer.gradient::<f32>(0).unwrap_err();
                assert_eq!(error.status(), Status::STATE);
                return Ok(());
            }
            for i in 0..3 {
                step.set(i, &gradient(0, 0, i))?;
            }
            step.finish()?;
            Ok::<_, Error>(())
        })
        .unwrap_err();
    assert_eq!((error.status(), error.rank()), (Status::WORKER, Some(1)));
    assert!(error.text().contains("its reducer's step was dropped"), "{}", error);
}

#[test]
fn ranks_without_data_join_until_no_rank_has_data() {
    run(2, |comm| {
        let options = ReducerOptions { weighted: true, ..ReducerOptions::default() };
        let list = vec![Parameter::new::<f64>("w", 2)];
        let mut reducer = Reducer::new(comm, list, &options)?;
        assert_eq!(reducer.begin().unwrap_err().status(), Status::INVALID);
        let mut steps = 0;
        if comm.rank() == 0 {
            for batch in [3.0, 1.0] {
                let mut step = reducer.begin_weighted(batch)?;
                step.set(0, &[batch, 1.0])?;
                step.finish()?;
                assert_eq!(reducer.read::<f64>(0)?, [batch, 1.0]);
                steps += 1;
            }
        }
        while let Some(outcome) = reducer.join()? {
            assert_eq!(outcome, Outcome::Averaged);
            steps += 1;
        }
        assert_eq!(steps, 2);
        Ok(())
    });
}

#[test]
fn refused_calls_do_not_end_a_forgotten_step() {
    let _turn = turn();
    let mut group = Group::open_first(2, options()).unwrap();
    let mut comms = group.split().unwrap();
    let (_late, comm) = (comms.remove(1), comms.remove(0));
    let mut reducer = Reducer::new(&comm, parameters(), &ReducerOptions::default()).unwrap();
    let mut step = reducer.begin().unwrap();
    for i in 0..3 {
        step.set(i, &gradient(0, 0, i)).unwrap();
    }
    // Buckets are in flight, so the library will still write the gradients.
    std::mem::forget(step);
    assert!(reducer.join().is_err());
    assert_eq!(reducer.gradient::<f32>(0).unwrap_err().status(), Status::STATE);
}

/// Lends the communicator that the counter selects; a safe `Borrow` may do that.
struct Lender([Comm; 2], AtomicUsize);

impl Borrow<Comm> for Lender {
    fn borrow(&self) -> &Comm {
        &self.0[usize::from(self.1.fetch_add(1, Ordering::SeqCst) > 0)]
    }
}

#[test]
fn reducer_refuses_another_comm_than_the_first_lent() {
    let _turn = turn();
    let mut groups = [1, 1].map(|n| Group::open_first(n, options()).unwrap()).into_iter();
    let (mut kept, mut closed) = (groups.next().unwrap(), groups.next().unwrap());
    let lender = Lender(
        [kept.split().unwrap().remove(0), closed.split().unwrap().remove(0)],
        AtomicUsize::new(0),
    );
    let mut reducer = Reducer::new(lender, parameters(), &ReducerOptions::default()).unwrap();
    closed.close().unwrap();
    let mut step = reducer.begin().unwrap();
    for i in 0..3 {
        step.set(i, &gradient(0, 0, i)).unwrap();
    }
    step.finish().unwrap();
    assert_eq!(reducer.gradient::<f32>(0).unwrap(), gradient(0, 0, 0));
}

#[test]
fn accumulated_gradients_are_sharded_and_gathered() {
    run(2, |comm| {
        let options = ReducerOptions { sharded: true, ..ReducerOptions::default() };
        let list = vec![Parameter::new::<f32>("w", 4)];
        let mut reducer = Reducer::new(comm, list, &options)?;
        let mut pass = reducer.accumulate()?;
        pass.set(0, &[1.0_f32; 4])?;
        pass.finish()?;
        let step = reducer.begin()?;
        step.update(0, |own: &mut [f32]| own.iter_mut().for_each(|value| *value += 1.0))?;
        step.finish()?;
        let own = reducer.shard(0)?;
        assert_eq!(own, 2 * comm.rank()..2 * comm.rank() + 2);
        let mut weights = vec![0.0_f32; 4];
        for k in own {
            weights[k] = reducer.gradient::<f32>(0)?[k] + k as f32;
        }
        let gathered = reducer.gather(vec![comm.buffer_of(&weights)?])?;
        assert_eq!(comm.read(&gathered[0])?, [2.0, 3.0, 4.0, 5.0]);
        let failed = reducer.gather(vec![comm.alloc::<f32>(5)?]).unwrap_err();
        assert_eq!(failed.error().text(), "parameter 0 has 5 elements, not 4");
        Ok(())
    });
}

#[test]
fn reducer_can_own_its_comm_on_another_thread() {
    let _turn = turn();
    let mut group = Group::open_first(2, options()).unwrap();
    let workers = group.split().unwrap().into_iter().map(|comm: Comm| {
        let list = vec![Parameter::new::<i64>("n", 1)];
        let options = ReducerOptions { op: Some(Op::Sum), ..ReducerOptions::default() };
        let mut reducer = Reducer::new(comm, list, &options).unwrap();
        thread::spawn(move || {
            let mut step = reducer.begin().unwrap();
            step.set(0, &[21_i64]).unwrap();
            step.finish().unwrap();
            assert_eq!(reducer.comm().size(), 2);
            reducer.read::<i64>(0).unwrap()[0]
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        assert_eq!(worker.join().unwrap(), 42);
    }
    group.close().unwrap();
}
