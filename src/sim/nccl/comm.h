/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_COMM_H
#define SIM_NCCL_COMM_H

/*
 * Communicators of the host platform: one ncclComm per rank, and the world they
 * share
 *
 * As in NCCL, a communicator is used by one thread at a time, an abort raises
 * its flag at the call, and the memory of all ranks is freed by the last of
 * them to be aborted or destroyed (nccl.md of the design notes, section 1).
 */

#include "sim/exec/launch.h"
#include "sim/nccl/config.h"
#include "sim/nccl/redop.h"
#include "sim/strict/strict.h"

struct ncclComm {
	/* Constant after creation. */
	uint64_t magic;
	int device;
	ncclConfig_t config; /* with a value for each field */

	/* Written under the lock of all meetings when the ranks have met, of
	 * which this thread hears under it; constant from then on.  The world
	 * is NULL before, for ever if they do not meet, and again once it is
	 * freed; rank and n of one that joins by an id are known before. */
	struct world *world;
	int rank;
	int n;
	uint64_t number; /* of the world, which a buried one outlives */

	/* Guarded by the lock of all meetings: while it is to be made. */
	struct join *join;

	/* Atomic; who may still look at it: its owner, until the world is
	 * freed, and those who wait for it to meet or create its children. */
	atomic_int users;

	struct strict strict;

	/* Atomic; raised by ncclCommAbort() from any thread (release), polled by
	 * whoever works or waits for this rank (acquire).  A pulse raises it
	 * and takes it back. */
	atomic_bool aborted;

	/* Guarded by the kin's lock: a ring of those that are aborted together,
	 * a parent and the children that share its resources. */
	struct ncclComm *next_kin, *last_kin;

	/* Guarded by the kin's lock: the flag is not that of a pulse. */
	bool aborted_for_good;

	/* Atomic; what ncclCommGetAsyncError() answers: set by a scripted fault,
	 * and on one that does not block by the group it is in and by what fails.
	 * Release and acquire: whoever sees a group done sees what it did. */
	atomic_int async_error;

	/* Atomic; who does what it is in progress with, or NULL: written by the
	 * thread that uses it, and taken by whoever settles (background.c). */
	struct background *_Atomic background;

	/* Atomic; revoked, and to be released.  Relaxed: its owner's. */
	atomic_bool revoked;
	atomic_bool ending;

	/* Atomic; launches that nothing of the platform's looks at any more.  Release:
	 * what they wrote. */
	_Atomic uint64_t ended;

	/* Atomic; nodes of graphs, executable ones too, that use it: it is freed
	 * only when they are destroyed.  The last decrement releases their use. */
	_Atomic uint64_t captured;

	/* Owned by the thread that uses the communicator, which writes to it with
	 * every call: in no cache line with what others read. */
	_Alignas(CACHE_LINE) uint64_t operations; /* called, for faults */
	_Atomic uint64_t
		rounds;      /* atomic; launches queued: relaxed, a number */
	struct launch *open; /* of the group that is open, or NULL */
	struct stream *last; /* where the last launch went */
	bool finalized;

	struct redops redops;

	/* Atomic, seq_cst; the stream on which the last launch has joined.  Set
	 * before a look at the abort flag, read by who has raised one. */
	_Alignas(CACHE_LINE) struct stream *_Atomic at;

	/* Owned by who drives its launch: the rounds it has come to, of which a slot
	 * has the number. */
	uint64_t slots;

	/* The last launch that has joined: read by the last rank to arrive and by
	 * those inside; NULL once it is over where that is asked, in strict mode
	 * and with transfers. */
	struct launch *joined;

	/* Atomic, seq_cst; launches that are over: the next one has its turn.
	 * Moved by who ends one, which then looks for followers. */
	_Atomic uint64_t turn;

	/* Atomic, seq_cst; there may be followers: set under the world's lock
	 * before a last look at what they wait for. */
	atomic_bool followed;

	/* Guarded by the world's lock. */
	struct stream *followers; /* their first work waits for any of this */

	/* Its transfers without a partner: p2p.c.  Guarded by the world's lock; set
	 * once, by the thread that uses the communicator. */
	struct lane *lanes;

	/* Owned by the thread that uses the communicator.  The stock is memory
	 * that costs nothing until it is used, and then no allocation. */
	struct launch *first_given, *last_given;
	struct launch *stock;
	size_t stock_used;
	void *stock_memory;  /* what to free */
	struct launch *kept; /* see replay.h */

	/* Guarded by lock. */
	pthread_mutex_t lock;
	struct registration *registered; /* buffers and windows */
};

/* Launches a rank may have in flight before more are allocated: as many as its
 * stream can hold. */
#define COMM_STOCK STREAM_SLOTS

/* The part of a round that is left to one rank, at first. */
struct share {
	/* Atomic; pieces left, 0 or fewer: none.  Claimed by whoever is inside.
	 * Relaxed: they know the round from the gate, others only ask. */
	_Alignas(CACHE_LINE) atomic_long left;
	long pieces;
	size_t begin, end; /* in the bytes of the round */
};

/* Of a rank where ranks wait for cores: how often it has arrived, and on which core
 * its last driver was then.  Atomic; relaxed: who waits guesses from them. */
struct seat {
	_Alignas(CACHE_LINE) _Atomic uint64_t arrivals;
	atomic_int core;
};

/* What is done together: calls that all ranks have in common. */
struct round {
	const struct world *world;
	size_t span;    /* calls */
	size_t bytes;   /* see piece.h */
	bool is_single; /* one call, of every rank the same: this, and places */
	bool is_joined; /* several, whose runs are the same on all ranks */
	struct call only;
	const struct place *places; /* by rank */
	const struct call *calls;   /* several, as one of the ranks has them */
	const struct place *const *lists; /* and the places of each rank's */
};

/* Where the ranks meet. */
struct world {
	/* Constant after creation. */
	int n;
	bool is_crowded; /* more ranks than cores */
	uint64_t number; /* in the order of creation, which all groups follow */

	/* Atomic; how many were aborted or destroyed. */
	atomic_int released;

	/* By rank; as long as the world.  The shares and lists are as the round. */
	struct ncclComm **comms;
	struct share *shares;
	const struct place **lists;
	struct seat *seats;               /* NULL: there is a core for each */
	struct slot *slots;               /* two a rank, or NULL: see slot.h */
	struct split_round *split_rounds; /* NULL: there are none */

	/* Guards what is said to be guarded by the world's lock; in strict mode
	 * all of the world but the work on pieces.  With what is written under it,
	 * in no cache line with what all read. */
	_Alignas(CACHE_LINE) pthread_mutex_t lock;

	/* Atomic; threads that may touch buffers of messages, in strict mode. */
	atomic_int copying;

	/* The round.  Written by who opens it before it is open, read by those
	 * inside, and until the next one by those who were. */
	_Alignas(CACHE_LINE) struct round round;
	size_t pieces; /* of all shares */

	/* Atomic, seq_cst; the rounds that have ended, and whether one is open:
	 * what those who wait look at, and nothing else. */
	_Alignas(CACHE_LINE) _Atomic uint64_t phase;

	/* What those who arrive write, together: of two ranks one cache line. */

	/* Atomic, seq_cst; see rendezvous.c: who is inside and what is finished of the
	 * round, whether it is open, and whether all is broken. */
	_Alignas(CACHE_LINE) _Atomic uint64_t gate;

	/* Atomic; how many have arrived, ever, but with nothing else than slots.
	 * Acquire and release: what they bring. */
	_Atomic uint64_t arrived;

	/* Atomic; the last round for which all came with slots and that somebody
	 * has to open.  Relaxed: who has changed it does. */
	_Atomic uint64_t opened;

	/* By rank; written by who arrives, read by the last to arrive and by
	 * those inside. */
	struct place places[];
};

#define NO_WORLD UINT64_MAX /* the number of one that has not met */

#define COMM_MAGIC UINT64_C(0x636f686f7274636d)
#define COMM_BURIED UINT64_C(0x627572696564636d)

/* NULL, freed (as far as can be told) or foreign communicators are not; in strict
 * mode a freed one ends the program.  @function is the one that was called. */
bool comm_is_valid(const struct ncclComm *comm, const char *function);

/* A communicator to be, of one user, or NULL without memory. */
struct ncclComm *comm_create(int device, const ncclConfig_t *config);

/* One user more; one less, and the last one frees it. */
void comm_get(struct ncclComm *comm);
void comm_put(struct ncclComm *comm);

/* Let @child be aborted with @parent, and the other way round. */
void comm_make_kin(struct ncclComm *parent, struct ncclComm *child);

/* A world for @n ranks, or NULL without memory; make @comm rank @rank of it; free
 * it with its ranks. */
struct world *world_create(int n);
void world_add(struct world *world, struct ncclComm *comm, int rank);
void world_free(struct world *world);

/* Raise the abort flag of @comm and its kin and let everyone see it.  Any thread;
 * no lock may be held. */
void comm_raise(struct ncclComm *comm);

/* The same to end what is under way, if anything is, and no more: comm_quiesce() waits
 * for that, of its kin, too, and takes the flags back.  It is made of the rest: true
 * while anything of them is being cut short, and take them back. */
void comm_pulse(struct ncclComm *comm);
ncclResult_t comm_quiesce(struct ncclComm *comm);
bool comm_kin_is_cut(struct ncclComm *comm);
void comm_lower(struct ncclComm *comm);

/* True if children of @comm are its kin: if it is configured so and not revoked. */
bool comm_shares(const struct ncclComm *comm, int configured);

/* True if something that this rank launched is not done (acquire: what was); to other
 * threads than its own it may be out of date. */
static inline bool comm_has_work(const struct ncclComm *comm)
{
	return atomic_load_explicit(&comm->ended, memory_order_acquire) !=
	       atomic_load_explicit(&comm->rounds, memory_order_relaxed);
}

/* Wait until everything that this rank launched is done, and for the end of every graph
 * that has captured its work. */
ncclResult_t comm_sync(struct ncclComm *comm);

/*
 * comm_use    - the first checks of a function that needs a communicator, in
 *               NCCL's order: it is one, it is not revoked, it is ready
 * comm_ready  - only the last: nothing is in progress, and nothing has failed on
 *               one that does not block.  All is well with an aborted one
 * comm_answer - what the function answers in the end: @result, but its state for
 *               one that does not block, of which an error stays
 * comm_blocks - false of one that does not
 *
 * Errors of the first are those of the open group, too.
 */
ncclResult_t comm_use(struct ncclComm *comm, const char *function);
ncclResult_t comm_ready(struct ncclComm *comm);
ncclResult_t comm_answer(struct ncclComm *comm, ncclResult_t result);
bool comm_blocks(const struct ncclComm *comm);

/* What ncclCommGetAsyncError() answers (acquire). */
ncclResult_t comm_state(const struct ncclComm *comm);

/* The step function of a launch: arrive, and with the others do the work. */
enum step rendezvous_step(struct stream *stream, struct work *work,
                          const struct drive *drive);

/* One of what is left of a launch is done, by the driver of a stream of @by: if that was
 * all, the next launch of its rank has its turn.  With the world's lock held. */
void launch_end_locked(struct launch *launch, const struct ncclComm *by);

/* Threads that may touch buffers of a round; and whether a rank was aborted, so
 * that nothing more is started. */
int world_inside(const struct world *world);
bool world_is_broken(const struct world *world);

/* Kick those who wait for anything of @comm.  With the world's lock held. */
void comm_kick_locked(struct ncclComm *comm);

static inline bool comm_is_aborted(const struct ncclComm *comm)
{
	/* seq_cst, see at. */
	return atomic_load(&comm->aborted);
}

/* A rank's abort flag is up: let everyone see it, once stream_settle() is called
 * without any lock. */
void rendezvous_break(struct world *world);

/* Remember @text for ncclGetLastError() and return @result.  @text lives for
 * ever. */
ncclResult_t comm_error(ncclResult_t result, const char *text);

#endif
