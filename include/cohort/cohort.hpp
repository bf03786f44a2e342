/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_COHORT_HPP
#define COHORT_COHORT_HPP

/*
 * C++17 interface to the library, with handles that close themselves and errors
 * as exceptions
 *
 * This interface is header-only.  Each member's comment names the C function
 * that it calls; the comment of that function is the contract for threads,
 * blocking and ownership.  To call a C function that has no member here, pass
 * it the C handle from get(), and its result to check(), which throws errors.
 *
 *	cohort::group group(4);
 *
 *	group.run([](cohort::communicator &comm) {
 *		auto gradient = comm.alloc<float>(1000);
 *		...
 *		comm.all_reduce(gradient, COHORT_AVG).wait();
 *	});
 *
 * Results
 *
 * A negative status is thrown as a cohort::error.  A positive status is not an
 * error, and is returned:
 *
 *  - Functions that may return COHORT_ALREADY in C (abort, fire, fail, ready)
 *    return true if this call had an effect, and false for COHORT_ALREADY.
 *  - A wait with a limit, such as wait_for(), returns false for
 *    COHORT_TIMED_OUT; nothing has changed, so it can be repeated.  A wait
 *    without a limit returns when the operation is done.
 *  - Functions that end a step of a reducer have more than two results, so they
 *    return the status.
 *
 * Calls on host memory throw even COHORT_TIMED_OUT, because their output is
 * then undefined.
 *
 * Destructors
 *
 * No destructor throws, and each ends in a bounded time, except for memory that
 * a child communicator uses (see below).  Destructors cannot report errors;
 * close() and free() of the same object do.
 *
 *  - A group calls cohort_group_close(), which waits for operations in flight
 *    up to the close deadline (deadlines.close_ns), then aborts the rest and
 *    waits up to the abort deadline.  If an exception destroys the group, the
 *    group is aborted first, because operations in flight may be waiting for
 *    code that the exception skipped.  If a thread is still inside a call, the
 *    group stays open.
 *  - A communicator from a group's run or split does nothing, because the group
 *    owns it.  A communicator from join() or from another communicator's split
 *    calls cohort_comm_close(), which waits like cohort_group_close(); if an
 *    exception destroys it, it first calls cohort_comm_fail().
 *  - A bound object calls cohort_comm_unbind(); if an exception destroys it, it
 *    first calls cohort_comm_fail().
 *  - A Memory waits up to 10 s for the operations that the rank has submitted,
 *    and then frees its memory.  If an operation still uses it, or has ended
 *    with COHORT_WEDGED, it stays allocated.  If an exception destroys memory while
 *    an operation is in flight, the rank fails before the wait.  The wait does
 *    not cover operations of a child communicator.  If a child uses the memory,
 *    synchronize the child first; otherwise the destructor waits for the device
 *    as cudaFree() does, without a limit.
 *  - A batch that was not ended launches none of its calls.
 *  - A reducer calls cohort_reducer_free().  In the middle of a step, the
 *    destructor first fails the rank (cohort_comm_fail()), because its
 *    gradients may be in use and the other ranks wait for it; the free then
 *    waits up to the abort deadline.  After finish_on() the destructor waits
 *    up to 10 s for the operations that the rank has submitted, and the rank
 *    fails only after that.
 *
 * Handles can be moved but not copied.  A handle that was moved from, or was
 * closed, is empty, and may only be assigned to or destroyed.
 *
 * The objects do not know whether their group is still open.  Do not use
 * communicators and tickets after their group is closed.  Before the group is
 * closed, free all memory and reducers, end all batches, and unbind all bound
 * objects.  These rules also apply to the close of a joined or split
 * communicator.  Declare a bound object before memory and reducers, so that
 * they are destroyed while the thread is still bound.
 */

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef __GLIBCXX__
#include <cxxabi.h>
#endif

#include <cohort/reducer.h>

namespace cohort
{

/* A wait or a deadline without limit (COHORT_FOREVER) */
inline constexpr std::chrono::nanoseconds forever =
	std::chrono::nanoseconds::max();

/* Exception for a call that failed. */
class error : public std::runtime_error
{
public:
	explicit error(int status, const std::string &text,
	               std::shared_ptr<const cohort_cause> cause = nullptr,
	               std::exception_ptr thrown = nullptr,
	               std::shared_ptr<const int> answer = nullptr)
		: std::runtime_error(text), status_(status),
		  cause_(std::move(cause)), thrown_(std::move(thrown)),
		  answer_(std::move(answer))
	{
	}

	/* Status of the call: a constant of COHORT_STATUS_LIST */
	int status() const noexcept
	{
		return status_;
	}

	/* Cause that ended the group; NULL if there is none. */
	const cohort_cause *cause() const noexcept
	{
		return cause_.get();
	}

	/* Rank that the cause blames; -1 if there is none. */
	int rank() const noexcept
	{
		return cause_ ? cause_->rank : -1;
	}

	/* For errors of group::run(): the exception of a worker that ended the
	 * group; NULL if something else ended it. */
	std::exception_ptr thrown() const noexcept
	{
		return thrown_;
	}

private:
	int status_;
	std::shared_ptr<const cohort_cause> cause_;
	std::exception_ptr thrown_;
	std::shared_ptr<const int> answer_; /* see detail::answer */
};

namespace detail
{

/* Status of the last error that this thread threw; expires with that error. */
inline thread_local std::weak_ptr<const int> answer;

/* Return the status with which a destructor fails its rank during unwinding.  A
 * rank that unwinds because of an error of the library is not to blame, so the
 * status of that error is passed on. */
inline int failure()
{
	const auto status = answer.lock();

	return status ? *status : COHORT_WORKER;
}

inline int ask_cause(cohort_comm *comm, cohort_cause *cause)
{
	return cohort_comm_cause(comm, cause);
}

inline int ask_cause(const cohort_group *group, cohort_cause *cause)
{
	return cohort_group_cause(group, cause);
}

template <class Owner>
[[noreturn]] void raise(int status, Owner *owner)
{
	/* Copy the text before the next call, which may change it. */
	const std::string text =
		status < 0 ? cohort_last_error() : cohort_status_text(status);
	auto cause = std::make_shared<cohort_cause>();

	if (!owner || ask_cause(owner, cause.get()) != COHORT_OK ||
	    cause->status == COHORT_OK)
		cause.reset();
	const auto kept = std::make_shared<const int>(status);

	answer = kept;
	throw error(status, text, std::move(cause), nullptr, kept);
}

inline std::uint64_t nanoseconds(std::chrono::nanoseconds limit)
{
	if (limit == forever)
		return COHORT_FOREVER;
	return limit.count() > 0 ? static_cast<std::uint64_t>(limit.count())
	                         : 0;
}

/* True while the object is being destroyed because of an exception that was
 * thrown after the object was constructed */
class unwinding
{
public:
	explicit operator bool() const noexcept
	{
		return std::uncaught_exceptions() > before_;
	}

private:
	int before_ = std::uncaught_exceptions();
};

inline constexpr const char *left = "an exception has left its scope";

/* Longest time that a destructor waits for operations in flight. */
inline constexpr std::uint64_t patience_ns = 10000000000;

} // namespace detail

/* Throw a negative result as an error; return any other result. */
inline int check(int status)
{
	if (status < 0)
		detail::raise(status, static_cast<cohort_comm *>(nullptr));
	return status;
}

/* Check the result of a call on a communicator or a group.  The error also has
 * the cause of @owner. */
template <class Owner>
int check(int status, Owner *owner)
{
	if (status < 0)
		detail::raise(status, owner);
	return status;
}

/* Floating-point types that C++17 lacks, as bits. */
enum class float16 : std::uint16_t {};
enum class bfloat16 : std::uint16_t {};
enum class float8e4m3 : std::uint8_t {};
enum class float8e5m2 : std::uint8_t {};

/*
 * The enum cohort_type of elements of type T
 *
 * For another type, such as __half or std::complex, specialize it:
 *
 *	template <>
 *	struct cohort::type_of<__half> : cohort::type_of<cohort::float16> {};
 *
 *	template <>
 *	struct cohort::type_of<std::complex<float>>
 *		: std::integral_constant<int, COHORT_C64> {};
 */
template <class T, class = void>
struct type_of;

template <class T>
struct type_of<T, std::enable_if_t<std::is_integral_v<T> &&
                                   !std::is_same_v<T, bool>>> {
	static_assert(sizeof(T) <= 8, "integers have at most 64 bits");
	static constexpr int of_signed = sizeof(T) == 1   ? COHORT_I8
	                                 : sizeof(T) == 2 ? COHORT_I16
	                                 : sizeof(T) == 4 ? COHORT_I32
	                                                  : COHORT_I64;
	static constexpr int value = of_signed + std::is_unsigned_v<T>;
};

template <>
struct type_of<bool> : std::integral_constant<int, COHORT_BOOL> {
};
template <>
struct type_of<float> : std::integral_constant<int, COHORT_F32> {
};
template <>
struct type_of<double> : std::integral_constant<int, COHORT_F64> {
};
template <>
struct type_of<float16> : std::integral_constant<int, COHORT_F16> {
};
template <>
struct type_of<bfloat16> : std::integral_constant<int, COHORT_BF16> {
};
template <>
struct type_of<float8e4m3> : std::integral_constant<int, COHORT_F8E4M3> {
};
template <>
struct type_of<float8e5m2> : std::integral_constant<int, COHORT_F8E5M2> {
};

template <class T>
inline constexpr int type_of_v = type_of<std::remove_cv_t<T>>::value;

static_assert(COHORT_U8 == COHORT_I8 + 1 && COHORT_U16 == COHORT_I16 + 1 &&
              COHORT_U32 == COHORT_I32 + 1 && COHORT_U64 == COHORT_I64 + 1);

/* Elements that another object owns, like std::span of C++20. */
template <class T>
class view
{
public:
	constexpr view() noexcept = default;
	constexpr view(T *data, std::size_t size) noexcept
		: data_(data), size_(size)
	{
	}

	constexpr T *data() const noexcept
	{
		return data_;
	}

	constexpr std::size_t size() const noexcept
	{
		return size_;
	}

private:
	T *data_ = nullptr;
	std::size_t size_ = 0;
};

/* A stream to queue on: a cudaStream_t (NULL is the legacy default stream), or
 * by default the communicator's own stream. */
class stream_handle
{
public:
	stream_handle() noexcept = default;
	stream_handle(void *stream) noexcept : stream_(stream), is_own_(false)
	{
	}

	/* Return the stream, or @own if no stream was given. */
	void *or_own(void *own) const noexcept
	{
		return is_own_ ? own : stream_;
	}

private:
	void *stream_ = nullptr;
	bool is_own_ = true;
};

/* An operation that a call has queued.  Valid as long as its communicator
 * is. */
class ticket
{
public:
	ticket() noexcept = default;
	ticket(cohort_comm *comm, std::uint64_t number) noexcept
		: comm_(comm), number_(number)
	{
	}

	/* cohort_wait() without a limit */
	void wait() const
	{
		check(cohort_wait(comm_, number_, COHORT_FOREVER), comm_);
	}

	/* cohort_wait(); returns false if the operation is not done yet */
	[[nodiscard]] bool wait_for(std::chrono::nanoseconds limit) const
	{
		return check(cohort_wait(comm_, number_,
		                         detail::nanoseconds(limit)),
		             comm_) == COHORT_OK;
	}

	/* cohort_stream_after() */
	void stream_after(stream_handle stream) const
	{
		check(cohort_stream_after(
			      comm_, number_,
			      stream.or_own(cohort_comm_stream(comm_))),
		      comm_);
	}

	/* Return the ticket of the C functions. */
	std::uint64_t number() const noexcept
	{
		return number_;
	}

private:
	cohort_comm *comm_ = nullptr;
	std::uint64_t number_ = 0;
};

/* Elements on a rank's device, allocated by communicator::alloc(). */
template <class T>
class memory
{
public:
	memory() noexcept = default;

	/* cohort_alloc() */
	memory(cohort_comm *comm, std::size_t size) : comm_(comm), size_(size)
	{
		void *allocated;

		if (size > static_cast<std::size_t>(-1) / sizeof(T))
			throw std::bad_array_new_length();
		check(cohort_alloc(comm, size * sizeof(T), &allocated), comm);
		data_ = static_cast<T *>(allocated);
	}

	memory(memory &&other) noexcept
		: comm_(other.comm_), data_(std::exchange(other.data_, {})),
		  size_(std::exchange(other.size_, 0))
	{
	}

	memory &operator=(memory &&other) noexcept
	{
		memory taken(std::move(other));

		std::swap(comm_, taken.comm_);
		std::swap(data_, taken.data_);
		std::swap(size_, taken.size_);
		return *this;
	}

	~memory()
	{
		int rc;

		if (!data_)
			return;
		rc = cohort_synchronize(comm_,
		                        unwinding_ ? 0 : detail::patience_ns);
		if (rc == COHORT_TIMED_OUT && unwinding_) {
			cohort_comm_fail(comm_, detail::failure(),
			                 detail::left);
			rc = cohort_synchronize(comm_, detail::patience_ns);
		}
		if (rc != COHORT_TIMED_OUT && rc != COHORT_WEDGED)
			cohort_free(comm_, data_);
	}

	/* cohort_free(); no operation may use the memory. */
	void free()
	{
		if (data_)
			check(cohort_free(comm_, data_), comm_);
		data_ = nullptr;
		size_ = 0;
	}

	T *data() noexcept
	{
		return data_;
	}

	const T *data() const noexcept
	{
		return data_;
	}

	std::size_t size() const noexcept
	{
		return size_;
	}

private:
	cohort_comm *comm_ = nullptr;
	T *data_ = nullptr;
	std::size_t size_ = 0;
	detail::unwinding unwinding_;
};

/* A handle that can end a group, even while the group is being opened or
 * closed, and afterwards. */
class abort_handle
{
public:
	abort_handle() noexcept = default;

	/* cohort_comm_abort_handle() */
	explicit abort_handle(cohort_comm *comm)
		: handle_(cohort_comm_abort_handle(comm))
	{
		if (!handle_)
			throw error(COHORT_INVALID, cohort_last_error());
	}

	/* cohort_abort_create(); before the group is opened, set options.abort
	 * to get(). */
	static abort_handle create()
	{
		abort_handle made;

		made.handle_ = cohort_abort_create();
		if (!made.handle_)
			throw error(COHORT_NO_MEMORY, cohort_last_error());
		return made;
	}

	abort_handle(abort_handle &&other) noexcept
		: handle_(std::exchange(other.handle_, nullptr))
	{
	}

	abort_handle &operator=(abort_handle &&other) noexcept
	{
		abort_handle taken(std::move(other));

		std::swap(handle_, taken.handle_);
		return *this;
	}

	/* cohort_abort_put() */
	~abort_handle()
	{
		cohort_abort_put(handle_);
	}

	/* cohort_abort_fire(), also from signal handlers; returns true if this
	 * call ended the group */
	bool fire(const char *reason = nullptr) const noexcept
	{
		return cohort_abort_fire(handle_, reason) == COHORT_OK;
	}

	/* cohort_abort_fired(), also from signal handlers */
	bool fired() const noexcept
	{
		return cohort_abort_fired(handle_) == 1;
	}

	cohort_abort *get() const noexcept
	{
		return handle_;
	}

private:
	cohort_abort *handle_ = nullptr;
};

namespace detail
{

/* True if the elements of an argument outlive a call that only queues them: the
 * argument is not a temporary, or is a view. */
template <class Argument>
inline constexpr bool lasts = std::is_lvalue_reference_v<Argument>;
template <class T>
inline constexpr bool lasts<view<T>> = true;

/* Convert an argument of a call on device memory to a view.  The argument is
 * memory from alloc(), or a view of memory that the program allocated. */
template <class Argument, class T>
view<T> device(view<T> elements)
{
	return elements;
}

template <class Argument, class T>
view<T> device(memory<T> &elements)
{
	static_assert(lasts<Argument>, "a temporary is freed too early");
	return { elements.data(), elements.size() };
}

template <class Argument, class T>
view<const T> device(const memory<T> &elements)
{
	static_assert(lasts<Argument>, "a temporary is freed too early");
	return { elements.data(), elements.size() };
}

/* Return a view of a contiguous container, such as a std::vector, an array or
 * another view. */
template <class Elements>
auto contiguous(Elements &elements)
{
	using T = std::remove_pointer_t<decltype(std::data(elements))>;

	return view<T>(std::data(elements), std::size(elements));
}

inline void want(const char *what, std::size_t size, std::size_t wanted)
{
	if (size != wanted)
		throw error(COHORT_INVALID,
		            std::string(what) + " has " + std::to_string(size) +
		                    " elements, not " + std::to_string(wanted));
}

/* Return the enum cohort_type of two views, which must have the same type. */
template <class A, class B>
constexpr int common_type(view<A>, view<B>)
{
	static_assert(std::is_same_v<std::remove_cv_t<A>, std::remove_cv_t<B>>,
	              "what is sent and what is received differ in type");
	return type_of_v<A>;
}

/*
 * Calls on device memory, for a communicator or a batch
 *
 * Counts are the sizes of the views.  A view that only the root sends or
 * receives may be empty on other ranks.
 */
template <class Self>
class calls
{
public:
	/* cohort_all_reduce() */
	template <class Send, class Recv>
	auto all_reduce(Send &&send, Recv &&recv, int op,
	                stream_handle stream = {})
	{
		const auto from = device<Send>(send);
		const auto to = device<Recv>(recv);
		const int type = common_type(from, to);

		want("recv", to.size(), from.size());
		return queue(cohort_all_reduce, stream, from.data(), to.data(),
		             from.size(), type, op);
	}

	/* cohort_all_reduce() in place */
	template <class Data>
	auto all_reduce(Data &&data, int op, stream_handle stream = {})
	{
		const auto all = device<Data>(data);

		return all_reduce(all, all, op, stream);
	}

	/* cohort_broadcast() */
	template <class Send, class Recv>
	auto broadcast(Send &&send, Recv &&recv, int root,
	               stream_handle stream = {})
	{
		const auto from = device<Send>(send);
		const auto to = device<Recv>(recv);
		const int type = common_type(from, to);

		if (is(root))
			want("send", from.size(), to.size());
		return queue(cohort_broadcast, stream, from.data(), to.data(),
		             to.size(), type, root);
	}

	/* cohort_broadcast() in place */
	template <class Data>
	auto broadcast(Data &&data, int root, stream_handle stream = {})
	{
		const auto all = device<Data>(data);

		return broadcast(all, all, root, stream);
	}

	/* cohort_reduce() */
	template <class Send, class Recv>
	auto reduce(Send &&send, Recv &&recv, int op, int root,
	            stream_handle stream = {})
	{
		const auto from = device<Send>(send);
		const auto to = device<Recv>(recv);
		const int type = common_type(from, to);

		if (is(root))
			want("recv", to.size(), from.size());
		return queue(cohort_reduce, stream, from.data(), to.data(),
		             from.size(), type, op, root);
	}

	/* cohort_all_gather() */
	template <class Send, class Recv>
	auto all_gather(Send &&send, Recv &&recv, stream_handle stream = {})
	{
		const auto from = device<Send>(send);
		const auto to = device<Recv>(recv);
		const int type = common_type(from, to);

		want("recv", to.size(), ranks() * from.size());
		return queue(cohort_all_gather, stream, from.data(), to.data(),
		             from.size(), type);
	}

	/* cohort_reduce_scatter() */
	template <class Send, class Recv>
	auto reduce_scatter(Send &&send, Recv &&recv, int op,
	                    stream_handle stream = {})
	{
		const auto from = device<Send>(send);
		const auto to = device<Recv>(recv);
		const int type = common_type(from, to);

		want("send", from.size(), ranks() * to.size());
		return queue(cohort_reduce_scatter, stream, from.data(),
		             to.data(), to.size(), type, op);
	}

	/* cohort_gather() */
	template <class Send, class Recv>
	auto gather(Send &&send, Recv &&recv, int root,
	            stream_handle stream = {})
	{
		const auto from = device<Send>(send);
		const auto to = device<Recv>(recv);
		const int type = common_type(from, to);

		if (is(root))
			want("recv", to.size(), ranks() * from.size());
		return queue(cohort_gather, stream, from.data(), to.data(),
		             from.size(), type, root);
	}

	/* cohort_scatter() */
	template <class Send, class Recv>
	auto scatter(Send &&send, Recv &&recv, int root,
	             stream_handle stream = {})
	{
		const auto from = device<Send>(send);
		const auto to = device<Recv>(recv);
		const int type = common_type(from, to);

		if (is(root))
			want("send", from.size(), ranks() * to.size());
		return queue(cohort_scatter, stream, from.data(), to.data(),
		             to.size(), type, root);
	}

	/* cohort_all_to_all() */
	template <class Send, class Recv>
	auto all_to_all(Send &&send, Recv &&recv, stream_handle stream = {})
	{
		const auto from = device<Send>(send);
		const auto to = device<Recv>(recv);
		const int type = common_type(from, to);

		want("recv", to.size(), from.size());
		want("send", from.size(), from.size() / ranks() * ranks());
		return queue(cohort_all_to_all, stream, from.data(), to.data(),
		             from.size() / ranks(), type);
	}

	/* cohort_barrier() */
	auto barrier(stream_handle stream = {})
	{
		return queue(cohort_barrier, stream);
	}

	/* cohort_send() */
	template <class Send>
	auto send(Send &&send, int peer, stream_handle stream = {})
	{
		const auto from = device<Send>(send);

		return queue(cohort_send, stream, from.data(), from.size(),
		             common_type(from, from), peer);
	}

	/* cohort_recv() */
	template <class Recv>
	auto recv(Recv &&recv, int peer, stream_handle stream = {})
	{
		const auto to = device<Recv>(recv);

		return queue(cohort_recv, stream, to.data(), to.size(),
		             common_type(to, to), peer);
	}

protected:
	calls() noexcept = default;
	~calls() = default;
	calls(const calls &) noexcept = default;
	calls &operator=(const calls &) noexcept = default;

	bool is(int rank) noexcept
	{
		return cohort_comm_rank(comm()) == rank;
	}

	/* Throw if @size, the number of elements of @what, is not @wanted.  If
	 * this is a batch, first mark it so that its end() fails and nothing is
	 * launched. */
	void want(const char *what, std::size_t size, std::size_t wanted)
	{
		if (size != wanted)
			static_cast<Self *>(this)->refused();
		detail::want(what, size, wanted);
	}

	/* Return the number of ranks, or 1 without a communicator, because
	 * callers divide by it. */
	std::size_t ranks() noexcept
	{
		const int size = cohort_comm_size(comm());

		return size > 0 ? static_cast<std::size_t>(size) : 1;
	}

private:
	cohort_comm *comm() noexcept
	{
		return static_cast<Self *>(this)->get();
	}

	template <class Call, class... Arguments>
	auto queue(Call call, stream_handle handle, Arguments... arguments)
	{
		return static_cast<Self *>(this)->queued(
			[&](cohort_comm *comm, void *stream,
		            std::uint64_t *number) {
				return call(comm, arguments..., stream, number);
			},
			handle);
	}
};

} // namespace detail

/* Options of a group, set to their defaults by cohort_group_options_init(). */
struct group_options : cohort_group_options {
	group_options() noexcept
	{
		cohort_group_options_init(this);
	}
};

/* The communicator of one rank of a group. */
class communicator : public detail::calls<communicator>
{
public:
	communicator() noexcept = default;

	/* Create a handle that does not own the communicator. */
	explicit communicator(cohort_comm *comm) noexcept : comm_(comm)
	{
	}

	communicator(communicator &&other) noexcept
		: comm_(std::exchange(other.comm_, nullptr)),
		  is_owned_(std::exchange(other.is_owned_, false))
	{
	}

	communicator &operator=(communicator &&other) noexcept
	{
		communicator taken(std::move(other));

		std::swap(comm_, taken.comm_);
		std::swap(is_owned_, taken.is_owned_);
		return *this;
	}

	~communicator()
	{
		if (!is_owned_)
			return;
		if (unwinding_)
			cohort_comm_fail(comm_, detail::failure(),
			                 detail::left);
		if (cohort_comm_close(comm_) != COHORT_TIMED_OUT)
			return;
		/* Set a cause, so that waits for the tickets end soon. */
		cohort_comm_fail(comm_, COHORT_TIMED_OUT,
		                 "not done at the close deadline");
		cohort_comm_close(comm_);
	}

	/* cohort_comm_join() */
	[[nodiscard]] static communicator
	join(const struct cohort_unique_id &id, int nranks, int rank,
	     int device, const group_options &options = {})
	{
		communicator joined;

		check(cohort_comm_join(&id, nranks, rank, device, &options,
		                       &joined.comm_));
		joined.is_owned_ = true;
		return joined;
	}

	/* cohort_comm_split(); returns an empty handle for COHORT_NO_COLOR */
	[[nodiscard]] communicator split(int color, int key = 0)
	{
		communicator child;

		check(cohort_comm_split(comm_, color, key, &child.comm_),
		      comm_);
		child.is_owned_ = child.comm_ != nullptr;
		return child;
	}

	/* cohort_comm_subset() */
	[[nodiscard]] communicator subset(const struct cohort_unique_id &id,
	                                  const int *ranks, int n,
	                                  const char *name = nullptr)
	{
		communicator child;

		check(cohort_comm_subset(comm_, &id, ranks, n, name,
		                         &child.comm_),
		      comm_);
		child.is_owned_ = true;
		return child;
	}

	/* cohort_comm_close(); returns false for COHORT_TIMED_OUT, which leaves
	 * the communicator open */
	[[nodiscard]] bool close()
	{
		cohort_comm *comm = comm_;
		const int rc = cohort_comm_close(comm);

		if (rc == COHORT_TIMED_OUT)
			return false;
		if (rc != COHORT_STATE && rc != COHORT_BUSY &&
		    rc != COHORT_OWNER) {
			comm_ = nullptr;
			is_owned_ = false;
		}
		/* Do not pass comm to check(): the communicator and its cause
		 * may already be freed. */
		check(rc);
		return true;
	}

	/* cohort_comm_rank() */
	int rank() const noexcept
	{
		return cohort_comm_rank(comm_);
	}

	/* cohort_comm_size() */
	int size() const noexcept
	{
		return cohort_comm_size(comm_);
	}

	/* cohort_comm_device() */
	int device() const noexcept
	{
		return cohort_comm_device(comm_);
	}

	/* cohort_comm_platform() */
	int platform() const noexcept
	{
		return cohort_comm_platform(comm_);
	}

	/* cohort_comm_generation() */
	int generation() const noexcept
	{
		return cohort_comm_generation(comm_);
	}

	/* cohort_comm_origin() */
	int origin() const noexcept
	{
		return cohort_comm_origin(comm_);
	}

	/* cohort_comm_group_rank() */
	int group_rank(int rank) const noexcept
	{
		return cohort_comm_group_rank(comm_, rank);
	}

	/* cohort_comm_stream() */
	void *stream() const noexcept
	{
		return cohort_comm_stream(comm_);
	}

	/* cohort_comm_cause() */
	cohort_cause cause() const
	{
		cohort_cause cause = {};

		check(cohort_comm_cause(comm_, &cause));
		return cause;
	}

	/* cohort_comm_fail(); returns true if this call ended the group */
	bool fail(int code, const char *text = nullptr)
	{
		return check(cohort_comm_fail(comm_, code, text)) == COHORT_OK;
	}

	/* cohort_comm_abort_handle() */
	cohort::abort_handle abort_handle() const
	{
		return cohort::abort_handle(comm_);
	}

	/* cohort_tag() */
	void tag(const char *text)
	{
		check(cohort_tag(comm_, text), comm_);
	}

	/* cohort_alloc() for @size elements */
	template <class T>
	[[nodiscard]] memory<T> alloc(std::size_t size)
	{
		return memory<T>(comm_, size);
	}

	/* cohort_copy() */
	template <class To, class From>
	void copy(To &&dst, From &&src, stream_handle stream = {})
	{
		static_assert(detail::lasts<To> && detail::lasts<From>,
		              "a temporary is destroyed before it is copied");
		const auto to = detail::contiguous(dst);
		const auto from = detail::contiguous(src);

		detail::common_type(to, from);
		detail::want("src", from.size(), to.size());
		check(cohort_copy(comm_, to.data(), from.data(),
		                  to.size() * sizeof(*to.data()),
		                  stream.or_own(cohort_comm_stream(comm_))),
		      comm_);
	}

	/* cohort_synchronize() without a limit */
	void synchronize()
	{
		check(cohort_synchronize(comm_, COHORT_FOREVER), comm_);
	}

	/* cohort_synchronize(); returns false if an operation is not done
	 * yet */
	[[nodiscard]] bool synchronize_for(std::chrono::nanoseconds limit)
	{
		return check(cohort_synchronize(comm_,
		                                detail::nanoseconds(limit)),
		             comm_) == COHORT_OK;
	}

	/* cohort_after_stream() */
	void after_stream(void *stream)
	{
		check(cohort_after_stream(comm_, stream), comm_);
	}

	/* cohort_all_reduce_host() */
	template <class Data>
	void all_reduce_host(Data &&data, int op,
	                     std::chrono::nanoseconds limit = forever)
	{
		const auto all = detail::contiguous(data);

		done(cohort_all_reduce_host, limit, all.data(), all.size(),
		     detail::common_type(all, all), op);
	}

	/* cohort_broadcast_host() */
	template <class Data>
	void broadcast_host(Data &&data, int root,
	                    std::chrono::nanoseconds limit = forever)
	{
		const auto all = detail::contiguous(data);

		done(cohort_broadcast_host, limit, all.data(), all.size(),
		     detail::common_type(all, all), root);
	}

	/* cohort_reduce_host() */
	template <class Data>
	void reduce_host(Data &&data, int op, int root,
	                 std::chrono::nanoseconds limit = forever)
	{
		const auto all = detail::contiguous(data);

		done(cohort_reduce_host, limit, all.data(), all.size(),
		     detail::common_type(all, all), op, root);
	}

	/* cohort_all_gather_host() */
	template <class Send, class Recv>
	void all_gather_host(Send &&send, Recv &&recv,
	                     std::chrono::nanoseconds limit = forever)
	{
		const auto from = detail::contiguous(send);
		const auto to = detail::contiguous(recv);
		const int type = detail::common_type(from, to);

		detail::want("recv", to.size(), ranks() * from.size());
		done(cohort_all_gather_host, limit, from.data(), to.data(),
		     from.size(), type);
	}

	/* cohort_reduce_scatter_host() */
	template <class Send, class Recv>
	void reduce_scatter_host(Send &&send, Recv &&recv, int op,
	                         std::chrono::nanoseconds limit = forever)
	{
		const auto from = detail::contiguous(send);
		const auto to = detail::contiguous(recv);
		const int type = detail::common_type(from, to);

		detail::want("send", from.size(), ranks() * to.size());
		done(cohort_reduce_scatter_host, limit, from.data(), to.data(),
		     to.size(), type, op);
	}

	/* cohort_gather_host() */
	template <class Send, class Recv>
	void gather_host(Send &&send, Recv &&recv, int root,
	                 std::chrono::nanoseconds limit = forever)
	{
		const auto from = detail::contiguous(send);
		const auto to = detail::contiguous(recv);
		const int type = detail::common_type(from, to);

		if (is(root))
			detail::want("recv", to.size(), ranks() * from.size());
		done(cohort_gather_host, limit, from.data(), to.data(),
		     from.size(), type, root);
	}

	/* cohort_scatter_host() */
	template <class Send, class Recv>
	void scatter_host(Send &&send, Recv &&recv, int root,
	                  std::chrono::nanoseconds limit = forever)
	{
		const auto from = detail::contiguous(send);
		const auto to = detail::contiguous(recv);
		const int type = detail::common_type(from, to);

		if (is(root))
			detail::want("send", from.size(), ranks() * to.size());
		done(cohort_scatter_host, limit, from.data(), to.data(),
		     to.size(), type, root);
	}

	/* cohort_all_to_all_host() */
	template <class Send, class Recv>
	void all_to_all_host(Send &&send, Recv &&recv,
	                     std::chrono::nanoseconds limit = forever)
	{
		const auto from = detail::contiguous(send);
		const auto to = detail::contiguous(recv);
		const int type = detail::common_type(from, to);

		detail::want("recv", to.size(), from.size());
		detail::want("send", from.size(),
		             from.size() / ranks() * ranks());
		done(cohort_all_to_all_host, limit, from.data(), to.data(),
		     from.size() / ranks(), type);
	}

	/* cohort_send_host() */
	template <class Send>
	void send_host(Send &&send, int peer,
	               std::chrono::nanoseconds limit = forever)
	{
		const auto from = detail::contiguous(send);

		done(cohort_send_host, limit, from.data(), from.size(),
		     detail::common_type(from, from), peer);
	}

	/* cohort_recv_host() */
	template <class Recv>
	void recv_host(Recv &&recv, int peer,
	               std::chrono::nanoseconds limit = forever)
	{
		const auto to = detail::contiguous(recv);

		done(cohort_recv_host, limit, to.data(), to.size(),
		     detail::common_type(to, to), peer);
	}

	/* cohort_wait_host() */
	template <class Recv>
	void wait_host(Recv &&recv, std::chrono::nanoseconds limit = forever)
	{
		const auto to = detail::contiguous(recv);

		done(cohort_wait_host, limit, to.data(),
		     to.size() * sizeof(*to.data()));
	}

	cohort_comm *get() const noexcept
	{
		return comm_;
	}

private:
	friend class detail::calls<communicator>;

	void refused() noexcept
	{
	}

	template <class Call>
	ticket queued(Call call, stream_handle handle)
	{
		std::uint64_t number;

		check(call(comm_, handle.or_own(stream()), &number), comm_);
		return ticket(comm_, number);
	}

	template <class Call, class... Arguments>
	void done(Call call, std::chrono::nanoseconds limit,
	          Arguments... arguments)
	{
		const int rc =
			call(comm_, arguments..., detail::nanoseconds(limit));

		if (rc != COHORT_OK)
			detail::raise(rc, comm_);
	}

	cohort_comm *comm_ = nullptr;
	bool is_owned_ = false;
	detail::unwinding unwinding_;
};

/* While this object exists, only the thread that created it may submit
 * operations on the communicator. */
class [[nodiscard]] bound
{
public:
	/* cohort_comm_bind() */
	explicit bound(const communicator &comm) : comm_(comm.get())
	{
		is_ours_ = check(cohort_comm_bind(comm_), comm_) == COHORT_OK;
	}

	bound(const bound &) = delete;
	bound &operator=(const bound &) = delete;

	/* cohort_comm_unbind(); the destructor then does nothing */
	void unbind()
	{
		if (is_ours_)
			check(cohort_comm_unbind(comm_), comm_);
		is_ours_ = false;
		comm_ = nullptr;
	}

	/* cohort_comm_unbind() */
	~bound()
	{
		if (comm_ && unwinding_)
			cohort_comm_fail(comm_, detail::failure(),
			                 detail::left);
		if (is_ours_)
			cohort_comm_unbind(comm_);
	}

private:
	cohort_comm *comm_;
	bool is_ours_;
	detail::unwinding unwinding_;
};

/* Several calls as one operation: make them on this object, then end it. */
class batch : public detail::calls<batch>
{
public:
	/* cohort_batch_begin(); the whole batch is queued on @stream */
	explicit batch(const communicator &comm, stream_handle stream = {})
		: comm_(comm.get()), stream_(stream.or_own(comm.stream()))
	{
		check(cohort_batch_begin(comm_), comm_);
	}

	batch(const batch &) = delete;
	batch &operator=(const batch &) = delete;

	~batch()
	{
		if (!is_open_)
			return;
		refused();
		cohort_batch_end(comm_, stream_, nullptr);
	}

	/* cohort_batch_end() */
	ticket end()
	{
		std::uint64_t number;
		const int rc = cohort_batch_end(comm_, stream_, &number);

		is_open_ = rc == COHORT_BUSY || rc == COHORT_OWNER;
		check(rc, comm_);
		return ticket(comm_, number);
	}

	cohort_comm *get() const noexcept
	{
		return comm_;
	}

private:
	friend class detail::calls<batch>;

	/* Make an invalid call.  The library refuses it, so that
	 * cohort_batch_end() launches nothing. */
	void refused() noexcept
	{
		cohort_all_reduce(comm_, nullptr, nullptr, 0, -1, COHORT_SUM,
		                  stream_, nullptr);
	}

	template <class Call>
	void queued(Call call, stream_handle handle)
	{
		check(call(comm_, handle.or_own(stream_), nullptr), comm_);
	}

	cohort_comm *comm_;
	void *stream_;
	bool is_open_ = true;
};

namespace detail
{

/*
 * State that the workers of a run share
 *
 * An abandoned worker still needs this object, so the run and each worker hold
 * a reference, and the last one to release its reference destroys the object.
 * A worker that was never called does not release its reference.  So if no
 * worker was abandoned, the run itself destroys the object.
 */
template <class Worker>
class job
{
public:
	template <class Function>
	job(Function &&worker, int size)
		: worker_(std::forward<Function>(worker)), users_(size + 1)
	{
	}

	void put() noexcept
	{
		if (users_.fetch_sub(1) == 1)
			delete this;
	}

	/* Worker function for cohort_group_run() (a cohort_worker_fn). */
	static int work(cohort_comm *comm, void *user)
	{
		const std::unique_ptr<job, putter> self(
			static_cast<job *>(user));

		return self->call(comm);
	}

	/* Return the exception of the rank to blame, or NULL. */
	std::exception_ptr thrown() const noexcept
	{
		return has_thrown_ ? thrown_ : nullptr;
	}

private:
	struct putter {
		void operator()(job *self) const noexcept
		{
			self->put();
		}
	};

	int call(cohort_comm *comm)
	{
		using result =
			std::invoke_result_t<const Worker &, communicator &>;
		static_assert(std::is_void_v<result> ||
		                      std::is_same_v<result, int>,
		              "a worker returns nothing or an int");
		communicator handle(comm);

		try {
			if constexpr (std::is_void_v<result>) {
				std::invoke(worker_, handle);
				return 0;
			} else {
				return std::invoke(worker_, handle);
			}
#ifdef __GLIBCXX__
		} catch (abi::__forced_unwind &) {
			throw; /* from pthread_exit() */
#endif
		} catch (const error &e) {
			return give_up(comm, e.status(), e.what());
		} catch (const std::exception &e) {
			return give_up(comm, COHORT_WORKER, e.what());
		} catch (...) {
			return give_up(comm, COHORT_WORKER,
			               "an exception that is no "
			               "std::exception");
		}
	}

	int give_up(cohort_comm *comm, int code, const char *text) noexcept
	{
		cohort_cause cause = {};

		/* An error object that the program created may have any
		 * status. */
		if (!code)
			code = COHORT_WORKER;
		/* Has no effect if a destructor has already failed the rank. */
		cohort_comm_fail(comm, code, text);
		cohort_comm_cause(comm, &cause);
		if (cause.status == COHORT_WORKER &&
		    cause.rank == cohort_comm_rank(comm)) {
			thrown_ = std::current_exception();
			has_thrown_ = true;
		}
		return code;
	}

	const Worker worker_;
	std::atomic<int> users_;
	std::exception_ptr thrown_;
	std::atomic<bool> has_thrown_{ false }; /* thrown_ is set */
};

} // namespace detail

/* A group of some of the machine's devices, with one rank on each. */
class group
{
public:
	/* cohort_group_open() over the first @n devices, or all devices if @n
	 * is 0 */
	explicit group(int n = 0, const group_options &options = {})
	{
		check(cohort_group_open(nullptr, n, &options, &group_));
	}

	/* cohort_group_open() over @devices, one or more */
	explicit group(const std::vector<int> &devices,
	               const group_options &options = {})
	{
		if (devices.empty())
			throw error(COHORT_INVALID, "there are no devices");
		check(cohort_group_open(devices.data(),
		                        static_cast<int>(devices.size()),
		                        &options, &group_));
	}

	/* Deleted, because group({ 3 }) could mean three devices or device
	 * number 3. */
	explicit group(std::initializer_list<int>,
	               const group_options & = {}) = delete;

	group(group &&other) noexcept
		: group_(std::exchange(other.group_, nullptr))
	{
	}

	group &operator=(group &&other) noexcept
	{
		group taken(std::move(other));

		std::swap(group_, taken.group_);
		return *this;
	}

	~group()
	{
		if (group_ && unwinding_)
			cohort_group_abort(group_, detail::left);
		cohort_group_close(group_);
	}

	/* cohort_group_close() */
	void close()
	{
		const int rc = cohort_group_close(group_);

		if (rc != COHORT_STATE)
			group_ = nullptr;
		check(rc);
	}

	/* cohort_group_split() */
	std::vector<communicator> split()
	{
		const auto n = static_cast<std::size_t>(size());
		std::vector<cohort_comm *> comms(n);
		std::vector<communicator> handles;

		handles.reserve(n);
		check(cohort_group_split(group_, comms.data()), group_);
		for (cohort_comm *comm : comms)
			handles.emplace_back(comm);
		return handles;
	}

	/*
	 * Run worker(communicator &) on every rank, as cohort_group_run() does
	 *
	 * All ranks share one const worker object.  The worker returns nothing,
	 * or an int as a cohort_worker_fn does.  If an exception leaves the
	 * worker, its rank fails (cohort_comm_fail()) with the text of what().
	 * If this ends the group, run() throws an error whose thrown() is that
	 * exception.  If a destructor fails the rank first, while the exception
	 * unwinds, the text only says that an exception has left a scope, but
	 * thrown() is still that exception.
	 *
	 * After run() has thrown, abandoned workers (abandoned()) may still use
	 * objects that @worker refers to.  Objects that @worker holds by value
	 * live until the last worker has returned.
	 */
	template <class Worker>
	void run(Worker &&worker)
	{
		using job = detail::job<std::decay_t<Worker>>;

		const auto cause = std::make_shared<cohort_cause>();
		auto *work = new job(std::forward<Worker>(worker), size());
		const int rc =
			cohort_group_run(group_, job::work, work, cause.get());
		/* Copy the text before the next call, which may change it. */
		const std::string text = rc < 0 ? cohort_last_error() : "";
		/* With COHORT_STATE, the abandoned ranks are from the previous
		 * run. */
		const bool is_left =
			rc != COHORT_STATE &&
			cohort_group_abandoned(group_, nullptr, 0) > 0;
		const std::exception_ptr thrown = work->thrown();

		if (is_left)
			work->put();
		else
			delete work;
		if (rc >= 0)
			return;
		throw error(rc, rc == cause->status ? cause->text : text,
		            cause->status == COHORT_OK ? nullptr : cause,
		            thrown);
	}

	/* cohort_group_respawn() without the ranks in @lost */
	void respawn(const std::vector<int> &lost = {})
	{
		check(cohort_group_respawn(group_, lost.data(),
		                           static_cast<int>(lost.size())),
		      group_);
	}

	/* cohort_group_abort(); returns true if this call ended the group */
	bool abort(const char *reason = nullptr)
	{
		return check(cohort_group_abort(group_, reason)) == COHORT_OK;
	}

	/* cohort_group_cause() */
	cohort_cause cause() const
	{
		cohort_cause cause = {};

		check(cohort_group_cause(group_, &cause));
		return cause;
	}

	/* cohort_group_size() */
	int size() const noexcept
	{
		return cohort_group_size(group_);
	}

	/* cohort_group_platform() */
	int platform() const noexcept
	{
		return cohort_group_platform(group_);
	}

	/* cohort_group_generation() */
	int generation() const noexcept
	{
		return cohort_group_generation(group_);
	}

	/* cohort_group_devices() */
	std::vector<int> devices() const
	{
		const int n = size();
		std::vector<int> devices(n > 0 ? static_cast<std::size_t>(n)
		                               : 0);

		check(cohort_group_devices(group_, devices.data()));
		return devices;
	}

	/* cohort_group_abandoned() */
	std::vector<int> abandoned() const
	{
		return ranks(cohort_group_abandoned);
	}

	/* cohort_group_lost() */
	std::vector<int> lost() const
	{
		return ranks(cohort_group_lost);
	}

	cohort_group *get() const noexcept
	{
		return group_;
	}

private:
	std::vector<int> ranks(int (*ask)(const cohort_group *, int *,
	                                  int)) const
	{
		std::vector<int> ranks(COHORT_MAX_RANKS);
		const int n = ask(group_, ranks.data(), COHORT_MAX_RANKS);

		ranks.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
		return ranks;
	}

	cohort_group *group_ = nullptr;
	detail::unwinding unwinding_;
};

/* Options of a reducer, set to their defaults by
 * cohort_reducer_options_init(). */
struct reducer_options : cohort_reducer_options {
	reducer_options() noexcept
	{
		cohort_reducer_options_init(this);
	}
};

/* Return a parameter whose gradient is in the elements of @gradient. */
template <class Elements>
cohort_parameter parameter(const char *name, Elements &gradient)
{
	const auto all = detail::contiguous(gradient);

	return { name, all.data(), all.size(), detail::common_type(all, all) };
}

/* A reducer, which averages the gradients of all ranks. */
class reducer
{
public:
	/* cohort_reducer_create() */
	reducer(const communicator &comm,
	        const std::vector<cohort_parameter> &parameters,
	        const reducer_options &options = {})
		: comm_(comm.get())
	{
		check(cohort_reducer_create(comm_, parameters.data(),
		                            parameters.size(), &options,
		                            &reducer_),
		      comm_);
	}

	reducer(reducer &&other) noexcept
		: comm_(other.comm_),
		  reducer_(std::exchange(other.reducer_, nullptr)),
		  in_step_(other.in_step_)
	{
	}

	reducer &operator=(reducer &&other) noexcept
	{
		reducer taken(std::move(other));

		std::swap(comm_, taken.comm_);
		std::swap(reducer_, taken.reducer_);
		std::swap(in_step_, taken.in_step_);
		return *this;
	}

	~reducer()
	{
		if (cohort_reducer_free(reducer_) != COHORT_STATE)
			return;
		if (in_step_ ||
		    cohort_synchronize(comm_, detail::patience_ns) ==
		            COHORT_TIMED_OUT)
			cohort_comm_fail(comm_, detail::failure(),
			                 unwinding_
			                         ? detail::left
			                         : "its reducer was destroyed "
			                           "in a step");
		cohort_reducer_free(reducer_);
	}

	/* cohort_reducer_free() */
	void free()
	{
		const int rc = cohort_reducer_free(reducer_);

		if (rc == COHORT_OK || rc == COHORT_WEDGED)
			reducer_ = nullptr;
		check(rc, comm_);
	}

	/* cohort_reducer_begin() */
	void begin(stream_handle stream = {})
	{
		check(cohort_reducer_begin(reducer_, handle(stream)), comm_);
		in_step_ = true;
	}

	/* cohort_reducer_begin_weighted() */
	void begin_weighted(double weight, stream_handle stream = {})
	{
		check(cohort_reducer_begin_weighted(reducer_, weight,
		                                    handle(stream)),
		      comm_);
		in_step_ = true;
	}

	/* cohort_reducer_accumulate(); no other rank waits for a pass without
	 * communication */
	void accumulate()
	{
		check(cohort_reducer_accumulate(reducer_), comm_);
	}

	/* cohort_reducer_ready(); returns false if the gradient was already
	 * ready */
	bool ready(std::size_t i)
	{
		return check(cohort_reducer_ready(reducer_, i), comm_) ==
		       COHORT_OK;
	}

	/* cohort_reducer_progress(); returns false if a gradient is not
	 * ready */
	[[nodiscard]] bool progress(std::chrono::nanoseconds limit = {})
	{
		return check(cohort_reducer_progress(
				     reducer_, detail::nanoseconds(limit)),
		             comm_) == COHORT_OK;
	}

	/* cohort_reducer_finish(); returns COHORT_OK, _SKIP or _TIMED_OUT */
	[[nodiscard]] int finish(std::chrono::nanoseconds limit = forever)
	{
		return ended(cohort_reducer_finish(reducer_,
		                                   detail::nanoseconds(limit)));
	}

	/* cohort_reducer_cancel(); returns COHORT_OK, _ALREADY or _TIMED_OUT */
	[[nodiscard]] int cancel(std::chrono::nanoseconds limit = forever)
	{
		return ended(cohort_reducer_cancel(reducer_,
		                                   detail::nanoseconds(limit)));
	}

	/* cohort_reducer_join(); returns COHORT_OK, _SKIP, _JOINED or
	 * _TIMED_OUT */
	[[nodiscard]] int join(std::chrono::nanoseconds limit = forever)
	{
		const int rc = cohort_reducer_join(reducer_,
		                                   detail::nanoseconds(limit));

		if (rc == COHORT_TIMED_OUT || rc == COHORT_BUSY)
			in_step_ = true;
		return ended(rc);
	}

	/* cohort_reducer_finish_on() */
	void finish_on(void *stream)
	{
		ended(cohort_reducer_finish_on(reducer_, stream));
	}

	/* cohort_reducer_gather(); returns false if it is not done yet */
	[[nodiscard]] bool gather(const std::vector<void *> &parameters,
	                          stream_handle stream = {},
	                          std::chrono::nanoseconds limit = forever)
	{
		return check(cohort_reducer_gather(reducer_, parameters.data(),
		                                   handle(stream),
		                                   detail::nanoseconds(limit)),
		             comm_) == COHORT_OK;
	}

	/* cohort_reducer_shard(); returns the index of the first element, and
	 * the number of elements */
	std::pair<std::size_t, std::size_t> shard(std::size_t i) const
	{
		std::pair<std::size_t, std::size_t> own;

		check(cohort_reducer_shard(reducer_, i, &own.first,
		                           &own.second));
		return own;
	}

	/* cohort_reducer_view() */
	void *view(std::size_t i) const noexcept
	{
		return cohort_reducer_view(reducer_, i);
	}

	/* cohort_reducer_used() */
	int used(std::size_t i) const noexcept
	{
		return cohort_reducer_used(reducer_, i);
	}

	/* cohort_reducer_buckets() */
	int buckets() const noexcept
	{
		return cohort_reducer_buckets(reducer_);
	}

	/* cohort_reducer_bucket() */
	int bucket(std::size_t i) const noexcept
	{
		return cohort_reducer_bucket(reducer_, i);
	}

	cohort_reducer *get() const noexcept
	{
		return reducer_;
	}

private:
	void *handle(stream_handle stream) const noexcept
	{
		return stream.or_own(cohort_comm_stream(comm_));
	}

	/* Clear in_step_ if the step has ended.  After an error the group has a
	 * cause, or the step is still open. */
	int ended(int rc)
	{
		if (rc == COHORT_OK || rc == COHORT_SKIP || rc == COHORT_JOINED)
			in_step_ = false;
		return check(rc, comm_);
	}

	cohort_comm *comm_;
	cohort_reducer *reducer_ = nullptr;
	bool in_step_ = false; /* other ranks may wait for this one */
	detail::unwinding unwinding_;
};

} // namespace cohort

#endif
