// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;
use std::time::Duration;

use cohort::{Bf16, Comm, Element, Op, Result, Status, F16, F8E4M3, F8E5M2};

use super::{options, run, turn};

const LONG: Duration = Duration::from_secs(60);

/// Elements of a rank that differ from those of others: 10 * rank + i.
fn own(rank: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| (10 * rank + i) as f32).collect()
}

/// The sums of `own()` over `n` ranks.
fn sums(n: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| (0..n).map(|rank| (10 * rank + i) as f32).sum()).collect()
}

#[test]
fn reductions_are_those_of_arithmetic() {
    run(3, |comm| {
        let (rank, sum) = (comm.rank(), sums(3, 6));
        let data = comm.buffer_of(&own(rank, 6))?;
        let data = comm.all_reduce(data, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&data)?, sum);

        let (send, recv) = (comm.buffer_of(&own(rank, 6))?, comm.alloc(6)?);
        let (send, recv) = comm.all_reduce_into(send, recv, Op::Sum)?.wait()?;
        assert_eq!((comm.read(&send)?, comm.read(&recv)?), (own(rank, 6), sum.clone()));

        let data = comm.reduce(send, Op::Sum, 1)?.wait()?;
        if rank == 1 {
            assert_eq!(comm.read(&data)?, sum);
        }
        let recv = comm.alloc(2)?;
        let send = comm.buffer_of(&own(rank, 6))?;
        let (send, recv) = comm.reduce_scatter(send, recv, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&recv)?, sum[2 * rank..2 * rank + 2]);
        let data = comm.reduce_scatter_in_place(send, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&data)?[2 * rank..2 * rank + 2], sum[2 * rank..2 * rank + 2]);
        Ok(())
    });
}

#[test]
fn copies_arrive_where_they_should() {
    run(3, |comm| {
        let rank = comm.rank();
        let all: Vec<f32> = (0..3).flat_map(|rank| own(rank, 2)).collect();

        let data = comm.broadcast(comm.buffer_of(&own(rank, 4))?, 2)?.wait()?;
        assert_eq!(comm.read(&data)?, own(2, 4));

        let (send, recv) = (Arc::new(comm.buffer_of(&own(rank, 2))?), comm.alloc(6)?);
        let (_, recv) = comm.all_gather(send.clone(), recv)?.wait()?;
        assert_eq!(comm.read(&recv)?, all);
        let mut part = vec![0.0; 6];
        part[2 * rank..2 * rank + 2].copy_from_slice(&own(rank, 2));
        let data = comm.all_gather_in_place(comm.buffer_of(&part)?)?.wait()?;
        assert_eq!(comm.read(&data)?, all);

        let recv = if rank == 1 { Some(comm.alloc(6)?) } else { None };
        let (_, recv) = comm.gather(send, recv, 1)?.wait()?;
        if let Some(recv) = recv {
            assert_eq!(comm.read(&recv)?, all);
        }
        let send = if rank == 0 { Some(comm.buffer_of(&all)?) } else { None };
        let (_, recv) = comm.scatter(send, comm.alloc(2)?, 0)?.wait()?;
        assert_eq!(comm.read(&recv)?, own(rank, 2));

        let to_each: Vec<f32> = (0..3).map(|to| (10 * rank + to) as f32).collect();
        let (send, recv) = (comm.buffer_of(&to_each)?, comm.alloc(3)?);
        let (_, recv) = comm.all_to_all(send, recv)?.wait()?;
        let from_each: Vec<f32> = (0..3).map(|from| (10 * from + rank) as f32).collect();
        assert_eq!(comm.read(&recv)?, from_each);
        comm.barrier()?.wait()?;
        Ok(())
    });
}

#[test]
fn sends_and_receives_go_round_in_a_batch() {
    run(3, |comm| {
        let (rank, before, after) = (comm.rank(), (comm.rank() + 2) % 3, (comm.rank() + 1) % 3);
        let (send, recv) = (comm.buffer_of(&own(rank, 5))?, comm.alloc::<f32>(5)?);
        let integers = comm.buffer_of(&[1_i64 + rank as i64])?;
        let mut batch = comm.batch()?;
        assert_eq!(comm.barrier().unwrap_err().status(), Status::STATE);
        let sent = batch.send(send, after)?;
        let got = batch.recv(recv, before)?;
        let summed = batch.all_reduce(integers, Op::Prod)?;
        let mut done = batch.end()?.wait()?;
        assert_eq!(comm.read(&done.take(sent))?, own(rank, 5));
        assert_eq!(comm.read(&done.take(got))?, own(before, 5));
        assert_eq!(comm.read(&done.take(summed))?, [6]);
        comm.barrier()?.wait()?;

        // Alone: rank 0 sends first, and receives last.
        let data = comm.buffer_of(&own(rank, 1))?;
        if rank == 0 {
            let data = comm.send(data, 1)?.wait()?;
            assert_eq!(comm.read(&comm.recv(data, 2)?.wait()?)?, own(0, 1));
        } else {
            let data = comm.recv(data, before)?.wait()?;
            comm.send(data, after)?.wait()?;
        }
        Ok(())
    });
}

#[test]
fn a_batch_with_a_refused_call_launches_nothing() {
    run(2, |comm| {
        let mut batch = comm.batch()?;
        let kept = batch.all_reduce(comm.alloc::<f32>(3)?, Op::Sum)?;
        let refused = batch.broadcast(comm.alloc::<f32>(2)?, 7).unwrap_err();
        assert_eq!(refused.error().status(), Status::INVALID);
        assert_eq!(refused.into_parts().1.map(|buffer| buffer.len()), Some(2));
        let (error, back) = batch.end().unwrap_err().into_parts();
        assert_eq!((error.status(), error.call()), (Status::INVALID, "cohort_batch_end"));
        assert_eq!(back.unwrap().take(kept).len(), 3);

        // A check of this crate's, which C does not know of.
        let mut batch = comm.batch()?;
        let refused = batch.all_gather(comm.alloc::<u8>(1)?, comm.alloc::<u8>(1)?);
        assert_eq!(refused.unwrap_err().error().text(), "recv has 1 elements, not 2");
        assert_eq!(batch.end().unwrap_err().error().status(), Status::INVALID);

        // Dropped: none is open, and the ranks are still in step.
        drop(comm.batch()?);
        let sum = comm.all_reduce(comm.buffer_of(&[1_u8])?, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&sum)?, [2]);
        Ok(())
    });
}

#[test]
fn lists_are_one_operation() {
    run(2, |comm| {
        let rank = comm.rank();
        let list = (1..4).map(|count| comm.buffer_of(&own(rank, count)));
        let list = list.collect::<Result<Vec<_>>>()?;
        let list = comm.all_reduce_many(list, Op::Sum)?.wait()?;
        for (buffer, count) in list.iter().zip(1..) {
            assert_eq!(comm.read(buffer)?, sums(2, count));
        }
        let list = vec![comm.buffer_of(&own(rank, 2))?, comm.buffer_of(&own(rank, 3))?];
        let list = comm.broadcast_many(list, 1)?.wait()?;
        assert_eq!(comm.read(&list[1])?, own(1, 3));
        let pairs = vec![(comm.buffer_of(&own(rank, 1))?, comm.alloc(2)?)];
        let pairs = comm.all_gather_many(pairs)?.wait()?;
        assert_eq!(comm.read(&pairs[0].1)?, [0.0, 10.0]);
        let pairs = vec![(comm.buffer_of(&own(rank, 2))?, comm.alloc(1)?)];
        let pairs = comm.reduce_scatter_many(pairs, Op::Max)?.wait()?;
        assert_eq!(comm.read(&pairs[0].1)?, [10.0 + rank as f32]);
        Ok(())
    });
}

#[test]
fn each_reduction_is_its_own() {
    run(3, |comm| {
        let value = comm.rank() as i32 + 2;
        let wanted = [(Op::Sum, 9), (Op::Prod, 24), (Op::Max, 4), (Op::Min, 2), (Op::Avg, 3)];
        for (op, want) in wanted {
            let data = comm.all_reduce(comm.buffer_of(&[value])?, op)?.wait()?;
            assert_eq!(comm.read(&data)?, [want], "{:?}", op);
        }
        let factor = comm.premul_sum(10.0_f64 * comm.rank() as f64)?;
        let data = comm.all_reduce(comm.buffer_of(&[1.0_f64])?, &factor)?.wait()?;
        assert_eq!(comm.read(&data)?, [30.0]);
        Ok(())
    });
}

fn sum_of<T: Element + PartialEq + std::fmt::Debug>(comm: &Comm, one: T, two: T, three: T) {
    let own = if comm.rank() == 0 { one } else { two };
    let data = comm.buffer_of(&[own; 33]).unwrap();
    let data = comm.all_reduce(data, Op::Sum).unwrap().wait().unwrap();
    assert_eq!(comm.read(&data).unwrap(), [three; 33], "{}", T::DTYPE.name());
    let mut host = [own; 5];
    comm.all_reduce_host(&mut host, Op::Sum, LONG).unwrap();
    assert_eq!(host, [three; 5], "{}", T::DTYPE.name());
    assert_eq!(T::DTYPE.size(), std::mem::size_of::<T>());
}

#[test]
fn every_type_is_summed() {
    run(2, |comm| {
        sum_of(comm, 1_i8, 2, 3);
        sum_of(comm, 1_u8, 2, 3);
        sum_of(comm, 1_i32, 2, 3);
        sum_of(comm, 1_u32, 2, 3);
        sum_of(comm, 1_i64, 2, 3);
        sum_of(comm, 1_u64, 2, 3);
        sum_of(comm, 1_f32, 2.0, 3.0);
        sum_of(comm, 1_f64, 2.0, 3.0);
        sum_of(comm, F16(0x3c00), F16(0x4000), F16(0x4200));
        sum_of(comm, Bf16(0x3f80), Bf16(0x4000), Bf16(0x4040));
        sum_of(comm, F8E4M3(0x38), F8E4M3(0x40), F8E4M3(0x44));
        sum_of(comm, F8E5M2(0x3c), F8E5M2(0x40), F8E5M2(0x42));
        Ok(())
    });
}

#[test]
fn calls_with_host_memory_do_the_same() {
    run(3, |comm| {
        let rank = comm.rank();
        let all: Vec<f32> = (0..3).flat_map(|rank| own(rank, 2)).collect();
        let mut data = own(rank, 4);
        comm.broadcast_host(&mut data, 1, LONG)?;
        assert_eq!(data, own(1, 4));
        let mut data = own(rank, 4);
        comm.reduce_host(&mut data, Op::Sum, 2, LONG)?;
        assert_eq!(data, if rank == 2 { sums(3, 4) } else { own(rank, 4) });
        let mut recv = vec![0.0; 6];
        comm.all_gather_host(&own(rank, 2), &mut recv, LONG)?;
        assert_eq!(recv, all);
        let mut part = vec![0.0; 2];
        comm.reduce_scatter_host(&own(rank, 6), &mut part, Op::Sum, LONG)?;
        assert_eq!(part, sums(3, 6)[2 * rank..2 * rank + 2]);
        let mut recv = vec![0.0; if rank == 0 { 6 } else { 0 }];
        comm.gather_host(&own(rank, 2), &mut recv, 0, LONG)?;
        let send = if rank == 0 { all } else { vec![] };
        assert_eq!(recv, send);
        comm.scatter_host(&send, &mut part, 0, LONG)?;
        assert_eq!(part, own(rank, 2));
        let (send, mut recv) = ([rank as u8; 3], [9; 3]);
        comm.all_to_all_host(&send, &mut recv, LONG)?;
        assert_eq!(recv, [0, 1, 2]);
        match rank {
            0 => comm.send_host(&[7_i32], 1, LONG)?,
            1 => {
                let mut got = [0];
                comm.recv_host(&mut got, 0, LONG)?;
                assert_eq!(got, [7]);
            }
            _ => {}
        }
        Ok(())
    });
}

#[test]
fn operations_follow_each_other_without_a_wait() {
    run(2, |comm| {
        let buffer = comm.alloc(4)?;
        let copied = comm.upload(buffer, own(comm.rank(), 4))?;
        let summed = comm.all_reduce(copied, Op::Sum)?;
        let doubled = comm.all_reduce(summed, Op::Sum)?;
        let ((buffer, _), twice) = comm.download(doubled, vec![0.0; 4])?.wait()?;
        assert_eq!(twice, sums(2, 4).iter().map(|sum| 2.0 * sum).collect::<Vec<_>>());
        let ticket = comm.all_reduce(buffer, Op::Avg)?;
        let buffer = ticket.wait()?;
        assert_eq!(comm.read(&buffer)?, twice);
        Ok(())
    });
}

#[test]
fn registered_memory_and_the_program_s_own_are_buffers() {
    run(2, |comm| {
        let mut registered = comm.alloc_registered::<f32>(3)?;
        comm.write(&mut registered, &own(comm.rank(), 3))?;
        let registered = comm.all_reduce(registered, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&registered)?, sums(2, 3));
        // The host platform takes memory of the process, too.
        let mut own = own(comm.rank(), 3);
        // SAFETY: it lives until the ticket was waited for, and nothing else uses it.
        let buffer = unsafe { comm.buffer_at(own.as_mut_ptr(), own.len()) };
        let buffer = comm.all_reduce(buffer, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&buffer)?, sums(2, 3));
        drop(buffer);
        assert_eq!(own, sums(2, 3));
        Ok(())
    });
}

#[test]
fn wrong_sizes_are_named_and_change_nothing() {
    run(2, |comm| {
        let (send, recv) = (comm.buffer_of(&[1.0_f32; 3])?, comm.alloc::<f32>(5)?);
        let failed = comm.all_gather(send, recv).unwrap_err();
        assert_eq!(failed.error().status(), Status::INVALID);
        assert_eq!(failed.error().call(), "cohort_all_gather");
        assert_eq!(failed.error().text(), "recv has 5 elements, not 6");
        let (_, back) = failed.into_parts();
        let (send, recv) = back.unwrap();
        let failed = comm.all_to_all(send, recv).unwrap_err();
        assert_eq!(failed.error().text(), "recv has 5 elements, not 3");
        let send = failed.into_parts().1.unwrap().0;
        let failed = comm.reduce_scatter_in_place(send, Op::Sum).unwrap_err();
        let text = "data has 3 elements, which is no multiple of 2 ranks";
        assert_eq!(failed.error().text(), text);
        let failed = comm.broadcast(failed.into_parts().1.unwrap(), 9).unwrap_err();
        assert!(failed.error().text().contains("root is 9"), "{}", failed);
        assert_eq!(failed.error().rank(), None);
        let error = comm.all_gather_host(&[1], &mut [0; 3], LONG).unwrap_err();
        assert_eq!(error.text(), "recv has 3 elements, not 2");
        let mut buffer = failed.into_parts().1.unwrap();
        let error = comm.write(&mut buffer, &[1.0]).unwrap_err();
        assert_eq!(error.text(), "the slice of the host has 1 elements, not 3");
        assert_eq!(comm.split(Some(-3), 0).unwrap_err().status(), Status::INVALID);
        assert!(comm.alloc::<u64>(usize::MAX / 4).is_err());

        let sum = comm.all_reduce(buffer, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&sum)?, [2.0; 3]);
        Ok(())
    });
}

#[test]
fn splits_have_their_own_ranks() {
    run(4, |comm| {
        let color = (comm.rank() < 3).then(|| (comm.rank() % 2) as i32);
        let child = comm.split(color, -(comm.rank() as i32))?;
        let child = match child {
            None => {
                assert_eq!(comm.rank(), 3);
                return Ok(());
            }
            Some(child) => child,
        };
        let wanted = if comm.rank() == 1 { (0, 1) } else { (1 - comm.rank() / 2, 2) };
        assert_eq!((child.rank(), child.size()), wanted);
        assert_eq!(child.origin(), comm.rank());
        assert_eq!(child.group_rank(child.rank()), Some(comm.rank()));
        assert_eq!(child.group_rank(child.size()), None);
        assert_eq!(child.group_rank(usize::MAX), None);
        // The parent's buffer, in the child's call.
        let buffer = comm.buffer_of(&[comm.rank() as i32])?;
        let buffer = child.all_reduce(buffer, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&buffer)?, [if comm.rank() == 1 { 1 } else { 2 }]);
        // A buffer that is in flight here is not for the other communicator.
        let ticket = child.all_reduce(buffer, Op::Sum)?;
        let refused = comm.broadcast(ticket, 0).unwrap_err();
        assert_eq!(refused.error().status(), Status::INVALID);
        refused.into_parts().1.unwrap().wait()?;
        child.close()?;
        assert_eq!(child.close().unwrap_err().status(), Status::STATE);
        assert_eq!(child.barrier().unwrap_err().status(), Status::STALE);
        Ok(())
    });
}

#[test]
fn ranks_can_join_by_an_id() {
    let _turn = turn();
    let id = cohort::UniqueId::new().unwrap();
    let id = cohort::UniqueId::from_bytes(id.to_bytes());
    let joins = (0..2).map(|rank| {
        std::thread::spawn(move || {
            let comm = Comm::join(&id, 2, rank, rank as i32, options()).unwrap();
            let sum = comm.all_reduce(comm.buffer_of(&[1_i32]).unwrap(), Op::Sum).unwrap();
            let sum = sum.wait().unwrap();
            assert_eq!(comm.read(&sum).unwrap(), [2]);
            drop(sum);
            comm.close().unwrap();
        })
    });
    for join in joins.collect::<Vec<_>>() {
        join.join().unwrap();
    }
    let error = Comm::join(&id, 2, 5, 0, options()).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
}
