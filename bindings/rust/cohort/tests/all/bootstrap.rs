// SPDX-License-Identifier: Apache-2.0

use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use cohort::{Comm, Group, Op, Options, Result, Status};

use super::{options, turn};

/// Exchanges bytes between two threads that stand for two processes.
struct Exchange {
    parts: Mutex<Vec<Vec<u8>>>,
    both: Barrier,
}

impl Exchange {
    fn new() -> Arc<Exchange> {
        Arc::new(Exchange { parts: Mutex::new(vec![Vec::new(); 2]), both: Barrier::new(2) })
    }

    fn gather(&self, process: usize, own: &[u8]) -> Vec<u8> {
        self.parts.lock().unwrap()[process] = own.to_vec();
        self.both.wait();
        let all = self.parts.lock().unwrap().concat();
        self.both.wait();
        all
    }
}

fn as_process(process: usize, exchange: Arc<Exchange>) -> Options {
    options().bootstrap(process, 2, move |own| Ok::<_, ()>(exchange.gather(process, own)))
}

#[test]
fn processes_find_each_other_by_a_function() {
    let _turn = turn();
    let exchange = Exchange::new();
    let processes = [0, 1].map(|process| {
        let options = as_process(process, exchange.clone());
        thread::spawn(move || {
            let mut group = Group::open_devices(&[process as i32], options).unwrap();
            let results = group.run(|comm: &Comm| -> Result<_> {
                let sum = comm.all_reduce(comm.buffer_of(&[1 + comm.rank() as i32])?, Op::Sum)?;
                Ok((comm.rank(), comm.read(&sum.wait()?)?[0]))
            });
            assert_eq!(results.unwrap(), [(process, 3)]);
            group.close().unwrap();
        })
    });
    for process in processes {
        process.join().unwrap();
    }
}

#[test]
fn open_fails_if_the_function_of_the_bootstrap_fails() {
    let _turn = turn();
    let open = |options| Group::open_devices(&[0], options).unwrap_err();
    let error = open(options().bootstrap(0, 2, |_| Err("no network")));
    assert_eq!(error.status(), Status::SYSTEM);
    let error = open(options().bootstrap(0, 2, |own| Ok::<_, ()>(own.to_vec())));
    assert_eq!(error.status(), Status::SYSTEM);
    let error =
        open(options().bootstrap(0, 2, |_| -> std::result::Result<_, ()> { panic!("no memory") }));
    assert_eq!(error.status(), Status::SYSTEM);
    let error = open(options().bootstrap(2, 2, |own| Ok::<_, ()>(own.repeat(2))));
    assert_eq!(error.status(), Status::INVALID);
}
