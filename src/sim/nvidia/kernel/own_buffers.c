/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nvidia/kernel/own_buffers.h"

#include "sim/nvidia/kernel/combine.h"

struct use {
	nvidia_may_use *may_use;
	struct bad_buffer *bad;
};

static bool check(const struct use *u, const void *p, size_t bytes, bool write)
{
	if (!bytes || u->may_use(p, bytes, write))
		return true;
	*u->bad = (struct bad_buffer){ .start = p, .bytes = bytes };
	return false;
}

/* How many elements one rank's part has, on all channels. */
static size_t part_count(const struct coll_work *w)
{
	const int middle = w->channel_high - w->channel_low - 1;

	return w->count[0] + w->count[2] +
	       (middle > 0 ? (size_t)middle * w->count[1] : 0);
}

/* What only moves data counts in bytes. */
static size_t element_size(const struct function *f)
{
	return f->collective == BROADCAST || f->collective == ALL_GATHER
	               ? 1
	               : combine_type_size(f->type);
}

bool own_buffers_of_coll(const struct function *f,
                         const struct kernel_comm *comm,
                         const struct coll_work *w, nvidia_may_use *may_use,
                         struct bad_buffer *bad)
{
	const struct use u = { may_use, bad };
	const size_t size = element_size(f), part = part_count(w) * size;
	size_t in = part, out = part;

	if (f->collective == ALL_GATHER)
		out *= (size_t)comm->ranks;
	if (f->collective == REDUCE_SCATTER)
		in *= (size_t)comm->ranks;
	if (f->collective == BROADCAST && comm->rank != w->root)
		in = 0;
	if (f->collective == REDUCE && comm->rank != w->root)
		out = 0;
	return check(&u, w->send, in, false) && check(&u, w->recv, out, true) &&
	       check(&u, (const void *)(uintptr_t)w->scalar,
	             w->scalar_is_pointer ? size : 0, false);
}

/* Without parts, there is no message that way. */
bool own_buffers_of_p2p(const struct p2p_work *w, nvidia_may_use *may_use,
                        struct bad_buffer *bad)
{
	const struct use u = { may_use, bad };

	return check(&u, w->send, w->send_parts ? w->send_bytes : 0, false) &&
	       check(&u, w->recv, w->recv_parts ? w->recv_bytes : 0, true);
}

bool own_buffers_of_broadcast(const struct broadcast_work *w,
                              nvidia_may_use *may_use, struct bad_buffer *bad)
{
	const struct use u = { may_use, bad };

	return check(&u, w->depth ? NULL : w->send + w->begin,
	             w->depth ? 0 : w->bytes, false) &&
	       check(&u, w->recv + w->begin, w->bytes, true);
}
