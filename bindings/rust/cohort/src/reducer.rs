// SPDX-License-Identifier: Apache-2.0

use std::any::Any;
use std::borrow::Borrow;
use std::ffi::{c_void, CString};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, size_of, MaybeUninit};
use std::os::raw::c_int;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use cohort_sys as sys;

use crate::buffer::{want, Buffer, Place};
use crate::comm::Comm;
use crate::element::{DType, Element, Op};
use crate::error::{Error, Failed, Result, Status};
use crate::options::{nanoseconds, Platform};
use crate::shared::{c_text, Inside, Link, PATIENCE};

/// Options of a [`Reducer`], which `cohort/reducer.h` describes; 0 and `None` stand for the default
#[derive(Clone, Debug, Default)]
pub struct ReducerOptions {
    /// Size of the first bucket of each element type, in bytes; default 1 MiB.
    pub first_bytes: usize,
    /// Size of the other buckets, in bytes; default 25 MiB.
    pub bucket_bytes: usize,
    /// [`Op::Avg`] (the default) or [`Op::Sum`].
    pub op: Option<Op>,
    /// Whether each rank's gradients are scaled by the weight with which it begins the step.
    pub weighted: bool,
    /// Whether gradients that are not ready when the step finishes count as zeros.
    pub find_unused: bool,
    /// Whether to keep the first bucket plan forever.
    pub keep_plan: bool,
    /// Whether each rank gets only its shard of the gradients.
    pub sharded: bool,
    /// Whether buckets must not be smaller than the sizes above.
    pub full_buckets: bool,
}

/// A parameter of the model, whose gradient a [`Reducer`] averages
pub struct Parameter {
    name: Option<String>,
    count: usize,
    dtype: DType,
    /// Buffer of the gradient, if the program provides it.
    buffer: Option<Box<dyn Held>>,
}

/// A buffer of any element type.
trait Held: Send {
    fn place(&self, link: &Link, call: &'static str) -> Result<Place>;
}

impl<T: Element> Held for Buffer<T> {
    fn place(&self, link: &Link, call: &'static str) -> Result<Place> {
        Buffer::place(self, link, call)
    }
}

impl Parameter {
    /// Create a parameter of `count` elements, whose zeroed gradient the reducer allocates.
    pub fn new<T: Element>(name: impl Into<String>, count: usize) -> Parameter {
        Parameter { name: Some(name.into()), count, dtype: T::DTYPE, buffer: None }
    }

    /// Create a parameter whose gradient is in this buffer; the reducer takes the buffer.
    pub fn with_buffer<T: Element>(name: impl Into<String>, gradient: Buffer<T>) -> Parameter {
        let count = gradient.len();
        let buffer: Option<Box<dyn Held>> = Some(Box::new(gradient));
        Parameter { name: Some(name.into()), count, dtype: T::DTYPE, buffer }
    }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("");
        write!(f, "Parameter {:?} of {} {}", name, self.count, self.dtype.name())
    }
}

// States of a gradient's claim in a step.
const FREE: u8 = 0;
const IS_WRITTEN: u8 = 1;
const IS_READY: u8 = 2;

struct Gradient {
    at: *mut c_void,
    count: usize,
    dtype: DType,
    /// FREE, IS_WRITTEN (by the thread that set it) or IS_READY (in use by the library).
    claim: AtomicU8,
}

/// State shared by the owner and its helpers.
struct State {
    link: Link,
    reducer: *mut sys::cohort_reducer,
    gradients: Vec<Gradient>,
    /// Whether gradients are in host memory.
    is_on_host: bool,
}

// SAFETY: claims make sure that only one thread writes a gradient. Only types that are not `Sync`
// make the C calls that are reserved for the owner.
unsafe impl Send for State {}
// SAFETY: as for `Send` above.
unsafe impl Sync for State {}

impl State {
    fn gradient<T: Element>(&self, call: &'static str, i: usize) -> Result<&Gradient> {
        let n = self.gradients.len();
        let wrong = |text| Error::new(Status::INVALID, call, text);
        let gradient = self
            .gradients
            .get(i)
            .ok_or_else(|| wrong(format!("parameter is {}, but must be below {}", i, n)))?;
        if gradient.dtype == T::DTYPE {
            return Ok(gradient);
        }
        let names = (i, gradient.dtype.name(), T::DTYPE.name());
        Err(wrong(format!("parameter {} has type {}, not {}", names.0, names.1, names.2)))
    }

    /// Claim gradient `i`, so that only this thread may write it.
    fn claim(&self, i: usize) -> Result<()> {
        let claim = &self.gradients[i].claim;
        match claim.compare_exchange(FREE, IS_WRITTEN, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(_) => {
                let text =
                    format!("gradient {} is ready already, or another thread is writing it", i);
                Err(Error::new(Status::STATE, "cohort_reducer_ready", text))
            }
        }
    }

    fn need_host(&self, call: &'static str) -> Result<()> {
        if self.is_on_host {
            return Ok(());
        }
        let text = "gradients are on a device; compute them there and mark them ready";
        Err(Error::new(Status::UNSUPPORTED, call, text))
    }

    /// Call `write` on gradient `i`, on the host platform only.
    fn written<T: Element>(&self, i: usize, write: impl FnOnce(&mut [T])) -> Result<()> {
        let call = "cohort_reducer_ready";
        let gradient = self.gradient::<T>(call, i)?;
        self.need_host(call)?;
        self.claim(i)?;
        if gradient.count > 0 {
            // SAFETY: host memory of that many elements. The library does not use the gradient
            // until it is marked ready, which happens after this, and no other thread has the
            // claim.
            write(unsafe { slice::from_raw_parts_mut(gradient.at.cast(), gradient.count) });
        }
        Ok(())
    }

    /// Call `cohort_reducer_ready()`; this thread must have the claim, or be about to get it.
    fn ready(&self, inside: &Inside<'_>, i: usize) -> Result<bool> {
        let call = "cohort_reducer_ready";
        if let Some(gradient) = self.gradients.get(i) {
            gradient.claim.store(IS_READY, Ordering::Release);
        }
        // SAFETY: the reducer lives as long as this, and a step of it is open.
        let rc = unsafe { sys::cohort_reducer_ready(self.reducer, i) };
        Ok(inside.check(call, rc)? == sys::COHORT_OK)
    }

    /// Mark gradient `i` as ready unless a thread has claimed it.
    fn marked(&self, inside: &Inside<'_>, i: usize) -> Result<bool> {
        let is_claimed = self.gradients.get(i).map_or(false, |gradient| {
            let (new, order) = (IS_READY, Ordering::AcqRel);
            gradient.claim.compare_exchange(FREE, new, order, Ordering::Acquire) == Err(IS_WRITTEN)
        });
        if is_claimed {
            self.claim(i)?;
        }
        self.ready(inside, i)
    }
}

/// Averages the gradients of a rank's parameters with those of all other ranks, while the
/// backward pass is still running
///
/// `C` is the communicator or a reference to it. If the reducer is dropped during a step, the rank
/// fails, because the other ranks wait for it, and the drop waits up to the abort deadline. If the
/// program has not waited for the last step, the drop waits up to 10 s for queued operations.
pub struct Reducer<C: Borrow<Comm>> {
    comm: C,
    state: State,
    kept: Vec<Box<dyn Held>>,
    /// Whether a step is open, so that the library may use the gradients.
    is_open: bool,
}

/// The outcome of a step
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The gradients are averaged over all ranks.
    Averaged,
    /// No rank may update its weights: all ranks' weights are 0, or a rank has canceled the
    /// step.
    Skipped,
}

/// The result of [`Step::finish_for`]
#[derive(Debug)]
pub enum Finished<'r, C: Borrow<Comm>> {
    /// The step is done.
    Done(Outcome),
    /// The step is still in progress.
    Pending(Step<'r, C>),
}

impl<C: Borrow<Comm>> Reducer<C> {
    /// Create a reducer of this rank: `cohort_reducer_create()`
    ///
    /// Every rank creates its own reducer, with the same parameters, in the order of the forward
    /// pass.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`], naming the parameter or the option; [`Status::UNSUPPORTED`];
    /// [`Status::NO_MEMORY`]; the cause.
    pub fn new(
        comm: C,
        parameters: Vec<Parameter>,
        options: &ReducerOptions,
    ) -> Result<Reducer<C>> {
        let call = "cohort_reducer_create";
        // Call borrow() only once, because a second call may return another communicator.
        let lent = comm.borrow();
        let link = lent.link.clone();
        let names = parameters.iter().map(|parameter| parameter.name.as_deref().map(c_text));
        let names: Vec<Option<CString>> = names.collect();
        let list = parameters.iter().zip(&names).map(|(parameter, name)| {
            let place = parameter.buffer.as_ref().map(|buffer| buffer.place(&link, call));
            Ok(sys::cohort_parameter {
                name: name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
                gradient: place.transpose()?.map_or(ptr::null_mut(), |place| place.memory),
                count: parameter.count,
                r#type: DType::code(parameter.dtype),
            })
        });
        let list = list.collect::<Result<Vec<_>>>()?;
        let options = options_to_c(options);
        let mut reducer = ptr::null_mut();
        let (n, made) = (
            list.len(),
            lent.submit(call).and_then(|inside| {
                let comm = inside.comm();
                // SAFETY: `n` parameters; the program's buffers are kept below.
                let rc = unsafe {
                    sys::cohort_reducer_create(
                        comm,
                        list.as_ptr(),
                        list.len(),
                        &options,
                        &mut reducer,
                    )
                };
                inside.check(call, rc)
            }),
        );
        made?;
        // SAFETY: the reducer has that many parameters.
        let at = |i| unsafe { sys::cohort_reducer_view(reducer, i) };
        let gradients = (0..n).zip(&parameters).map(|(i, parameter)| Gradient {
            at: at(i),
            count: parameter.count,
            dtype: parameter.dtype,
            claim: AtomicU8::new(FREE),
        });
        let gradients = gradients.collect();
        let is_on_host = link.platform() == Platform::Host;
        let state = State { link, reducer, gradients, is_on_host };
        let kept = parameters.into_iter().filter_map(|parameter| parameter.buffer).collect();
        Ok(Reducer { comm, state, kept, is_open: false })
    }

    /// Return the communicator.
    pub fn comm(&self) -> &Comm {
        self.comm.borrow()
    }

    /// Enter the gate and take the turn for a call of the owner.
    fn submit(&self, call: &'static str) -> Result<Inside<'_>> {
        let comm = self.comm.borrow();
        if comm.link.is_same(&self.state.link) {
            return comm.submit(call);
        }
        // borrow() returned a different communicator this time.
        Ok(self.state.link.enter(call)?.in_turn())
    }

    fn step(
        &mut self,
        call: &'static str,
        begin: impl FnOnce(*mut sys::cohort_reducer, *mut c_void) -> c_int,
    ) -> Result<Step<'_, C>> {
        let inside = self.submit(call)?;
        // SAFETY: the communicator is valid while this thread is inside its gate.
        let stream = unsafe { sys::cohort_comm_stream(inside.comm()) };
        let rc = begin(self.state.reducer, stream);
        inside.check(call, rc)?;
        drop(inside);
        self.is_open = true;
        self.state.gradients.iter_mut().for_each(|gradient| *gradient.claim.get_mut() = FREE);
        Ok(Step { reducer: self, copies: Vec::new(), is_over: false, not_send: PhantomData })
    }

    /// Begin a step, which every rank must begin: `cohort_reducer_begin()`
    ///
    /// # Errors
    ///
    /// [`Status::STATE`] if a step or a batch is open, or an earlier step ended with an error;
    /// [`Status::INVALID`] if the reducer is weighted; the cause.
    pub fn begin(&mut self) -> Result<Step<'_, C>> {
        self.step("cohort_reducer_begin", |reducer, stream| {
            // SAFETY: a reducer that this owns.
            unsafe { sys::cohort_reducer_begin(reducer, stream) }
        })
    }

    /// Begin a step with this rank's weight, 0 or more: `cohort_reducer_begin_weighted()`
    ///
    /// # Errors
    ///
    /// The errors of [`Reducer::begin`]; [`Status::INVALID`] if the reducer is not weighted.
    pub fn begin_weighted(&mut self, weight: f64) -> Result<Step<'_, C>> {
        self.step("cohort_reducer_begin_weighted", |reducer, stream| {
            // SAFETY: a reducer that this owns.
            unsafe { sys::cohort_reducer_begin_weighted(reducer, weight, stream) }
        })
    }

    /// Begin a pass without communication, to accumulate gradients over several passes:
    /// `cohort_reducer_accumulate()`. [`Step::update`] adds to the gradients.
    ///
    /// # Errors
    ///
    /// The errors of [`Reducer::begin`].
    pub fn accumulate(&mut self) -> Result<Step<'_, C>> {
        self.step("cohort_reducer_accumulate", |reducer, _| {
            // SAFETY: a reducer that this owns.
            unsafe { sys::cohort_reducer_accumulate(reducer) }
        })
    }

    /// Take part in a step of the other ranks without a batch: `cohort_reducer_join()`; return
    /// `None` once every rank has called this function, and no step is left
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] if the reducer is not weighted; the errors of [`Step::finish`].
    pub fn join(&mut self) -> Result<Option<Outcome>> {
        let call = "cohort_reducer_join";
        self.need_idle(call)?;
        let inside = self.submit(call)?;
        // SAFETY: this owns the reducer; no one uses the gradients, because this is borrowed
        // mutably.
        let rc = unsafe { sys::cohort_reducer_join(self.state.reducer, sys::COHORT_FOREVER) };
        let joined = inside.check(call, rc);
        drop(inside);
        self.is_open = rc == sys::COHORT_WEDGED || rc == sys::COHORT_BUSY;
        Ok(match joined? {
            sys::COHORT_JOINED => None,
            sys::COHORT_SKIP => Some(Outcome::Skipped),
            _ => Some(Outcome::Averaged),
        })
    }

    /// Copy every rank's shards of all parameters to every rank: `cohort_reducer_gather()`
    ///
    /// The reducer must be sharded, and its parameters must all have type `T`. Every rank calls
    /// this function between the same two steps, with one buffer per parameter that contains this
    /// rank's shard. Blocks until the gather is done.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] if the buffers do not match or the reducer is not sharded;
    /// [`Status::STATE`] while a step is open; the cause.
    pub fn gather<T: Element>(
        &mut self,
        parameters: Vec<Buffer<T>>,
    ) -> std::result::Result<Vec<Buffer<T>>, Failed<Vec<Buffer<T>>>> {
        let call = "cohort_reducer_gather";
        let gathered = self.places(call, &parameters).and_then(|places| {
            let inside = self.submit(call)?;
            // SAFETY: one pointer per parameter, of its type and count. The buffers are kept until
            // the call has returned, and forever if it is wedged.
            let rc = unsafe {
                let stream = sys::cohort_comm_stream(inside.comm());
                let (reducer, limit) = (self.state.reducer, sys::COHORT_FOREVER);
                sys::cohort_reducer_gather(reducer, places.as_ptr(), stream, limit)
            };
            // After BUSY the gather continues without the caller, so the buffers stay in use.
            let rc = if rc == sys::COHORT_BUSY { sys::COHORT_WEDGED } else { rc };
            inside.check(call, rc)
        });
        match gathered {
            Ok(_) => Ok(parameters),
            Err(error) if error.status() == Status::WEDGED => {
                mem::forget(parameters);
                Err(Failed::new(error, None))
            }
            Err(error) => Err(Failed::new(error, Some(parameters))),
        }
    }

    fn places<T: Element>(
        &self,
        call: &'static str,
        parameters: &[Buffer<T>],
    ) -> Result<Vec<*mut c_void>> {
        want(call, "parameters", parameters.len(), self.state.gradients.len())?;
        let places = parameters.iter().enumerate().map(|(i, buffer)| {
            let place = buffer.place(&self.state.link, call)?;
            let what = format!("parameter {}", i);
            want(call, &what, place.len, self.state.gradient::<T>(call, i)?.count)?;
            Ok(place.memory)
        });
        places.collect()
    }

    /// Return the range of elements of parameter `i` that this rank owns: all elements if the
    /// reducer is not sharded.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] if there is no such parameter.
    pub fn shard(&self, i: usize) -> Result<std::ops::Range<usize>> {
        let call = "cohort_reducer_shard";
        let inside = self.state.link.enter(call)?;
        let (mut first, mut count) = (0, 0);
        // SAFETY: a reducer that this owns.
        let rc =
            unsafe { sys::cohort_reducer_shard(self.state.reducer, i, &mut first, &mut count) };
        inside.check(call, rc)?;
        Ok(first..first + count)
    }

    fn need_idle(&self, call: &'static str) -> Result<()> {
        if !self.is_open {
            return Ok(());
        }
        let text = "a step was not finished, or has ended with an error";
        Err(Error::new(Status::STATE, call, text))
    }

    /// Return the gradient of parameter `i`, on the host platform only.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] if there is no such parameter or its type differs; [`Status::STATE`] if
    /// a step was not finished; [`Status::UNSUPPORTED`] on GPUs.
    pub fn gradient<T: Element>(&self, i: usize) -> Result<&[T]> {
        let call = "cohort_reducer_view";
        let gradient = self.state.gradient::<T>(call, i)?;
        self.need_idle(call)?;
        self.state.need_host(call)?;
        if gradient.count == 0 {
            return Ok(&[]);
        }
        // SAFETY: host memory of that many elements, valid as long as the reducer. No step is
        // open, and none can begin while this is borrowed.
        Ok(unsafe { slice::from_raw_parts(gradient.at.cast(), gradient.count) })
    }

    /// Return a copy of the gradient of parameter `i`, on any platform; waits for the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`Reducer::gradient`]; [`Status::CUDA`]; the cause.
    pub fn read<T: Element>(&self, i: usize) -> Result<Vec<T>> {
        if self.state.is_on_host {
            return self.gradient(i).map(<[T]>::to_vec);
        }
        let gradient = self.state.gradient::<T>("cohort_copy", i)?;
        self.need_idle("cohort_copy")?;
        let (comm, at, count) = (self.comm.borrow(), gradient.at.cast::<T>(), gradient.count);
        // SAFETY: memory of the reducer. The copy is waited for, or the buffer is lost, and the
        // buffer does not own the memory.
        comm.read(&unsafe { comm.buffer_at(at, count) })
    }

    /// Return the address of the gradient of parameter `i`, for kernels; it never moves.
    pub fn as_ptr<T: Element>(&self, i: usize) -> Result<*mut T> {
        Ok(self.state.gradient::<T>("cohort_reducer_view", i)?.at.cast())
    }

    /// Return the number of buckets.
    pub fn buckets(&self) -> usize {
        // SAFETY: a reducer that this owns.
        let buckets = self.fact(|reducer| unsafe { sys::cohort_reducer_buckets(reducer) }, 0);
        usize::try_from(buckets).unwrap_or(0)
    }

    /// Return whether any rank had gradient `i` ready in the last step; `None` without
    /// `find_unused`.
    pub fn used(&self, i: usize) -> Option<bool> {
        // SAFETY: a reducer that this owns.
        match self.fact(|reducer| unsafe { sys::cohort_reducer_used(reducer, i) }, -1) {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn fact<R>(&self, ask: impl FnOnce(*const sys::cohort_reducer) -> R, closed: R) -> R {
        match self.state.link.enter("") {
            Ok(_inside) => ask(self.state.reducer),
            Err(_) => closed,
        }
    }
}

fn options_to_c(options: &ReducerOptions) -> sys::cohort_reducer_options {
    let mut c = MaybeUninit::<sys::cohort_reducer_options>::zeroed();
    // SAFETY: the function sets every field, and all zeros is valid for plain data.
    let mut c = unsafe {
        sys::cohort_reducer_options_init(c.as_mut_ptr());
        c.assume_init()
    };
    debug_assert!(c.size <= size_of::<sys::cohort_reducer_options>());
    c.first_bytes = options.first_bytes;
    c.bucket_bytes = options.bucket_bytes;
    c.op = options.op.map_or(c.op, |op| op as c_int);
    c.weighted = options.weighted.into();
    c.find_unused = options.find_unused.into();
    c.keep_plan = options.keep_plan.into();
    c.sharded = options.sharded.into();
    c.full_buckets = options.full_buckets.into();
    c
}

impl<C: Borrow<Comm>> Drop for Reducer<C> {
    fn drop(&mut self) {
        let call = "cohort_reducer_free";
        let freed = self.submit_to_free(call).and_then(|inside| {
            // SAFETY: this owns the reducer, and no one uses it, because a step would borrow it.
            let free = || unsafe { sys::cohort_reducer_free(self.state.reducer) };
            let mut rc = free();
            if rc == sys::COHORT_STATE {
                let limit = if self.is_open { Duration::ZERO } else { PATIENCE };
                // SAFETY: the communicator is valid while this thread is inside its gate.
                let done = unsafe { sys::cohort_synchronize(inside.comm(), nanoseconds(limit)) };
                if self.is_open || done == sys::COHORT_TIMED_OUT {
                    inside.fail(sys::COHORT_WORKER, "its reducer was dropped in a step");
                }
                rc = free();
            }
            inside.check(call, rc)
        });
        if let Err(error) = freed {
            // Leak the buffers, because something may still use them.
            mem::forget(mem::take(&mut self.kept));
            crate::told(&error);
        }
    }
}

impl<C: Borrow<Comm>> Reducer<C> {
    /// Enter the gate for a free, which C allows even while a batch is open.
    fn submit_to_free(&self, call: &'static str) -> Result<Inside<'_>> {
        let comm = self.comm.borrow();
        match comm.link.is_same(&self.state.link) {
            true => comm.turn(call),
            false => Ok(self.state.link.enter(call)?.in_turn()),
        }
    }
}

impl<C: Borrow<Comm>> fmt::Debug for Reducer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reducer of {} parameters", self.state.gradients.len())
    }
}

/// An open step of a [`Reducer`], from [`Reducer::begin`] and related functions
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<cohort::Step<cohort::Comm>>(); // it stays on its thread
/// ```
///
/// Other threads that compute gradients use a [`Helper`]. If the step is dropped before it is
/// finished, the rank fails, because the other ranks wait for its gradients.
#[must_use = "a step that is dropped ends the group"]
pub struct Step<'r, C: Borrow<Comm>> {
    reducer: &'r mut Reducer<C>,
    /// Host memory that is being copied to the device.
    copies: Vec<Box<dyn Any + Send>>,
    is_over: bool,
    /// Makes the type stay on the thread that began the step, as C requires.
    not_send: PhantomData<*const ()>,
}

impl<'r, C: Borrow<Comm>> Step<'r, C> {
    /// Mark the gradient of parameter `i` as computed: `cohort_reducer_ready()`; return false if it
    /// was already marked
    ///
    /// Use this function for gradients that do not change, and for gradients that kernels compute
    /// on streams for which the communicator's own stream waits ([`Comm::after_stream`]).
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] if there is no such parameter; [`Status::STATE`] while another thread
    /// writes it; the errors of the collectives, even about earlier buckets. After an error, finish
    /// the step.
    pub fn ready(&self, i: usize) -> Result<bool> {
        let inside = self.reducer.submit("cohort_reducer_ready")?;
        self.reducer.state.marked(&inside, i)
    }

    /// Set the gradient of parameter `i` and mark it as computed
    ///
    /// # Errors
    ///
    /// The errors of [`Step::ready`]; [`Status::INVALID`] if the type or the number of elements
    /// differs.
    pub fn set<T: Element>(&mut self, i: usize, gradient: &[T]) -> Result<()> {
        let call = "cohort_reducer_ready";
        let state = &self.reducer.state;
        let own = state.gradient::<T>(call, i)?;
        want(call, "gradient", gradient.len(), own.count)?;
        if state.is_on_host {
            return self.update(i, |own: &mut [T]| own.copy_from_slice(gradient));
        }
        drop(self.reducer.submit(call)?);
        state.claim(i)?;
        let comm = self.reducer.comm.borrow();
        // SAFETY: memory of the reducer, of that many elements. The buffer does not own it, and no
        // other thread writes it, because this thread has the claim.
        let to = unsafe { comm.buffer_at::<T>(own.at.cast(), own.count) };
        // Safe to release: the bucket is queued after the copy on the same stream.
        self.copies.push(Box::new(comm.upload(to, gradient.to_vec())?.superseded()));
        let inside = self.reducer.submit(call)?;
        state.ready(&inside, i).map(drop)
    }

    /// Call `write` on the gradient of parameter `i`, then mark it as computed; host platform only
    ///
    /// # Errors
    ///
    /// The errors of [`Step::set`]; [`Status::UNSUPPORTED`] on GPUs.
    pub fn update<T: Element>(&self, i: usize, write: impl FnOnce(&mut [T])) -> Result<()> {
        // Once written, the gradient must become ready, so check for errors first.
        drop(self.reducer.submit("cohort_reducer_ready")?);
        self.reducer.state.written(i, write)?;
        let inside = self.reducer.submit("cohort_reducer_ready")?;
        self.reducer.state.ready(&inside, i).map(drop)
    }

    /// Return a handle for other threads, such as those of [`std::thread::scope`].
    pub fn helper(&self) -> Helper<'_> {
        Helper(&self.reducer.state)
    }

    /// Launch the buckets that helpers have completed: `cohort_reducer_progress()`. Waits up to
    /// `limit` for the remaining buckets; returns false if some gradients are still not ready.
    ///
    /// # Errors
    ///
    /// The errors of the collectives.
    pub fn progress(&self, limit: Duration) -> Result<bool> {
        let call = "cohort_reducer_progress";
        let inside = self.reducer.submit(call)?;
        // SAFETY: a reducer with an open step, on the thread that has begun it.
        let rc =
            unsafe { sys::cohort_reducer_progress(self.reducer.state.reducer, nanoseconds(limit)) };
        Ok(inside.check(call, rc)? == sys::COHORT_OK)
    }

    /// Wait until the gradients are averaged over all ranks: `cohort_reducer_finish()`
    ///
    /// # Errors
    ///
    /// [`Status::STATE`], naming gradients that are not ready; the step is returned with the
    /// error. The cause; then the gradients are undefined.
    pub fn finish(self) -> std::result::Result<Outcome, Failed<Self>> {
        match self.finish_for(Duration::MAX)? {
            Finished::Done(outcome) => Ok(outcome),
            Finished::Pending(step) => {
                let error = Error::of(sys::COHORT_TIMED_OUT, "cohort_reducer_finish");
                Err(Failed::new(error, Some(step)))
            }
        }
    }

    /// Call [`Step::finish`], but wait no longer than `limit`.
    ///
    /// # Errors
    ///
    /// The errors of [`Step::finish`].
    pub fn finish_for(self, limit: Duration) -> std::result::Result<Finished<'r, C>, Failed<Self>> {
        self.ended("cohort_reducer_finish", sys::cohort_reducer_finish, limit)
    }

    /// Give up a step that this rank cannot complete: `cohort_reducer_cancel()`. No rank uses the
    /// step's result, and the group continues.
    ///
    /// # Errors
    ///
    /// [`Status::UNSUPPORTED`] if the group has ranks in other processes; the cause.
    pub fn cancel(self) -> std::result::Result<(), Failed<Self>> {
        let cancel = sys::cohort_reducer_cancel;
        self.ended("cohort_reducer_cancel", cancel, Duration::MAX).map(drop)
    }

    fn ended(
        mut self,
        call: &'static str,
        end: unsafe extern "C" fn(*mut sys::cohort_reducer, u64) -> c_int,
        limit: Duration,
    ) -> std::result::Result<Finished<'r, C>, Failed<Self>> {
        let ended = self.reducer.submit(call).and_then(|inside| {
            // SAFETY: a reducer with an open step, on the thread that began it. No helper exists,
            // because helpers borrow the step, which was moved here.
            let rc = unsafe { end(self.reducer.state.reducer, nanoseconds(limit)) };
            inside.check(call, rc)
        });
        let error = match ended {
            Ok(sys::COHORT_TIMED_OUT) => {
                self.is_ending();
                return Ok(Finished::Pending(self));
            }
            // Only cancel() returns this: every gradient is ready, so the step can be finished.
            Ok(sys::COHORT_ALREADY) => {
                return self.ended("cohort_reducer_finish", sys::cohort_reducer_finish, limit)
            }
            Ok(rc) => {
                self.over(false);
                let skipped = rc == sys::COHORT_SKIP;
                let outcome = if skipped { Outcome::Skipped } else { Outcome::Averaged };
                return Ok(Finished::Done(outcome));
            }
            Err(error) => error,
        };
        if error.status() == Status::BUSY {
            self.is_ending();
        }
        match error.status() {
            Status::STATE | Status::BUSY | Status::OWNER | Status::UNSUPPORTED => {
                Err(Failed::new(error, Some(self)))
            }
            status => {
                self.over(status == Status::WEDGED || status == Status::STALE);
                Err(Failed::new(error, None))
            }
        }
    }

    /// Claim the gradients that are not ready, which count as zeros, so that no thread writes them.
    fn is_ending(&mut self) {
        for gradient in &mut self.reducer.state.gradients {
            *gradient.claim.get_mut() = IS_READY;
        }
    }

    /// Mark the step as over; `is_lost` means that something may still use its buffers.
    fn over(&mut self, is_lost: bool) {
        self.is_over = true;
        self.reducer.is_open = is_lost;
        if is_lost {
            mem::forget(mem::take(&mut self.copies));
        }
    }
}

impl<C: Borrow<Comm>> Drop for Step<'_, C> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let text = if thread::panicking() {
            "a panic dropped its reducer's step"
        } else {
            "its reducer's step was dropped before its end"
        };
        if let Ok(inside) = self.reducer.state.link.enter("") {
            inside.fail(sys::COHORT_WORKER, text);
        }
        // Leak them, because the device may still read them.
        mem::forget(mem::take(&mut self.copies));
    }
}

impl<C: Borrow<Comm>> fmt::Debug for Step<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step of {:?}", self.reducer)
    }
}

/// A handle to an open step for other threads, from [`Step::helper`]
///
/// ```
/// fn is_sync<T: Send + Sync>() {}
/// is_sync::<cohort::Helper>();
/// ```
///
/// The step's own thread launches the buckets that a helper completes, in [`Step::progress`] or
/// [`Step::finish`].
#[derive(Clone, Copy)]
pub struct Helper<'s>(&'s State);

impl Helper<'_> {
    /// Call [`Step::ready`]
    ///
    /// # Errors
    ///
    /// The errors of [`Step::ready`].
    pub fn ready(&self, i: usize) -> Result<bool> {
        let inside = self.0.link.enter("cohort_reducer_ready")?;
        self.0.marked(&inside, i)
    }

    /// Call [`Step::set`]; host platform only
    ///
    /// # Errors
    ///
    /// The errors of [`Step::set`]; [`Status::UNSUPPORTED`] on GPUs.
    pub fn set<T: Element>(&self, i: usize, gradient: &[T]) -> Result<()> {
        let call = "cohort_reducer_ready";
        want(call, "gradient", gradient.len(), self.0.gradient::<T>(call, i)?.count)?;
        self.update(i, |own: &mut [T]| own.copy_from_slice(gradient))
    }

    /// Call [`Step::update`]
    ///
    /// # Errors
    ///
    /// The errors of [`Step::update`].
    pub fn update<T: Element>(&self, i: usize, write: impl FnOnce(&mut [T])) -> Result<()> {
        self.0.written(i, write)?;
        let inside = self.0.link.enter("cohort_reducer_ready")?;
        self.0.ready(&inside, i).map(drop)
    }
}

impl fmt::Debug for Helper<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Helper")
    }
}
