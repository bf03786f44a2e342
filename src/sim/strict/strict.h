/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_STRICT_STRICT_H
#define SIM_STRICT_STRICT_H

/*
 * Strict mode (COHORT_HOST_STRICT, see sim.h): what NCCL leaves undefined ends
 * the program, with a line on stderr that says what it was
 *
 * A communicator is not given back when it is freed, but buried: kept, with
 * another magic number, so that its use is seen for certain.
 *
 * What threads share here is atomic, and no acquire meets a release: the checks
 * must not put threads in an order in which the program did not, or a sanitizer
 * would miss its races.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ncclComm;
struct world;

/* What is kept per communicator. */
struct strict {
	/* Atomic; the number of the thread that is inside, 0: nobody. */
	_Atomic uint64_t inside;

	/* Atomic; the function that it went in with, and the one that released
	 * the communicator.  NULL or a literal. */
	const char *_Atomic entered_by;
	const char *_Atomic released_by;

	/* Atomic; a scripted fault has made a call of its fail. */
	atomic_bool struck;

	/* Atomic; the child that is being made of it, or whose making has failed:
	 * whose flags its abort writes to, as NCCL's does. */
	struct ncclComm *_Atomic child;

	/* Owned by the thread that is inside: what else it is inside of. */
	struct ncclComm *next_inside;

	/* Constant once buried. */
	struct ncclComm *next_buried;
};

/* Atomic; written once, before the first use of the platform.  Relaxed. */
extern atomic_bool strict_on;

static inline bool strict_is_on(void)
{
	return atomic_load_explicit(&strict_on, memory_order_relaxed);
}

/* Read the environment, once. */
void strict_init(void);

/* For use in strict mode only; @function is the one that was called. */

/* End the program with a line about a call of @function on @comm, or on none. */
void strict_die(const char *function, const struct ncclComm *comm,
                const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));

/* The calling thread goes inside, until strict_leave() leaves all it is in. */
void strict_enter(struct ncclComm *comm, const char *function);
void strict_leave(void);

/* The calling thread opens a group; @depth is 0 when none is open any more, and
 * lives as long as the thread. */
void strict_open_group(int *depth);

/* Nothing of the communicator may be outstanding; before strict_enter(). */
void strict_check_idle(const struct ncclComm *comm, const char *function);

/* A communicator is aborted or destroyed; the calling thread leaves it. */
void strict_release(struct ncclComm *comm, const char *function);

/* The same, if it has met: an abort and a destroy do not mix on @world while what
 * is destroyed has work in flight. */
void strict_check_mixed(const struct world *world, const struct ncclComm *comm,
                        const char *function);

/* All of @world is about to be freed, as all are released; and when all work is
 * done. */
void strict_check_free(const struct world *world, const char *function);
void strict_check_buffers(struct world *world, const char *function);

/* @comm is about to be aborted: a child that it failed to make is still there. */
void strict_check_child(const struct ncclComm *comm, const char *function);

/* Keep a communicator that is freed; how many there are. */
void strict_bury(struct ncclComm *comm);
unsigned long strict_buried(void);

/* A communicator that was buried is used. */
void strict_used(const struct ncclComm *comm, const char *function)
	__attribute__((noreturn));

#endif
