/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of calls that are refused, in forked children and in environments that
 * change what NCCL's calls do, and of native calls that the program makes
 * between cohort_comm_native_enter() and _leave()
 */

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/native.h"
#include "support/ranks.h"
#include "support/spread.h"

TestSuite(guard, .timeout = 60);

/* ---- fork ------------------------------------------------------------- */

/*
 * Make every call that returns a result, in a forked child. Return the number
 * of results that are not refusals.
 */
static int forked_calls(struct cohort_group *group, struct cohort_comm *comm,
                        struct cohort_abort *handle)
{
	struct cohort_group *another;
	struct cohort_platform_info info = { .size = sizeof(info) };
	const struct cohort_fault fault = { .rank = -1 };
	struct cohort_cause cause;
	int32_t x = 1;
	void *memory;
	struct cohort_deadlines deadlines = { .join_ns = 1000000 };
	struct cohort_unique_id id = { { 0 } };
	struct cohort_comm *joined;
	int i, wrong = 0;
	/* A call that is not refused may wait without limit. */
	const unsigned none = alarm(30);
	const int rcs[] = {
		cohort_group_open(NULL, 1, NULL, &another),
		cohort_group_close(group),
		cohort_group_abort(group, NULL),
		cohort_group_cause(group, &cause),
		cohort_group_wait(group, 1, 0),
		cohort_comm_cause(comm, &cause),
		cohort_comm_bind(comm),
		cohort_comm_close(comm),
		cohort_comm_native_enter(comm, &memory),
		cohort_comm_native_leave(comm),
		cohort_all_reduce(comm, &x, &x, 1, COHORT_I32, COHORT_SUM, NULL,
		                  NULL),
		cohort_barrier(comm, NULL, NULL),
		cohort_wait(comm, 1, COHORT_FOREVER),
		cohort_synchronize(comm, COHORT_FOREVER),
		cohort_stream_after(comm, 1, NULL),
		cohort_after_stream(comm, NULL),
		cohort_alloc(comm, 1, &memory),
		cohort_free(comm, &x),
		cohort_copy(comm, &x, &x, 1, NULL),
		cohort_gather(comm, &x, &x, 1, COHORT_I32, 0, NULL, NULL),
		cohort_scatter(comm, &x, &x, 1, COHORT_I32, 0, NULL, NULL),
		cohort_all_to_all(comm, &x, &memory, 1, COHORT_I32, NULL, NULL),
		cohort_send(comm, &x, 1, COHORT_I32, 1, NULL, NULL),
		cohort_recv(comm, &x, 1, COHORT_I32, 1, NULL, NULL),
		cohort_batch_begin(comm),
		cohort_batch_end(comm, NULL, NULL),
		cohort_premul_sum_create(comm, &x, COHORT_I32,
		                         COHORT_SCALAR_HOST, &i),
		cohort_op_destroy(comm, 1),
		cohort_comm_split(comm, 0, 0, &joined),
		cohort_alloc_registered(comm, 1, &memory),
		cohort_register(comm, &x, sizeof(x), &memory),
		cohort_deregister(comm, &x),
		cohort_abort_fire(handle, NULL),
		cohort_comm_fail(comm, 1, NULL),
		cohort_platform_probe(place_platform(), &info),
		cohort_group_respawn(group, NULL, 0),
		cohort_deadline_push(comm, &deadlines),
		cohort_deadline_pop(comm),
		cohort_pause(comm),
		cohort_resume(comm),
		cohort_unique_id(COHORT_PLATFORM_AUTO, &id),
		cohort_comm_join(&id, 1, 0, 0, NULL, &joined),
		cohort_sim_set_devices(8),
		cohort_sim_fault_add(&fault),
	};

	for (i = 0; i < (int)(sizeof(rcs) / sizeof(rcs[0])); i++)
		if (rcs[i] != COHORT_FORKED)
			wrong = wrong ? wrong : i + 1;
	return none ? -1 : wrong;
}

/*
 * The functions by_...() create a child, each in a different way. Only fork()
 * runs the handlers of pthread_atfork().
 */
static pid_t by_fork(void)
{
	return fork();
}

static pid_t by_bare_fork(void)
{
#if __GLIBC_PREREQ(2, 34)
	return _Fork();
#else
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

static pid_t by_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static pid_t by_system_call(void)
{
#ifdef SYS_fork
	return (pid_t)syscall(SYS_fork);
#else
	return by_clone();
#endif
}

static pid_t (*const ways[])(void) = {
	by_fork,
	by_bare_fork,
	by_clone,
	by_system_call,
};

static void is_refused(pid_t (*way)(void), struct cohort_group *group,
                       struct cohort_comm *comm, struct cohort_abort *handle)
{
	int status = -1;
	pid_t child = way();

	if (child == 0)
		_exit(forked_calls(group, comm, handle));
	cr_assert_gt(child, 0);
	waitpid(child, &status, 0);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "call number %d is let in",
	             WEXITSTATUS(status));
}

Test(guard, calls_of_a_forked_child_are_refused_and_do_no_harm)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group = ranks_ahead(2, NULL, comms);
	struct cohort_abort *handle = cohort_comm_abort_handle(comms[0]);
	int32_t a = 1, b = 2;
	size_t i;

	ranks_sum(comms[0], &a);
	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		is_refused(ways[i], group, comms[0], handle);
	ranks_sum(comms[1], &b);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(a, 3);
	cr_assert_eq(cohort_abort_fired(handle), 0);
	cohort_abort_put(handle);
	expect_close(group);
}

Test(guard, open_is_refused_in_a_child_forked_after_a_probe)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	struct cohort_group *group;
	int status = -1;
	pid_t child;

	cohort_platform_probe(place_platform(), &info);
	child = fork();
	if (child == 0)
		_exit(cohort_group_open(NULL, 1, NULL, &group) !=
		      COHORT_FORKED);
	waitpid(child, &status, 0);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0);
}

static int nothing(struct cohort_comm *comm, void *user)
{
	(void)comm;
	(void)user;
	return 0;
}

struct call {
	struct cohort_group *group;
	struct cohort_comm *comm;
	struct cohort_abort *handle;
};

static int in_clone(void *arg)
{
	const struct call *call = arg;

	return forked_calls(call->group, call->comm, call->handle);
}

/* libc's clone() creates the child, with a separate stack. */
Test(guard, calls_of_a_cloned_child_are_refused)
{
	static _Alignas(64) char stack[1 << 18];
	struct cohort_comm *comms[1];
	struct call call = { .group = ranks_split(1, NULL, comms) };
	int status = -1;
	pid_t child;

	call.comm = comms[0];
	call.handle = cohort_comm_abort_handle(comms[0]);
	child = clone(in_clone, stack + sizeof(stack), SIGCHLD, &call);
	cr_assert_gt(child, 0);
	waitpid(child, &status, 0);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "call number %d is let in",
	             WEXITSTATUS(status));
	cohort_abort_put(call.handle);
	expect_close(call.group);
}

/*
 * Make the calls that compare the pid, in a child that shares the parent's
 * memory. Return the number of the first call that is not refused, or 0.
 */
static int in_sharing_clone(void *arg)
{
	const struct call *call = arg;
	struct cohort_unique_id id = { { 0 } };
	struct cohort_group *another;
	struct cohort_comm *joined;
	int called = 0;

#define IS_REFUSED(rc)                                                         \
	if (called++, (rc) != COHORT_FORKED)                                   \
		return called;
	IS_REFUSED(cohort_comm_bind(call->comm))
	IS_REFUSED(cohort_comm_unbind(call->comm))
	IS_REFUSED(cohort_group_split(call->group, &joined))
	IS_REFUSED(cohort_comm_split(call->comm, 0, 0, &joined))
	IS_REFUSED(cohort_group_run(call->group, nothing, NULL, NULL))
	IS_REFUSED(cohort_group_respawn(call->group, NULL, 0))
	IS_REFUSED(cohort_group_open(NULL, 1, NULL, &another))
	IS_REFUSED(cohort_unique_id(COHORT_PLATFORM_AUTO, &id))
	IS_REFUSED(cohort_comm_join(&id, 1, 0, 0, NULL, &joined))
	IS_REFUSED(cohort_comm_close(call->comm))
	IS_REFUSED(cohort_group_close(call->group))
	IS_REFUSED(cohort_comm_fail(call->comm, 1, NULL))
	IS_REFUSED(cohort_group_abort(call->group, NULL))
	IS_REFUSED(cohort_abort_fire(call->handle, NULL))
#undef IS_REFUSED
	return 0;
}

Test(guard, child_that_shares_memory_cannot_end_the_group)
{
	static _Alignas(64) char stack[1 << 18];
	struct cohort_comm *comms[1];
	struct call call = { .group = ranks_split(1, NULL, comms) };
	int status = -1;
	pid_t child;

	call.comm = comms[0];
	call.handle = cohort_comm_abort_handle(comms[0]);
	child = clone(in_sharing_clone, stack + sizeof(stack),
	              CLONE_VM | CLONE_VFORK | SIGCHLD, &call);
	cr_assert_gt(child, 0);
	waitpid(child, &status, 0);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "call number %d is let in",
	             WEXITSTATUS(status));
	cr_assert_eq(cohort_abort_fired(call.handle), 0);
	cohort_abort_put(call.handle);
	expect_close(call.group);
}

static bool never_wipes;    /* simulates Linux before 4.14 */
static bool ignores_advice; /* simulates QEMU's user mode */

/* Replaces libc's madvise(), to simulate other systems. */
int madvise(void *memory, size_t bytes, int advice)
{
	if (ignores_advice)
		return 0;
	if (never_wipes && advice == MADV_WIPEONFORK) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_madvise, memory, bytes, advice);
}

static void every_child_is_refused(void)
{
	struct cohort_comm *comms[1];
	struct cohort_group *group = ranks_split(1, NULL, comms);
	struct cohort_abort *handle = cohort_comm_abort_handle(comms[0]);
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		is_refused(ways[i], group, comms[0], handle);
	cohort_abort_put(handle);
	expect_close(group);
}

Test(guard, forked_child_is_refused_without_MADV_WIPEONFORK)
{
	never_wipes = true;
	every_child_is_refused();
}

Test(guard, forked_child_is_refused_if_madvise_does_nothing)
{
	ignores_advice = true;
	every_child_is_refused();
}

static void end_child(void *unused)
{
	(void)unused;
	_exit(0);
}

/*
 * The child's only thread exits, which runs the destructors of thread-specific
 * data. This test's destructor was created last, so it runs last, and ends the
 * child before the process would exit.
 */
Test(guard, bound_thread_may_exit_in_a_forked_child)
{
	struct cohort_comm *comms[1];
	struct cohort_group *group = ranks_split(1, NULL, comms);
	int status = -1;
	pthread_key_t key;
	pid_t child;

	cr_assert_eq(cohort_comm_bind(comms[0]), COHORT_OK);
	pthread_key_create(&key, end_child);
	child = fork();
	if (child == 0) {
		pthread_setspecific(key, &key);
		pthread_exit(NULL);
	}
	waitpid(child, &status, 0);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(cohort_comm_unbind(comms[0]), COHORT_OK);
	expect_close(group);
}

/* ---- a main() that ends by pthread_exit() ------------------------------ */

/*
 * Return the text after @key in the /proc status of a process, or "" if no line
 * starts with @key.
 */
static const char *status_of(pid_t pid, const char *key)
{
	static char text[4096];
	char path[64];
	const char *at;
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = '\0';
	at = strstr(text, key);
	return at ? at + strlen(key) + 1 : "";
}

static void await_end_of_main(pid_t pid)
{
	while (*status_of(pid, "\nState:") != 'Z')
		test_nap();
}

static void *close_without_main(void *group)
{
	await_end_of_main(getpid());
	ranks_must(cohort_group_close(group), "close");
	return NULL;
}

static int sum_of_two(struct cohort_comm *comm, void *user)
{
	int32_t value = 1;
	int rc = ranks_sum_wait(comm, &value);

	(void)user;
	return rc == COHORT_OK && value != 2 ? 1 : rc;
}

static void do_nothing(void *user)
{
	(void)user;
}

/* Queue work that the threads of the devices execute. */
static void use_devices(struct cohort_group *group)
{
	const struct platform *p = place_table();
	cudaStream_t stream = native_stream(p, 0);

	ranks_must(cohort_group_run(group, sum_of_two, NULL, NULL), "run");
	native_must(p->cudaLaunchHostFunc(stream, do_nothing, NULL),
	            "cudaLaunchHostFunc");
	native_must(p->cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	native_must(p->cudaStreamDestroy(stream), "cudaStreamDestroy");
}

static _Noreturn void leave_main(bool closes)
{
	struct cohort_group *group = ranks_open(2, NULL);
	pthread_t thread;

	use_devices(group);
	if (closes)
		pthread_create(&thread, NULL, close_without_main, group);
	pthread_exit(NULL);
}

Test(guard, process_without_main_thread_ends_after_the_close)
{
	int status = -1;
	pid_t child;

	spread_not("the test is about one process");
#ifdef __SANITIZE_ADDRESS__
	cr_skip("the search for leaks cannot stop a thread that has ended");
#endif
	place_need_for_child(2);
	child = fork();
	if (child == 0)
		leave_main(true);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0);
}

/* After main() has ended, only the library's threads exist, which block all
 * signals. */
Test(guard, process_without_main_thread_lives_while_a_group_is_open)
{
	int status = -1;
	pid_t child;

	spread_not("the test is about one process");
	place_need_for_child(2);
	child = fork();
	if (child == 0)
		leave_main(false);
	await_end_of_main(child);
	cr_assert_gt(atoi(status_of(child, "\nThreads:")), 1);
	cr_assert_eq(kill(child, SIGTERM), 0);
	cr_assert_eq(strtoull(status_of(child, "\nShdPnd:"), NULL, 16) >>
	                     (SIGTERM - 1),
	             1);
	cr_assert_eq(waitpid(child, &status, WNOHANG), 0);
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, &status, 0), child);
}

/* ---- environment ------------------------------------------------------ */

static void refused(const char *name, const char *value)
{
	struct cohort_group *group;

	place_choose();
	setenv(name, value, 1);
	cr_assert_eq(cohort_group_open(NULL, 1, NULL, &group), COHORT_INVALID);
	expect_text(cohort_last_error(), name);
	expect_text(cohort_last_error(), value);
}

Test(guard, open_refuses_an_environment_with_nonblocking_calls)
{
	refused("NCCL_COMM_BLOCKING", "0");
}

Test(guard, open_refuses_an_environment_in_which_launches_block)
{
	refused("NCCL_LAUNCH_MODE", "GROUP");
}

Test(guard, open_refuses_an_environment_with_shared_split_aborts)
{
	refused("NCCL_COMM_SPLIT_SHARE_RESOURCES", "1");
}

Test(guard, open_accepts_harmless_values_of_nccl_variables)
{
	struct cohort_group *group;

	place_choose();
	setenv("NCCL_COMM_BLOCKING", "1", 1);
	setenv("NCCL_LAUNCH_MODE", "PARALLEL", 1);
	setenv("NCCL_COMM_SPLIT_SHARE_RESOURCES", "0", 1);
	cr_assert_eq(cohort_group_open(NULL, 1, NULL, &group), COHORT_OK);
	expect_close(group);
}

/* ---- devices ---------------------------------------------------------- */

/* Fail like an event query on a device that was lost while a rank waits. */
static cudaError_t lost(cudaEvent_t event)
{
	(void)event;
	return cudaErrorLaunchFailure;
}

Test(guard, lost_device_ends_the_group_and_names_the_rank)
{
	static struct platform table;
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	struct cohort_cause cause;
	int32_t value = 1;

	table = *place_table();
	table.cudaEventQuery = lost;
	platform_override(&table);
	group = ranks_split(2, NULL, comms);
	cr_assert_eq(ranks_sum_wait(comms[0], &value), COHORT_CUDA);
	cohort_comm_cause(comms[1], &cause);
	cr_assert_eq(cause.kind, COHORT_VERDICT_DEVICE_LOST);
	cr_assert_eq(cause.rank, 0, "%s", cause.text);
	cr_assert_eq(cause.cuda, cudaErrorLaunchFailure);
	expect_text(cause.text, "device 0 has failed");
	cohort_group_close(group);
}

static const struct platform *whole;
static atomic_bool is_lost; /* device 0 is lost */

static bool is_on_lost(void)
{
	int device = -1;

	return is_lost && whole->cudaGetDevice(&device) == cudaSuccess &&
	       device == 0;
}

/* Queued operations never run on a lost device. */
static cudaError_t mark_unless_lost(cudaStream_t stream, uint32_t *word,
                                    uint32_t value)
{
	return is_on_lost() ? cudaSuccess : whole->mark(stream, word, value);
}

static cudaError_t query_unless_lost(cudaEvent_t event)
{
	return is_on_lost() ? cudaErrorIllegalAddress
	                    : whole->cudaEventQuery(event);
}

Test(guard, abort_does_not_wait_for_operations_on_a_lost_device)
{
	struct platform table = *(whole = place_table());
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	struct cohort_cause cause;
	int32_t value = 1;

	table.mark = mark_unless_lost;
	table.cudaEventQuery = query_unless_lost;
	platform_override(&table);
	group = ranks_ahead(2, NULL, comms);
	cr_assert_eq(whole->cudaSetDevice(0), cudaSuccess);
	is_lost = true;
	ranks_sum(comms[0], &value);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_CUDA,
	             "%s", cohort_last_error());
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.kind, COHORT_VERDICT_DEVICE_LOST);
	cr_assert_eq(cause.rank, 0, "%s", cause.text);
	cr_assert_eq(cause.cuda, cudaErrorIllegalAddress);
	expect_close(group);
}

static atomic_int asked;

/*
 * Fail as CUDA does if a thread calls it during exit(), after the runtime was
 * unloaded.
 */
static cudaError_t unloading(cudaEvent_t event)
{
	(void)event;
	atomic_fetch_add(&asked, 1);
	return cudaErrorCudartUnloading;
}

Test(guard, unloaded_runtime_is_not_mistaken_for_a_lost_device)
{
	static struct platform table;
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	struct cohort_cause cause;
	int32_t values[2] = { 1, 2 };
	uint64_t ticket;

	table = *place_table();
	table.cudaEventQuery = unloading;
	platform_override(&table);
	ranks_launch_ahead();
	group = ranks_split(2, NULL, comms);
	ticket = ranks_sum(comms[0], &values[0]);
	while (atomic_load(&asked) < 4)
		sched_yield();
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK, "%s",
	             cohort_last_error());
	cr_assert_eq(cohort_wait(comms[0], ticket, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_comm_cause(comms[0], &cause), COHORT_OK);
	expect_close(group);
}

Test(guard, call_after_cuda_is_unloaded_fails_and_ends_no_group)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	struct cohort_cause cause;
	int32_t value = 1;

	platform_override(failing_wrap(place_table()));
	ranks_launch_ahead();
	group = ranks_split(2, NULL, comms);
	failing_at("cudaMemcpyAsync", 1, ncclSuccess, cudaErrorCudartUnloading);
	cr_assert_eq(cohort_copy(comms[0], &value, &value, sizeof(value),
	                         cohort_comm_stream(comms[0])),
	             COHORT_CUDA);
	failing_at("cuStreamWriteValue32", 1, ncclSuccess,
	           cudaErrorCudartUnloading);
	cr_assert_eq(cohort_barrier(comms[0], cohort_comm_stream(comms[0]),
	                            NULL),
	             failing_fired() ? COHORT_CUDA : COHORT_OK);
	cr_assert_eq(cohort_comm_cause(comms[1], &cause), COHORT_OK);
	ranks_must(cohort_group_abort(group, "enough"), "abort");
	expect_close(group);
}

/* ---- opening ---------------------------------------------------------- */

Test(guard, open_names_the_rank_whose_memory_cannot_be_pinned)
{
	struct cohort_group *group;
	unsigned long n;

	spread_not("the test fails a call of each rank");
	platform_override(failing_wrap(place_table()));
	for (n = 1;; n++) {
		failing_at("cudaHostAlloc", n, ncclSuccess,
		           cudaErrorMemoryAllocation);
		if (cohort_group_open(NULL, 2, NULL, &group) == COHORT_OK)
			break;
		cr_assert_str_eq(failing_fired(), "cudaHostAlloc");
		expect_text(cohort_last_error(), n == 1 ? "rank 0, device 0: "
		                                        : "rank 1, device 1: ");
	}
	cr_assert_eq(n, 3);
	failing_at(NULL, 0, 0, 0);
	expect_close(group);
}

static const struct platform *real;
static _Thread_local int depth;
static atomic_int left_open, opened;

/*
 * Fail as NCCL does if it cannot use the second device after it has started to
 * open the first rank.
 */
static ncclResult_t fail_inside(ncclComm_t *comms, int n, const int *devices)
{
	ncclUniqueId id;

	(void)devices;
	real->ncclGetUniqueId(&id);
	real->ncclGroupStart();
	real->ncclCommInitRank(&comms[0], n, id, 0);
	atomic_store(&left_open, 1);
	depth = 1;
	return ncclUnhandledCudaError;
}

static ncclResult_t record_trial_end(void)
{
	if (depth) {
		depth = 0;
		atomic_store(&left_open, 0);
	}
	return real->ncclGroupEnd();
}

Test(guard, native_group_that_nccl_leaves_open_is_ended)
{
	static struct platform table;
	struct cohort_group *group;

	real = place_open(2);
	table = *real;
	table.ncclCommInitAll = fail_inside;
	table.ncclGroupEnd = record_trial_end;
	platform_override(&table);
	cr_assert_eq(cohort_group_open(NULL, 2, NULL, &group), COHORT_NCCL);
	expect_text(cohort_last_error(), "ncclCommInitAll");
	cr_assert_eq(atomic_load(&left_open), 0);
	table = *real;
	group = ranks_open(2, NULL);
	expect_close(group);
}

static cudaError_t refuse_device_1(int device)
{
	return device == 1 ? cudaErrorDevicesUnavailable
	                   : real->cudaSetDevice(device);
}

static ncclResult_t count_open(ncclComm_t *comms, int n, const int *devices)
{
	atomic_fetch_add(&opened, 1);
	return real->ncclCommInitAll(comms, n, devices);
}

Test(guard, open_names_an_unusable_device_before_it_calls_nccl)
{
	static struct platform table;
	struct cohort_group *group;

	real = place_open(2);
	table = *real;
	table.cudaSetDevice = refuse_device_1;
	table.ncclCommInitAll = count_open;
	platform_override(&table);
	cr_assert_eq(cohort_group_open(NULL, 2, NULL, &group), COHORT_CUDA);
	expect_text(cohort_last_error(), "rank 1, device 1: "
	                                 "cudaSetDevice: ");
	cr_assert_eq(atomic_load(&opened), 0);
}

/* Set a variable in the environment, as NCCL's first call does for a line of
 * ~/.nccl.conf. */
static ncclResult_t read_settings(ncclComm_t *comms, int n, const int *devices)
{
	setenv("NCCL_LAUNCH_MODE", "GROUP", 0);
	return real->ncclCommInitAll(comms, n, devices);
}

static ncclResult_t count_abort(ncclComm_t comm)
{
	atomic_fetch_sub(&opened, 1);
	return real->ncclCommAbort(comm);
}

Test(guard, open_refuses_settings_from_nccls_files)
{
	static struct platform table;
	struct cohort_group *group;

	real = place_open(2);
	table = *real;
	table.ncclCommInitAll = read_settings;
	table.ncclCommAbort = count_abort;
	platform_override(&table);
	opened = 2;
	cr_assert_eq(cohort_group_open(NULL, 2, NULL, &group), COHORT_INVALID);
	expect_text(cohort_last_error(), "NCCL_LAUNCH_MODE is \"GROUP\"");
	cr_assert_eq(atomic_load(&opened), 0, "a communicator is open");
}

Test(guard, group_level_calls_are_refused_if_launches_block)
{
	int32_t values[2] = { 1, 2 };
	const void *send[2] = { &values[0], &values[1] };
	void *recv[2] = { &values[0], &values[1] };
	struct cohort_comm *comms[2];
	struct cohort_group *group;

	spread_not("the test makes the calls of all ranks");
	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	ranks_launch_ahead();
	group = ranks_open(2, NULL);
	cr_assert_eq(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                     COHORT_SUM, NULL, NULL),
	             COHORT_UNSUPPORTED);
	expect_text(cohort_last_error(), "CUDA_LAUNCH_BLOCKING");
	cr_assert_eq(cohort_group_broadcast(group, send, recv, 1, COHORT_I32, 0,
	                                    NULL, NULL),
	             COHORT_UNSUPPORTED);
	ranks_must(cohort_group_split(group, comms), "split");
	ranks_sum(comms[0], &values[0]);
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	cr_assert_eq(values[1], 3);
	expect_close(group);
}

/* ---- native calls ----------------------------------------------------- */

static void *leave_elsewhere(void *comm)
{
	return (void *)(intptr_t)cohort_comm_native_leave(comm);
}

Test(guard, native_enter_admits_one_thread_at_a_time)
{
	struct cohort_comm *comms[1];
	struct cohort_group *group = ranks_split(1, NULL, comms);
	const struct platform *p;
	void *native = NULL, *rc;
	pthread_t thread;
	int n = 0;

	p = place_table();
	cr_assert_eq(cohort_comm_native_leave(comms[0]), COHORT_STATE);
	cr_assert_eq(cohort_comm_native_enter(comms[0], NULL), COHORT_INVALID);
	cr_assert_eq(cohort_comm_native_enter(comms[0], &native), COHORT_OK);
	cr_assert_eq(p->ncclCommCount(native, &n), ncclSuccess);
	cr_assert_eq(n, 1);
	cr_assert_eq(cohort_barrier(comms[0], NULL, NULL), COHORT_BUSY);
	cr_assert_eq(cohort_group_close(group), COHORT_STATE);
	pthread_create(&thread, NULL, leave_elsewhere, comms[0]);
	pthread_join(thread, &rc);
	cr_assert_eq((intptr_t)rc, COHORT_OWNER);
	cr_assert_eq(cohort_comm_native_leave(comms[0]), COHORT_OK);
	cr_assert_eq(cohort_barrier(comms[0], NULL, NULL), COHORT_OK);
	expect_close(group);
}

Test(guard, abort_waits_for_threads_in_native_calls)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group = ranks_ahead(2, NULL, comms);
	int32_t a = 1;
	uint64_t t = ranks_sum(comms[1], &a);
	void *native;

	cr_assert_eq(cohort_comm_native_enter(comms[0], &native), COHORT_OK);
	cr_assert_eq(cohort_group_abort(group, NULL), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[1], t, 3 * 1000 * 1000),
	             COHORT_TIMED_OUT);
	cr_assert_eq(cohort_comm_native_leave(comms[0]), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[1], t, RANKS_SOON), COHORT_ABORTED);
	cr_assert_eq(cohort_comm_native_enter(comms[0], &native),
	             COHORT_ABORTED);
	expect_close(group);
}

/* ---- threads that have exited ----------------------------------------- */

struct mortal {
	struct cohort_comm *comm;
	bool unbind;
	int32_t value;
	pthread_barrier_t *step;
};

static void *bind_and_exit(void *arg)
{
	struct mortal *m = arg;

	pthread_setname_np(pthread_self(), "mortal");
	cohort_comm_bind(m->comm);
	m->value = 1;
	ranks_must(cohort_wait(m->comm, ranks_sum(m->comm, &m->value),
	                       RANKS_SOON),
	           "sum");
	if (m->unbind)
		cohort_comm_unbind(m->comm);
	return NULL;
}

Test(guard, exit_of_a_bound_thread_ends_the_group_and_is_named)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group = ranks_ahead(2, NULL, comms);
	struct mortal m = { .comm = comms[1] };
	struct cohort_cause cause;
	int32_t a = 1, b = 2;
	pthread_t thread;
	uint64_t t;

	ranks_sum(comms[0], &a);
	t = ranks_sum(comms[0], &b);
	pthread_create(&thread, NULL, bind_and_exit, &m);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON),
	             COHORT_THREAD_EXITED);
	pthread_join(thread, NULL);
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.text, "the thread of rank 1 (");
	expect_text(cause.text,
	            "\"mortal\") has exited; when the group ended: rank "
	            "1 between calls, after all_reduce of 1 "
	            "int32, sum (collective 1); rank 0 in "
	            "all_reduce of 1 int32, sum (collective ");
	expect_close(group);
}

Test(guard, thread_may_exit_after_it_unbinds)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group = ranks_ahead(2, NULL, comms);
	struct mortal m = { .comm = comms[1], .unbind = true };
	int32_t a = 1;
	pthread_t thread;
	uint64_t t = ranks_sum(comms[0], &a);

	pthread_create(&thread, NULL, bind_and_exit, &m);
	pthread_join(thread, NULL);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(a, 2);
	cr_assert_eq(cohort_barrier(comms[1], NULL, NULL), COHORT_OK);
	cohort_group_abort(group, NULL);
	expect_close(group);
}

static void *bind_until(void *arg)
{
	struct mortal *m = arg;

	cohort_comm_bind(m->comm);
	pthread_barrier_wait(m->step);
	pthread_barrier_wait(m->step);
	return NULL;
}

Test(guard, thread_may_outlive_the_group_it_is_bound_to)
{
	struct cohort_comm *comms[1];
	struct cohort_group *group = ranks_split(1, NULL, comms);
	pthread_barrier_t barrier;
	struct mortal m = { .comm = comms[0], .step = &barrier };
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, bind_until, &m);
	pthread_barrier_wait(&barrier);
	expect_close(group);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
}

static int close_on_rank_1(struct cohort_comm *comm, void *user)
{
	int32_t value = 1;
	int rc = ranks_sum_wait(comm, &value);

	(void)user;
	if (rc == COHORT_OK && cohort_comm_rank(comm) == 1)
		rc = cohort_comm_close(comm);
	return rc;
}

Test(guard, bound_thread_may_exit_after_it_closes_its_rank)
{
	struct cohort_group *group = ranks_open(3, NULL);

	expect_run_in(group, close_on_rank_1, NULL);
	expect_close(group);
}

static int return_inside(struct cohort_comm *comm, void *user)
{
	void *native;

	(void)user;
	return cohort_comm_native_enter(comm, &native);
}

Test(guard, worker_may_return_without_cohort_comm_native_leave)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group = ranks_split(2, NULL, comms);
	void *native;

	expect_run_in(group, return_inside, NULL);
	cr_assert_eq(cohort_comm_native_enter(comms[0], &native), COHORT_OK);
	expect_end_of_run(group, return_inside, NULL, COHORT_STATE);
	expect_text(cohort_last_error(), "cohort_comm_native_enter()");
	cr_assert_eq(cohort_comm_native_leave(comms[0]), COHORT_OK);
	expect_close(group);
}

static int exit_on_rank_1(struct cohort_comm *comm, void *user)
{
	int32_t value = 1;

	(void)user;
	if (cohort_comm_rank(comm) == 1)
		pthread_exit(NULL);
	return ranks_sum_wait(comm, &value);
}

Test(guard, run_names_the_rank_whose_worker_exits_its_thread)
{
	struct cohort_group *group = ranks_open(3, NULL);
	struct cohort_cause cause;

	cause = expect_end_of_run(group, exit_on_rank_1, NULL,
	                          COHORT_THREAD_EXITED);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_close(group);
}
