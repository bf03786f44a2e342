/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Abort flags, and the kin that they are raised for: communicators that are aborted
 * together
 */

#include "base/scoped_lock.h"
#include "sim/nccl/comm.h"
#include "sim/nccl/meeting.h"

/* Guards the rings of kin; the locks of meetings and worlds may be acquired
 * inside. */
static pthread_mutex_t kin_lock = PTHREAD_MUTEX_INITIALIZER;

void comm_make_kin(struct ncclComm *parent, struct ncclComm *child)
{
	SCOPED_LOCK(&kin_lock);
	child->next_kin = parent->next_kin;
	child->last_kin = parent;
	parent->next_kin->last_kin = child;
	parent->next_kin = child;
	/* The child takes over the flag as it is. */
	child->aborted_for_good = parent->aborted_for_good;
	atomic_store_explicit(&child->member.aborted,
	                      atomic_load_explicit(&parent->member.aborted,
	                                           memory_order_relaxed),
	                      memory_order_release);
}

void comm_leave_kin(struct ncclComm *comm)
{
	SCOPED_LOCK(&kin_lock);
	comm->next_kin->last_kin = comm->last_kin;
	comm->last_kin->next_kin = comm->next_kin;
	comm->next_kin = comm->last_kin = comm;
}

static void raise_all(struct ncclComm *comm, bool pulse)
{
	struct ncclComm *kin = comm;
	struct world *w;

	pthread_mutex_lock(&kin_lock);
	do {
		/* seq_cst: then look where it has arrived, see at. */
		atomic_store(&kin->member.aborted, true);
		kin->aborted_for_good = kin->aborted_for_good || !pulse;
		w = meeting_cut(kin);
		if (w && (!pulse || comm_has_work(kin)))
			world_abort(w);
		kin = kin->next_kin;
	} while (kin != comm);
	pthread_mutex_unlock(&kin_lock);
	stream_settle();
}

void comm_raise(struct ncclComm *comm)
{
	raise_all(comm, false);
}

void comm_pulse(struct ncclComm *comm)
{
	raise_all(comm, true);
}

bool comm_kin_is_cut(struct ncclComm *comm)
{
	struct ncclComm *kin = comm;
	struct world *w;
	bool is_cut;

	SCOPED_LOCK(&kin_lock);
	do {
		w = meeting_world(kin);
		is_cut = w && world_is_broken(w) && comm_has_work(kin);
		kin = kin->next_kin;
	} while (!is_cut && kin != comm);
	return is_cut;
}

void comm_lower(struct ncclComm *comm)
{
	struct ncclComm *kin = comm;

	SCOPED_LOCK(&kin_lock);
	do {
		/* NCCL would also take back an abort that has come since. */
		if (!kin->aborted_for_good)
			atomic_store_explicit(&kin->member.aborted, false,
			                      memory_order_release);
		kin = kin->next_kin;
	} while (kin != comm);
}
