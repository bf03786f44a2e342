// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;
use std::time::Duration;

use cohort::{
    AnyBuffer, Bf16, Buffer, Comm, DType, Element, Op, Result, Status, F16, F8E4M3, F8E5M2,
};

use super::{options, run, turn};

const LONG: Duration = Duration::from_secs(60);

/// Return elements that differ between ranks: 10 * rank + i.
fn own(rank: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| (10 * rank + i) as f32).collect()
}

/// Return the sums of `own()` over `n` ranks.
fn sums(n: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| (0..n).map(|rank| (10 * rank + i) as f32).sum()).collect()
}

#[test]
fn reductions_compute_the_expected_values() {
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
fn broadcast_gather_scatter_and_all_to_all_move_the_right_blocks() {
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
fn batched_sends_and_receives_pass_data_around_a_ring() {
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

        // Without a batch, rank 0 must send first and receive last.
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
fn batch_with_a_refused_call_launches_nothing() {
    run(2, |comm| {
        let mut batch = comm.batch()?;
        let kept = batch.all_reduce(comm.alloc::<f32>(3)?, Op::Sum)?;
        let refused = batch.broadcast(comm.alloc::<f32>(2)?, 7).unwrap_err();
        assert_eq!(refused.error().status(), Status::INVALID);
        assert_eq!(refused.into_parts().1.map(|buffer| buffer.len()), Some(2));
        let (error, back) = batch.end().unwrap_err().into_parts();
        assert_eq!((error.status(), error.call()), (Status::INVALID, "cohort_batch_end"));
        assert_eq!(back.unwrap().take(kept).len(), 3);

        // This crate refuses the call, and C never learns of it.
        let mut batch = comm.batch()?;
        let refused = batch.all_gather(comm.alloc::<u8>(1)?, comm.alloc::<u8>(1)?);
        assert_eq!(refused.unwrap_err().error().text(), "recv has 1 elements, not 2");
        assert_eq!(batch.end().unwrap_err().error().status(), Status::INVALID);

        // Dropping a batch must close it and keep the ranks in step.
        drop(comm.batch()?);
        let sum = comm.all_reduce(comm.buffer_of(&[1_u8])?, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&sum)?, [2]);
        Ok(())
    });
}

#[test]
fn calls_on_lists_are_one_operation() {
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
        Ok(())
    });
}

#[test]
fn each_op_and_a_premul_sum_compute_their_results() {
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
fn all_element_types_are_summed() {
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

#[cfg(feature = "half")]
#[test]
fn float_types_of_the_crate_half_are_summed() {
    use half::{bf16, f16};

    let [one, two, three] = [0x3c00, 0x4000, 0x4200].map(f16::from_bits);
    let [bf_one, bf_two, bf_three] = [0x3f80, 0x4000, 0x4040].map(bf16::from_bits);
    run(2, move |comm| {
        sum_of(comm, one, two, three);
        sum_of(comm, bf_one, bf_two, bf_three);
        Ok(())
    });
}

#[test]
fn elements_without_arithmetic_are_moved_and_not_summed() {
    run(2, |comm| {
        let mut data = [comm.rank() as i16 - 300; 3];
        comm.broadcast_host(&mut data, 1, LONG)?;
        assert_eq!(data, [-299; 3]);
        let error = comm.all_reduce_host(&mut data, Op::Sum, LONG).unwrap_err();
        assert!(error.to_string().contains("type is int16, which cannot be reduced"), "{}", error);
        Ok(())
    });
}

#[test]
fn host_calls_compute_the_same_values() {
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
                match comm.recv_host(&mut got, 0, Duration::ZERO) {
                    Err(error) if error.status() == Status::TIMED_OUT => {
                        comm.wait_host(&mut got, LONG)?
                    }
                    other => other?,
                }
                assert_eq!(got, [7]);
            }
            _ => {}
        }
        Ok(())
    });
}

#[test]
fn operation_takes_the_ticket_of_an_operation_in_flight() {
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
fn registered_and_borrowed_memory_work_as_buffers() {
    run(2, |comm| {
        let mut registered = comm.alloc_registered::<f32>(3)?;
        comm.write(&mut registered, &own(comm.rank(), 3))?;
        let registered = comm.all_reduce(registered, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&registered)?, sums(2, 3));
        // On the host platform, device memory is host memory.
        let mut own = own(comm.rank(), 3);
        // SAFETY: it lives until the ticket is done, and nothing else uses it.
        let buffer = unsafe { comm.buffer_at(own.as_mut_ptr(), own.len()) };
        let buffer = comm.all_reduce(buffer, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&buffer)?, sums(2, 3));
        drop(buffer);
        assert_eq!(own, sums(2, 3));
        Ok(())
    });
}

#[test]
fn wrong_sizes_are_named_and_have_no_effect() {
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
        let text = "data has 3 elements, not a multiple of 2 ranks";
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
fn split_comms_have_their_own_ranks() {
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
        // The child's call may use the parent's buffer.
        let buffer = comm.buffer_of(&[comm.rank() as i32])?;
        let buffer = child.all_reduce(buffer, Op::Sum)?.wait()?;
        assert_eq!(comm.read(&buffer)?, [if comm.rank() == 1 { 1 } else { 2 }]);
        // A buffer in flight on one communicator cannot be used on another.
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
fn ranks_join_by_id() {
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

#[test]
fn buffers_with_run_time_types_give_the_same_results() {
    run(3, |comm| {
        let (rank, sum) = (comm.rank(), sums(3, 6));
        let data = AnyBuffer::from(comm.buffer_of(&own(rank, 6))?);
        assert_eq!((data.dtype(), data.len()), (DType::F32, 6));
        let data = comm.all_reduce(data, Op::Sum)?.wait()?;
        let data: Buffer<f32> = data.downcast().unwrap();
        assert_eq!(comm.read(&data)?, sum);

        let send = AnyBuffer::from(data);
        let recv = comm.alloc_any(DType::F32, 2)?;
        let (_, recv) = comm.reduce_scatter(send, recv, Op::Max)?.wait()?;
        let recv = comm.read(&recv.downcast::<f32>().unwrap())?;
        assert_eq!(recv, sum[2 * rank..2 * rank + 2]);

        let gathered = if rank == 1 { Some(comm.alloc_any(DType::I64, 3)?) } else { None };
        let send = AnyBuffer::from(comm.buffer_of(&[rank as i64])?);
        let (_, gathered) = comm.gather(send, gathered, 1)?.wait()?;
        if let Some(gathered) = gathered {
            assert_eq!(comm.read(&gathered.downcast::<i64>().unwrap())?, [0, 1, 2]);
        }

        let data = AnyBuffer::from(comm.buffer_of(&[10 * rank as i32, 0, 0])?);
        assert!(data.is_empty() || !data.as_ptr().is_null());
        let mut batch = comm.batch()?;
        let slot = batch.all_reduce(data, Op::Sum)?;
        let data = batch.end()?.wait()?.take(slot);
        assert_eq!(comm.read(&data.downcast::<i32>().unwrap())?, [30, 0, 0]);
        Ok(())
    });
}

#[test]
fn buffers_of_different_run_time_types_are_refused() {
    run(1, |comm| {
        let (send, recv) = (comm.alloc_any(DType::I32, 4)?, comm.alloc_any(DType::F32, 4)?);
        let failed = comm.all_reduce_into(send, recv, Op::Sum).unwrap_err();
        assert_eq!(failed.error().status(), Status::INVALID);
        assert!(failed.error().to_string().contains("recv has float32, but send has int32"));
        let (send, _) = failed.into_parts().1.unwrap();
        let send = send.downcast::<f32>().unwrap_err();
        assert_eq!((send.dtype(), send.len()), (DType::I32, 4));

        let error = comm.alloc_any(DType::F64, usize::MAX / 4).unwrap_err();
        assert_eq!(error.status(), Status::INVALID);
        Ok(())
    });
}
