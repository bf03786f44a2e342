// SPDX-License-Identifier: Apache-2.0

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use cohort::sim::{self, Kind};
use cohort::{Error, Group, GroupBuffer, Op, Status};

use super::{hasty, options, turn};

/// Upload `10 * rank + i` to each rank.
fn numbered(group: &Group, len: usize) -> GroupBuffer<'_, i32> {
    let rows = (0..group.size() as i32).map(|r| (0..len as i32).map(|i| 10 * r + i).collect());
    group.upload(group.alloc(len).unwrap(), rows.collect()).unwrap().wait().unwrap().0
}

/// Return the elements of each rank.
fn rows(group: &Group, data: GroupBuffer<'_, i32>) -> Vec<Vec<i32>> {
    let rows = vec![vec![0; data.len()]; group.size()];
    group.download(data, rows).unwrap().wait().unwrap().1
}

#[test]
fn group_level_calls_compute_the_values_of_all_ranks() {
    let _turn = turn();
    let group = Group::open_first(3, options()).unwrap();
    let sum = group.all_reduce(numbered(&group, 2), Op::Sum).unwrap();
    let root = group.broadcast(numbered(&group, 2), 1).unwrap().wait().unwrap();
    assert_eq!(rows(&group, root), vec![vec![10, 11]; 3]);
    while !sum.wait_for(Duration::from_millis(10)).unwrap() {}
    assert_eq!(rows(&group, sum.wait().unwrap()), vec![vec![30, 33]; 3]);

    let empty = group.all_reduce(group.alloc::<f64>(0).unwrap(), Op::Max).unwrap().wait().unwrap();
    assert!(empty.is_empty());
    drop(empty);
    group.close().unwrap();
}

#[test]
fn group_calls_name_wrong_arguments_and_return_the_buffers() {
    let _turn = turn();
    let group = Group::open_first(2, options()).unwrap();
    let fails = |failed: (Error, Option<GroupBuffer<'_, i32>>), text: &str| {
        assert_eq!(failed.0.status(), Status::INVALID);
        assert!(failed.0.text().contains(text), "{}", failed.0);
        assert_eq!(failed.1.unwrap().len(), 2);
    };
    let data = || group.alloc::<i32>(2).unwrap();
    fails(group.broadcast(data(), 7).unwrap_err().into_parts(), "root is 7");
    let (error, back) = group.upload(data(), vec![vec![1, 2]]).unwrap_err().into_parts();
    fails((error, back.map(|back| back.0)), "there are 1 rows for 2 ranks");
    let uneven = vec![vec![1, 2], vec![1]];
    let (error, back) = group.upload(data(), uneven).unwrap_err().into_parts();
    fails((error, back.map(|back| back.0)), "row 1 has 1 elements, not 2");
    let other = Group::open_devices(&[2, 3], options()).unwrap();
    let of_other = other.alloc(2).unwrap();
    let refused = group.all_reduce(of_other, Op::Sum).unwrap_err().into_parts();
    fails(refused, "the buffer belongs to another group");
    let error = group.alloc::<f64>(usize::MAX / 4).unwrap_err();
    assert_eq!((error.status(), error.call()), (Status::INVALID, "cohort_group_alloc"));
}

#[test]
fn group_level_calls_are_refused_after_a_split() {
    let _turn = turn();
    let mut group = Group::open_first(2, options()).unwrap();
    drop(group.split().unwrap());
    let error = group.all_reduce(group.alloc::<f32>(1).unwrap(), Op::Sum).unwrap_err();
    assert_eq!(error.error().status(), Status::STATE);
    drop(error);
    group.close().unwrap();
}

#[test]
fn failed_group_calls_return_the_cause_and_their_buffers() {
    let _turn = turn();
    let mut group = Group::open_first(3, hasty()).unwrap();
    let data = numbered(&group, 2);
    sim::fault(Some(1), 0, Kind::Never).unwrap();
    let (error, data) = group.all_reduce(data, Op::Sum).unwrap().wait().unwrap_err().into_parts();
    assert_eq!(error.status(), Status::STALLED, "{}", error);
    assert_eq!(data.unwrap().len(), 2);

    group.respawn(&[1]).unwrap();
    let data = numbered(&group, 2);
    assert_eq!(group.size(), 2);
    sim::fault(Some(1), 0, Kind::Error(3)).unwrap();
    let (error, data) = group.all_reduce(data, Op::Sum).unwrap_err().into_parts();
    assert_eq!((error.status(), error.rank()), (Status::NCCL, Some(1)), "{}", error);
    assert_eq!(data.unwrap().len(), 2);
}

#[test]
fn threads_take_turns_in_group_level_calls() {
    let _turn = turn();
    let group = Group::open_first(2, options()).unwrap();
    let sums = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let data = group.all_reduce(numbered(&group, 1), Op::Sum).unwrap();
                    sums.lock().unwrap().push(rows(&group, data.wait().unwrap()));
                }
            });
        }
    });
    assert_eq!(sums.into_inner().unwrap(), vec![vec![vec![10]; 2]; 80]);
}
