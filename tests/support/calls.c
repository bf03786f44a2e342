/* SPDX-License-Identifier: Apache-2.0 */

#include "support/calls.h"

static const struct {
	const char *text;
	bool has_op, has_root;
} names[NAMES] = {
	[NAME_ALL_REDUCE] = { "ncclAllReduce", .has_op = true },
	[NAME_BROADCAST] = { "ncclBroadcast", .has_root = true },
	[NAME_BCAST] = { "ncclBcast", .has_root = true },
	[NAME_REDUCE] = { "ncclReduce", .has_op = true, .has_root = true },
	[NAME_ALL_GATHER] = { .text = "ncclAllGather" },
	[NAME_REDUCE_SCATTER] = { "ncclReduceScatter", .has_op = true },
	[NAME_ALL_TO_ALL] = { .text = "ncclAlltoAll" },
	[NAME_GATHER] = { "ncclGather", .has_root = true },
	[NAME_SCATTER] = { "ncclScatter", .has_root = true },
	[NAME_SEND] = { "ncclSend", .has_root = true },
	[NAME_RECV] = { "ncclRecv", .has_root = true },
};

const char *call_text(enum call_name name)
{
	return names[name].text;
}

bool call_has_op(enum call_name name)
{
	return names[name].has_op;
}

bool call_has_root(enum call_name name)
{
	return names[name].has_root;
}

bool call_is_message(enum call_name name)
{
	return name == NAME_SEND || name == NAME_RECV;
}

enum call_name call_opposite(enum call_name name)
{
	if (name == NAME_SEND)
		return NAME_RECV;
	return name == NAME_RECV ? NAME_SEND : name;
}

ncclResult_t call_by_name(const struct platform *p, enum call_name name,
                          const struct call_args *a, ncclComm_t comm,
                          cudaStream_t stream)
{
	const ncclDataType_t type = (ncclDataType_t)a->type;
	const ncclRedOp_t op = (ncclRedOp_t)a->op;

	switch (name) {
	case NAME_ALL_REDUCE:
		return p->ncclAllReduce(a->send, a->recv, a->count, type, op,
		                        comm, stream);
	case NAME_BROADCAST:
		return p->ncclBroadcast(a->send, a->recv, a->count, type,
		                        a->root, comm, stream);
	case NAME_BCAST:
		return p->ncclBcast(a->recv, a->count, type, a->root, comm,
		                    stream);
	case NAME_REDUCE:
		return p->ncclReduce(a->send, a->recv, a->count, type, op,
		                     a->root, comm, stream);
	case NAME_ALL_GATHER:
		return p->ncclAllGather(a->send, a->recv, a->count, type, comm,
		                        stream);
	case NAME_REDUCE_SCATTER:
		return p->ncclReduceScatter(a->send, a->recv, a->count, type,
		                            op, comm, stream);
	case NAME_ALL_TO_ALL:
		return p->ncclAlltoAll(a->send, a->recv, a->count, type, comm,
		                       stream);
	case NAME_GATHER:
		return p->ncclGather(a->send, a->recv, a->count, type, a->root,
		                     comm, stream);
	case NAME_SCATTER:
		return p->ncclScatter(a->send, a->recv, a->count, type, a->root,
		                      comm, stream);
	case NAME_SEND:
		return p->ncclSend(a->send, a->count, type, a->root, comm,
		                   stream);
	case NAME_RECV:
		return p->ncclRecv(a->recv, a->count, type, a->root, comm,
		                   stream);
	case NAMES:
		break;
	}
	return ncclInternalError;
}
