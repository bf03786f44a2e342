/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_STATUS_H
#define COHORT_STATUS_H

/*
 * Results: the codes that functions return, and the texts that explain them
 *
 * The section "Results" of cohort/cohort.h explains their signs.
 */

#ifdef __cplusplus
extern "C" {
#endif

/* The attribute of functions that the shared library exports. */
#if defined(__GNUC__)
#define COHORT_API __attribute__((visibility("default")))
#else
#define COHORT_API
#endif

/*
 * All results: constant, value, text
 *
 * The values are part of the ABI and are never reused.
 */
#define COHORT_STATUS_LIST(X)                                                  \
	X(COHORT_JOINED, 4, "every rank has joined: there is no step left")    \
	X(COHORT_SKIP, 3, "no rank may update its weights in this step")       \
	X(COHORT_TIMED_OUT, 2, "not done when the caller's timeout passed")    \
	X(COHORT_ALREADY, 1, "already done: nothing was changed")              \
	X(COHORT_OK, 0, "success")                                             \
	X(COHORT_INVALID, -1, "invalid argument")                              \
	X(COHORT_STATE, -2, "not possible in the object's state")              \
	X(COHORT_NO_MEMORY, -3, "out of memory")                               \
	X(COHORT_BUSY, -4, "another thread is inside this communicator")       \
	X(COHORT_OWNER, -5, "bound to another thread")                         \
	X(COHORT_UNSUPPORTED, -6, "not supported in this configuration")       \
	X(COHORT_NO_LIBRARY, -7, "library not found")                          \
	X(COHORT_NO_SYMBOL, -8, "symbol not found in library")                 \
	X(COHORT_NO_DEVICE, -9, "no driver or no devices")                     \
	X(COHORT_CUDA, -10, "CUDA failure")                                    \
	X(COHORT_NCCL, -11, "NCCL failure")                                    \
	X(COHORT_SYSTEM, -12, "operating system failure")                      \
	X(COHORT_ABORTED, -13, "aborted")                                      \
	X(COHORT_WORKER, -14, "a rank's worker returned an error")             \
	X(COHORT_WEDGED, -15, "an abort could not be completed")               \
	X(COHORT_MISMATCH, -16, "ranks made different calls")                  \
	X(COHORT_FORKED, -17, "in the child of a fork")                        \
	X(COHORT_THREAD_EXITED, -18, "the thread of a bound rank has exited")  \
	X(COHORT_STALLED, -19, "a collective missed its deadline")             \
	X(COHORT_INIT_TIMEOUT, -20, "ranks did not connect in time")           \
	X(COHORT_STALE, -21, "the communicator is no longer valid")            \
	X(COHORT_PROCESS_EXITED, -22, "a process of the group has exited")

enum cohort_status {
#define COHORT_STATUS_ENUM(name, value, text) name = value,
	COHORT_STATUS_LIST(COHORT_STATUS_ENUM)
#undef COHORT_STATUS_ENUM
};

/*
 * cohort_status_text - return the text of a result
 * @status: a result
 *
 * Returns: a text such as "success"; for an unknown value, a text that says so;
 * never NULL
 */
COHORT_API const char *cohort_status_text(int status);

/*
 * cohort_status_name - return the name of a result
 * @status: a result
 *
 * Returns: a name such as "COHORT_OK"; for an unknown value, a text that says
 * so; never NULL
 */
COHORT_API const char *cohort_status_name(int status);

/*
 * cohort_last_error - return why the last failed call of this thread failed
 *
 * The text names the argument and its value, or the native function with its
 * error code and the text of that code.  The text is meaningful only after a
 * call that failed, and is valid until the thread's next call.  Does not block.
 *
 * Returns: the text, never NULL
 */
COHORT_API const char *cohort_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
