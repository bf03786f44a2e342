/* SPDX-License-Identifier: Apache-2.0 */

#include "core/register.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/status.h"
#include "core/call.h"
#include "core/clique.h"
#include "core/launch_lock.h"
#include "core/native.h"
#include "core/op.h"

int register_add(struct cohort_comm *c, void *memory, size_t bytes,
                 struct registration **out)
{
	const struct platform *p = c->clique->platform;
	struct registration *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return error_set(COHORT_NO_MEMORY,
		                 "no memory for a registration");
	rc = NATIVE_NCCL(p, c->native, ncclCommRegister,
	                 (c->native, memory, bytes, &r->native));
	if (rc != COHORT_OK) {
		free(r);
		return rc;
	}
	r->memory = memory;
	r->bytes = bytes;
	list_add(c->registrations, r, next);
	*out = r;
	return COHORT_OK;
}

bool register_has(const struct cohort_comm *c, const struct registration *r)
{
	const struct registration *one;

	list_find(one, c->registrations, next, one == r);
	return one;
}

struct registration *register_find(const struct cohort_comm *c,
                                   const void *memory)
{
	const char *at = memory;
	struct registration *r;

	list_find(r, c->registrations, next,
	          at >= (char *)r->memory && at < (char *)r->memory + r->bytes);
	return r;
}

/* Record that a call with @digest uses the registration that contains @memory.
 * Return true if no call with this digest has used it before. */
static bool record_use(const struct cohort_comm *c, const void *memory,
                       uint32_t digest)
{
	struct registration *r = register_find(c, memory);
	const uint64_t bit = UINT64_C(1) << digest % 64;
	uint64_t *word = r ? &r->simulated[digest / 64 % 4] : NULL;

	if (!r || *word & bit)
		return false;
	*word |= bit;
	return true;
}

static bool record_uses(const struct cohort_comm *c, const struct op *op,
                        uint32_t digest)
{
	const struct cohort_tensor *t;
	const struct op *calls;
	bool is_first = false;
	size_t i, k, n;

	if (!c->registrations)
		return false;
	calls = op_calls(op, &n);
	for (i = 0; i < n; i++)
		for (k = 0; k < calls[i].n; k++) {
			t = &calls[i].tensors[k];
			is_first |= record_use(c, t->send, digest);
			is_first |= record_use(c, t->recv, digest);
		}
	return is_first;
}

/* Return true if NCCL can simulate @op without waiting for a rank.  NCCL cannot
 * simulate messages: it keeps them, and sends them with the next messages. */
static bool can_simulate(const struct cohort_comm *c, const struct op *op)
{
	const struct clique *q = c->clique;
	const struct op *calls;
	size_t i, n;

	if (!platform_has(q->platform, FUNCTION_ncclGroupSimulateEnd) ||
	    q->world_size > q->size || /* NCCL may wait for other processes */
	    (q->config.connect == COHORT_CONNECT_NONE &&
	     q->platform->connects_late()))
		return false;
	calls = op_calls(op, &n);
	for (i = 0; i < n; i++)
		if (op_is_of_messages(calls[i].kind) ||
		    op_has_peer(calls[i].kind))
			return false;
	return true;
}

static void simulate(struct cohort_comm *comms, int n, const struct op *ops)
{
	const struct platform *p = comms->clique->platform;
	struct native_result r = { .rank = comms->rank };
	int i;

	if (p->ncclGroupStart() != ncclSuccess)
		return;
	p->uncounted(true);
	for (i = 0; i < n; i++)
		call_op(&comms[i], &ops[i], &r);
	native_simulate_end(p);
	p->uncounted(false);
}

int register_complete(struct cohort_comm *comms, int n, const struct op *ops,
                      uint32_t digest)
{
	const struct clique *q = comms->clique;
	enum cudaStreamCaptureMode mode;
	bool is_first = false;
	int i, rc;

	for (i = 0; i < n; i++)
		is_first |= record_uses(&comms[i], &ops[i], digest);
	if (!is_first || !can_simulate(comms, ops))
		return COHORT_OK;
	rc = memory_section_enter(comms->clique);
	if (rc != COHORT_OK)
		return rc;
	mode = native_relax(q->platform);
	simulate(comms, n, ops);
	native_restore(q->platform, mode);
	memory_section_end();
	return COHORT_OK;
}

int register_remove(struct cohort_comm *c, struct registration *r,
                    bool has_ended)
{
	const struct platform *p = c->clique->platform;
	int rc = COHORT_OK;

	if (!has_ended)
		rc = NATIVE_NCCL(p, c->native, ncclCommDeregister,
		                 (c->native, r->native));
	if (rc != COHORT_OK)
		return rc;
	list_remove(c->registrations, r, next);
	free(r);
	return COHORT_OK;
}

void register_end(const struct cohort_comm *c)
{
	const struct registration *r;

	for (r = c->registrations; r; r = r->next)
		c->clique->platform->ncclCommDeregister(c->native, r->native);
}

void register_free_all(struct registration *first)
{
	struct registration *next;

	for (; first; first = next) {
		next = first->next;
		free(first);
	}
}
