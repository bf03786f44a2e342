/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is registered with a communicator
 *
 * The simulator treats all memory alike, and registering it makes nothing
 * faster.  Only the handles are tracked, so that a program that gets them wrong
 * gets NCCL's errors.
 */

#include "sim/nccl/register.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/sync.h"

struct registration {
	struct registration *next;
	const char *function; /* that made it */
	uintptr_t first, end; /* what it covers */
	int users;
	bool is_used; /* by a collective; kept in strict mode, and where memory waits */
};

const char registered_buffer[] = "ncclCommRegister";

struct registration *registration_create(const char *function,
                                         const void *memory, size_t bytes,
                                         uintptr_t page)
{
	struct registration *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->function = function;
	r->first = (uintptr_t)memory & -page;
	r->end = ((uintptr_t)memory + bytes + page - 1) & -page;
	r->users = 1;
	return r;
}

void registered_add(struct ncclComm *comm, struct registration *r)
{
	SCOPED_LOCK(&comm->lock);
	r->next = comm->registered;
	comm->registered = r;
}

void registered_free(struct registration *r)
{
	struct registration *next;

	for (; r; r = next) {
		next = r->next;
		free(r);
	}
}

bool registered_remove(struct ncclComm *comm, const void *handle,
                       const char *function)
{
	struct registration *r;
	bool last;

	pthread_mutex_lock(&comm->lock);
	list_find(r, comm->registered, next,
	          r == handle && r->function == function);
	last = r && --r->users == 0;
	if (last)
		list_remove(comm->registered, r, next);
	pthread_mutex_unlock(&comm->lock);
	if (last) {
		sync_memory();
		free(r);
	}
	return r;
}

struct registration *registered_find(struct ncclComm *comm,
                                     const struct registration *like)
{
	struct registration *r;

	SCOPED_LOCK(&comm->lock);
	for (r = comm->registered; r; r = r->next)
		if (r->function == like->function && r->first <= like->first &&
		    like->end <= r->end)
			break;
	if (r)
		r->users++;
	return r;
}

void registered_use(struct ncclComm *comm, const void *memory)
{
	const uintptr_t at = (uintptr_t)memory;
	struct registration *r;
	bool is_first = false;

	pthread_mutex_lock(&comm->lock);
	for (r = comm->registered; r; r = r->next) {
		if (at < r->first || at >= r->end)
			continue;
		is_first |= !r->is_used;
		r->is_used = true;
	}
	pthread_mutex_unlock(&comm->lock);
	if (is_first)
		sync_memory();
}

void registered_check(const struct ncclComm *comm)
{
	const struct registration *r;

	for (r = comm->registered; r; r = r->next)
		if (r->is_used && r->function == registered_buffer)
			member_die("ncclCommDestroy", &comm->member,
			           "a buffer that a collective has used is "
			           "still registered: call "
			           "ncclCommDeregister() first");
}
