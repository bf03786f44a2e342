/* SPDX-License-Identifier: Apache-2.0 */

#include "core/register.h"

#include <stdlib.h>

#include "base/status.h"
#include "core/clique.h"
#include "core/native.h"

int register_add(struct cohort_comm *c, void *memory, size_t bytes,
                 struct registration **out)
{
	const struct platform *p = c->clique->platform;
	struct registration *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return error_set(COHORT_NO_MEMORY,
		                 "no memory for a registration");
	rc = native_nccl(p, "ncclCommRegister", c->native,
	                 p->ncclCommRegister(c->native, memory, bytes,
	                                     &r->native));
	if (rc != COHORT_OK) {
		free(r);
		return rc;
	}
	r->memory = memory;
	r->bytes = bytes;
	r->next = c->registrations;
	c->registrations = r;
	*out = r;
	return COHORT_OK;
}

bool register_has(const struct cohort_comm *c, const struct registration *r)
{
	const struct registration *one = c->registrations;

	while (one && one != r)
		one = one->next;
	return one;
}

struct registration *register_find(const struct cohort_comm *c,
                                   const void *memory)
{
	const char *at = memory;
	struct registration *r = c->registrations;

	while (r &&
	       (at < (char *)r->memory || at >= (char *)r->memory + r->bytes))
		r = r->next;
	return r;
}

int register_remove(struct cohort_comm *c, struct registration *r,
                    bool has_ended)
{
	const struct platform *p = c->clique->platform;
	struct registration **at = &c->registrations;
	int rc = COHORT_OK;

	if (!has_ended)
		rc = native_nccl(p, "ncclCommDeregister", c->native,
		                 p->ncclCommDeregister(c->native, r->native));
	if (rc != COHORT_OK)
		return rc;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
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
