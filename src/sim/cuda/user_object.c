/* SPDX-License-Identifier: Apache-2.0 */

/* Implements user objects (see graph.h) */

#include "sim/cuda/graph.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/host.h"

struct user_object {
	/* The following members are constant. */
	void *user;
	cudaHostFn_t end;

	/* Guarded by lock. */
	unsigned long long uses;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void retain(struct user_object *o, unsigned int count)
{
	SCOPED_LOCK(&lock);
	o->uses += count;
}

/* Release @count references, or return false if there are fewer.  When the last
 * reference is released, call the program's function, which must not call
 * CUDA. */
static bool release(struct user_object *o, unsigned int count)
{
	const bool was_forbidden = stream_permits_calls() != cudaSuccess;
	bool has, ends;

	pthread_mutex_lock(&lock);
	has = o->uses >= count;
	if (has)
		o->uses -= count;
	ends = has && !o->uses;
	pthread_mutex_unlock(&lock);
	if (ends) {
		device_forbid_calls(true);
		o->end(o->user);
		device_forbid_calls(was_forbidden);
		free(o);
	}
	return has;
}

/* ---- references of graphs --------------------------------------------- */

static bool add(struct graph_use **list, struct user_object *o,
                unsigned int count)
{
	struct graph_use *use = malloc(sizeof(*use));

	if (!use)
		return false;
	use->object = o;
	use->count = count;
	SCOPED_LOCK(&lock);
	use->next = *list;
	*list = use;
	return true;
}

bool user_objects_copy(struct graph_use **to, const struct graph_use *from)
{
	bool ok = true;

	for (; ok && from; from = from->next) {
		ok = add(to, from->object, from->count);
		if (ok)
			retain(from->object, from->count);
	}
	return ok;
}

void user_objects_drop(struct graph_use *use)
{
	struct graph_use *next;

	for (; use; use = next) {
		next = use->next;
		release(use->object, use->count);
		free(use);
	}
}

/* Remove @count references to @o from @list.  Return false if no single entry
 * has that many references. */
static bool remove_references(struct graph_use **list, struct user_object *o,
                              unsigned int count)
{
	struct graph_use **at, *use;

	SCOPED_LOCK(&lock);
	for (at = list; *at; at = &(*at)->next)
		if ((*at)->object == o && (*at)->count >= count)
			break;
	use = *at;
	if (!use)
		return false;
	use->count -= count;
	if (!use->count) {
		*at = use->next;
		free(use);
	}
	return true;
}

/* ---- CUDA's functions ------------------------------------------------- */

static bool count_is_valid(unsigned int count)
{
	return count && count <= INT_MAX;
}

cudaError_t host_cudaUserObjectCreate(cudaUserObject_t *object, void *user,
                                      cudaHostFn_t end, unsigned int uses,
                                      unsigned int flags)
{
	struct user_object *o;

	if (!object || !end || !count_is_valid(uses) ||
	    flags != cudaUserObjectNoDestructorSync)
		return device_error(cudaErrorInvalidValue);
	o = malloc(sizeof(*o));
	if (!o)
		return device_error(cudaErrorMemoryAllocation);
	o->user = user;
	o->end = end;
	o->uses = uses;
	*object = (cudaUserObject_t)o;
	return cudaSuccess;
}

cudaError_t host_cudaUserObjectRetain(cudaUserObject_t object,
                                      unsigned int count)
{
	if (!object || !count_is_valid(count))
		return device_error(cudaErrorInvalidValue);
	retain((struct user_object *)object, count);
	return cudaSuccess;
}

cudaError_t host_cudaUserObjectRelease(cudaUserObject_t object,
                                       unsigned int count)
{
	if (!object || !count_is_valid(count) ||
	    !release((struct user_object *)object, count))
		return device_error(cudaErrorInvalidValue);
	return cudaSuccess;
}

cudaError_t host_cudaGraphRetainUserObject(cudaGraph_t graph,
                                           cudaUserObject_t object,
                                           unsigned int count,
                                           unsigned int flags)
{
	struct user_object *o = (struct user_object *)object;
	struct graph *g = (struct graph *)graph;

	if (!g || !o || !count_is_valid(count) ||
	    (flags & ~(unsigned int)cudaGraphUserObjectMove))
		return device_error(cudaErrorInvalidValue);
	if (!add(&g->uses, o, count))
		return device_error(cudaErrorMemoryAllocation);
	if (!(flags & cudaGraphUserObjectMove))
		retain(o, count);
	return cudaSuccess;
}

cudaError_t host_cudaGraphReleaseUserObject(cudaGraph_t graph,
                                            cudaUserObject_t object,
                                            unsigned int count)
{
	struct user_object *o = (struct user_object *)object;
	struct graph *g = (struct graph *)graph;

	if (!g || !o || !count_is_valid(count) ||
	    !remove_references(&g->uses, o, count))
		return device_error(cudaErrorInvalidValue);
	release(o, count);
	return cudaSuccess;
}
