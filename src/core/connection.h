/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CONNECTION_H
#define CORE_CONNECTION_H

/*
 * What the sources of connect.h have in common: a connection that a thread of
 * its own is making
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/text.h"
#include "core/connect.h"

struct clique;

struct connection {
	/* Constant while the thread runs. */
	const struct platform *platform;
	int n;
	int *devices;
	int first; /* the number of the first rank that connects here, */
	int size;  /* and the number of ranks, with those of other threads and
	              processes; 0: all ranks connect here */
	ncclUniqueId id; /* by which they find each other, if size is not 0 */
	struct comm_config config;
	char name[64];
	size_t words;               /* for each rank */
	struct split_rank *split;   /* the ranks that split; NULL: none do */
	const atomic_bool *is_vain; /* see struct connect_world */
	bool is_alone; /* no rank of another thread or process takes part */
	struct clique *parent; /* the clique that is split; a reference */
	pthread_t thread;

	/* Atomic; the thread's number in the system, 0: the thread has not
	 * begun.  Relaxed: for diagnostics only. */
	atomic_int tid;

	/* Atomic; the CUDA function that the thread is in, NULL: it is in NCCL;
	 * and the rank that the function is called for, which is written first.
	 * Relaxed: for diagnostics only. */
	const char *_Atomic at;
	atomic_int at_rank;

	/* Atomic; the ranks are being connected, which NCCL does in this
	 * function; NULL: they are being made.  Relaxed: for diagnostics only. */
	const char *_Atomic connecting;

	/* Atomic; the thread's memory section, 0: none.  Whoever ends the
	 * section exchanges it for 0: the thread, or the caller that leaves. */
	atomic_uint section;
	atomic_uint alone; /* the thread's stay while it connects pairs, or 0 */

	/* Written by the thread before it is done. */
	ncclComm_t *native;
	struct connected *made;
	int status;
	char error[512];

	/* Guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* one of the flags below was set */
	/* Set by the thread, which then waits for one of the others. */
	bool done;
	bool taken; /* the caller has taken what was made, and frees the rest */
	bool left;  /* the caller has left: the thread gives everything back */
	bool abortable; /* the thread is connecting, which an abort would end */
	bool is_aborted; /* a caller that has left has started the aborter */
	pthread_t aborter;
};

/* ---- connect_native.c ------------------------------------------------- */

/* Have NCCL make the communicators.  After an error some may be half open. */
int connection_init(struct connection *c);

/* Add "ranks 0-3, on devices 0 1 2 3". */
void connection_add_ranks(struct text *t, const struct connection *c);

/* ---- connect_warmup.c -------------------------------------------------- */

/* Connect the ranks that have a communicator, as the config says. */
int connection_warm_up(struct connection *c);

/* Begin to abort a connection whose thread connects its ranks, and whose caller
 * leaves.  With the lock held. */
void connection_abort_locked(struct connection *c);

/* ---- connect_device.c ------------------------------------------------- */

/* Begin and end the thread's memory section.  The caller that leaves ends it,
 * too. */
void connection_begin_section(struct connection *c);
void connection_end_section(struct connection *c);

/* Instead of in the section, be alone: nothing else is launched or freed
 * meanwhile.  Does nothing if ranks of other threads or processes are waited
 * for. */
void connection_begin_alone(struct connection *c);
void connection_end_alone(struct connection *c);

/* Put the rank and the device of place @i before this thread's error; return
 * @status. */
int connection_error_at(const struct connection *c, int i, int status);

/* Make what each rank with a communicator needs of its device. */
int connection_make(struct connection *c);

/* Give back all that was made, with the communicators. */
void connection_take_back(struct connection *c);

#endif
