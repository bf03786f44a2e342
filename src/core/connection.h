/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CONNECTION_H
#define CORE_CONNECTION_H

/* State of a connection, shared by the sources that implement connect.h */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/text.h"
#include "core/connect.h"

struct clique;

struct connection {
	/* Members up to @thread are constant while the connecting thread
	 * runs. */
	const struct platform *platform;
	int n;
	int *devices;
	int first; /* number of the first rank that connects in this thread */
	/* Number of ranks in all threads and processes; 0 if all ranks connect
	 * in this thread. */
	int size;
	ncclUniqueId id; /* ID by which the ranks connect, if size is not 0 */
	struct comm_config config;
	char name[64];
	size_t words; /* words per rank */
	/* The ranks that split, or NULL if the connection is not a split. */
	struct split_rank *split;
	bool (*is_futile)(void *of, bool is_native); /* see connect_world */
	void *of;
	/* True if no rank of another thread or process takes part. */
	bool is_alone;
	/* The clique that is split, or NULL; this pointer owns a reference. */
	struct clique *parent;
	pthread_t thread;

	atomic_bool is_native; /* connection_init() has succeeded */

	/* Atomic; thread ID, or 0 before the thread has started.  Relaxed,
	 * because it is for diagnostics only. */
	atomic_int tid;

	/* Atomic; the CUDA function that the thread is in, or NULL if it is in
	 * NCCL.  Relaxed, because it is for diagnostics only. */
	const char *_Atomic at;

	/* Atomic; index of the rank that the CUDA function is called for;
	 * written before @at.  Relaxed, because it is for diagnostics only. */
	atomic_int at_rank;

	/* Atomic; the NCCL function in which the ranks are being connected, or
	 * NULL while they are being created.  Relaxed, because it is for
	 * diagnostics only. */
	const char *_Atomic connecting;

	/* Atomic; number of the connecting thread's memory section or exclusive
	 * stay in the launch lock, or 0.  The connecting thread, or a caller
	 * that stops waiting, ends it: whichever first exchanges this for 0. */
	atomic_uint stay;

	/* Results; written by the connecting thread before it sets done. */
	ncclComm_t *native;
	struct connected *made;
	int status;
	char error[512];

	/* Guards the members down to @is_aborted. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* signaled when a flag below changes */
	/* The thread has finished, and waits until taken or left is set. */
	bool done;
	/* The caller has taken the results, and frees everything else. */
	bool taken;
	/* The caller has stopped waiting, so the thread frees everything. */
	bool left;
	/* The thread is connecting ranks, and an abort would stop it. */
	bool abortable;
	/* A caller that stopped waiting has started the aborter thread. */
	bool is_aborted;
	pthread_t aborter;
};

/* ---- connect_native.c ------------------------------------------------- */

/* Create the communicators with NCCL.  After an error some may be half open. */
int connection_init(struct connection *c);

/* Append "ranks 0-3, on devices 0 1 2 3". */
void connection_add_ranks(struct text *t, const struct connection *c);

/* ---- connect_warmup.c -------------------------------------------------- */

/* Connect the ranks that have a communicator, as far as the config requests
 * it. */
int connection_warm_up(struct connection *c);

/* Start a thread that aborts the connection, because the caller stops waiting.
 * The connecting thread must be abortable.  Call this with the lock held. */
void connection_abort_locked(struct connection *c);

/* ---- connect_device.c ------------------------------------------------- */

void connection_begin_section(struct connection *c);

/* End the thread's memory section or exclusive stay, if it is in one.  A caller
 * that stops waiting also calls this. */
void connection_end_section(struct connection *c);

/* Replace the thread's memory section with an exclusive stay in the launch
 * lock, during which no window, section or other connection is open.  Does
 * nothing if ranks of other threads or processes take part. */
void connection_begin_alone(struct connection *c);

/* Replace the exclusive stay with a memory section again. */
void connection_end_alone(struct connection *c);

/* Prefix this thread's error with the rank and the device at index @i; return
 * @status. */
int connection_error_at(const struct connection *c, int i, int status);

/* Allocate the device resources of each rank that has a communicator. */
int connection_make(struct connection *c);

void connection_release_resources(struct connection *c);

#endif
