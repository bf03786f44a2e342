/* SPDX-License-Identifier: Apache-2.0 */

/* The reducer: options, creation, destruction, queries */

#include "reducer/reducer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/status.h"
#include "base/util.h"

#define MIB ((size_t)1024 * 1024)

void cohort_reducer_options_init(struct cohort_reducer_options *options)
{
	*options = (struct cohort_reducer_options){
		.size = sizeof(*options),
		.first_bytes = MIB,
		.bucket_bytes = 25 * MIB,
		.op = COHORT_AVG,
	};
}

static int options_check(const struct cohort_reducer_options *o)
{
	if (o->op != COHORT_AVG && o->op != COHORT_SUM)
		return error_set(COHORT_INVALID,
		                 "options->op is %d, neither COHORT_AVG nor "
		                 "COHORT_SUM",
		                 o->op);
	return COHORT_OK;
}

static int options_merge(const struct cohort_reducer_options *given,
                         struct cohort_reducer_options *o)
{
	int rc;

	cohort_reducer_options_init(o);
	if (!given)
		return COHORT_OK;
	rc = sized_check("options", given->size,
	                 offsetof(struct cohort_reducer_options, bucket_bytes),
	                 "was cohort_reducer_options_init() called?");
	if (rc == COHORT_OK)
		rc = reserved_check("options->", given,
		                    offsetof(struct cohort_reducer_options,
		                             reserved),
		                    given->size);
	if (rc != COHORT_OK)
		return rc;
	memcpy(o, given, MIN(given->size, sizeof(*o)));
	if (!o->first_bytes)
		o->first_bytes = MIB;
	if (!o->bucket_bytes)
		o->bucket_bytes = 25 * MIB;
	return options_check(o);
}

/* Room for a parameter's name in an error text. */
#define NAME_ROOM 41

static const char *name_of(const struct cohort_parameter *p,
                           char name[NAME_ROOM])
{
	text_set(name, NAME_ROOM, "%s", p->name ? p->name : "");
	return name;
}

/* Check a parameter's size and add its space in the arena to @room. */
static int room_check(const struct cohort_parameter *p, size_t i, size_t bytes,
                      size_t *room)
{
	char name[NAME_ROOM];
	uintptr_t end;

	if (__builtin_add_overflow(*room, reducer_align(bytes), room))
		return error_set(COHORT_INVALID,
		                 "parameters[%zu] '%s': count is %zu, which "
		                 "makes the total size too large",
		                 i, name_of(p, name), p->count);
	if (__builtin_add_overflow((uintptr_t)p->gradient, bytes, &end))
		return error_set(COHORT_INVALID,
		                 "parameters[%zu] '%s': count is %zu, which "
		                 "reaches past the end of the address space "
		                 "from %p",
		                 i, name_of(p, name), p->count, p->gradient);
	return COHORT_OK;
}

static int parameter_check(const struct cohort_parameter *p, size_t i,
                           const struct cohort_reducer_options *o, size_t *room)
{
	size_t size = cohort_type_size(p->type);

	if (!size)
		return error_set(COHORT_INVALID,
		                 "parameters[%zu].type is %d, not a value of "
		                 "enum cohort_type",
		                 i, p->type);
	if (!type_has_arithmetic(p->type))
		return error_set(COHORT_INVALID,
		                 "parameters[%zu].type is %s, which cannot be "
		                 "reduced, only moved",
		                 i, type_name(p->type));
	if (p->count > SIZE_MAX / 4 / size)
		return error_set(COHORT_INVALID,
		                 "parameters[%zu].count is %zu, which is too "
		                 "large",
		                 i, p->count);
	if (o->weighted && reducer_float(p->type) == REDUCER_FLOATS)
		return error_set(COHORT_INVALID,
		                 "parameters[%zu].type is %s, but "
		                 "options.weighted needs float16, bfloat16, "
		                 "float32 or float64",
		                 i, type_name(p->type));
	/* The integer types come before the floating-point types. */
	if (o->op == COHORT_AVG && p->type < COHORT_F16)
		return error_set(COHORT_INVALID,
		                 "parameters[%zu].type is %s, but COHORT_AVG "
		                 "needs a floating-point type: use COHORT_SUM",
		                 i, type_name(p->type));
	return room_check(p, i, p->count * size, room);
}

static int check(const struct cohort_parameter *parameters, size_t n,
                 const struct cohort_reducer_options *o,
                 struct cohort_reducer **out)
{
	size_t i, room = 0;
	int rc = COHORT_OK;

	if (!parameters || !out)
		return error_set(COHORT_INVALID, "%s is NULL",
		                 parameters ? "reducer" : "parameters");
	if (!n || n > UINT32_MAX / 8)
		return error_set(COHORT_INVALID, "n is %zu, not 1 to %u", n,
		                 UINT32_MAX / 8);
	for (i = 0; i < n && rc == COHORT_OK; i++)
		rc = parameter_check(&parameters[i], i, o, &room);
	return rc;
}

/* Room for a number that stands in for a missing name. */
#define NUMBER_SIZE 24

static size_t name_size(const struct cohort_parameter *p)
{
	return p->name && *p->name ? strlen(p->name) + 1 : NUMBER_SIZE;
}

static void set_items(struct cohort_reducer *r,
                      const struct cohort_parameter *parameters)
{
	char *at = r->names;
	size_t i;

	for (i = 0; i < r->n; i++) {
		const struct cohort_parameter *p = &parameters[i];
		size_t size = cohort_type_size(p->type);

		if (p->name && *p->name)
			memcpy(at, p->name, strlen(p->name) + 1);
		else
			snprintf(at, NUMBER_SIZE, "%zu", i);
		r->items[i] = (struct reducer_item){
			.name = at,
			.gradient = p->gradient,
			.count = p->count,
			.bytes = p->count * size,
			.type = p->type,
			.is_view = !p->gradient,
		};
		r->plan_items[i] = (struct bucket_item){
			.bytes = p->count * size,
			.type = p->type,
		};
		r->host.order[i] = (uint32_t)(r->n - 1 - i);
		at += name_size(p);
	}
}

static int store_parameters(struct cohort_reducer *r,
                            const struct cohort_parameter *parameters)
{
	size_t i, names = 0;
	int rc;

	for (i = 0; i < r->n; i++)
		names += name_size(&parameters[i]);
	rc = reducer_alloc_host(r, names);
	if (rc != COHORT_OK)
		return rc;
	set_items(r, parameters);
	/* The order determines where gradients are placed, and the places
	 * determine the plan's tensors. */
	reducer_order(r, r->host.order);
	rc = reducer_alloc_device(r);
	if (rc == COHORT_OK)
		rc = reducer_create_sums(r);
	if (rc != COHORT_OK)
		return rc;
	reducer_layout(r, r->arena);
	reducer_plan(r, r->host.order);
	/* Wait until the memory is zeroed, because another stream may write to
	 * it next. */
	return reducer_await_last(r, COHORT_FOREVER);
}

int cohort_reducer_create(struct cohort_comm *comm,
                          const struct cohort_parameter *parameters, size_t n,
                          const struct cohort_reducer_options *options,
                          struct cohort_reducer **out)
{
	struct cohort_reducer_options o;
	struct cohort_reducer *r;
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = options_merge(options, &o);
	if (rc == COHORT_OK)
		rc = check(parameters, n, &o, out);
	if (rc != COHORT_OK)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_set(COHORT_NO_MEMORY, "no memory for a reducer");
	r->comm = comm;
	r->options = o;
	r->n = n;
	r->is_final = o.keep_plan;
	r->wait_reason.add = reducer_add_wait_reason;
	rc = store_parameters(r, parameters);
	if (rc != COHORT_OK) {
		char why[256];

		text_set(why, sizeof(why), "%s", cohort_last_error());
		reducer_await_last(r, COHORT_FOREVER);
		reducer_free_device(r);
		reducer_free_host(r);
		return error_set(rc, "%s", why);
	}
	atomic_fetch_add(&comm->clique->held, 1);
	*out = r;
	return COHORT_OK;
}

/* Return COHORT_OK once no operation can touch the reducer's memory. */
static int await_end(struct cohort_reducer *r)
{
	const bool may_wait = clique_cause(r->comm->clique) ||
	                      atomic_load(&r->broken) || r->is_unready;
	int rc;

	if (!may_wait && atomic_load(&r->step) && !r->is_local)
		return error_set(COHORT_STATE,
		                 "a step is open: finish or cancel it first");
	/* This wait ends: the other ranks also launch what this rank has
	 * launched, or a deadline ends the group. */
	rc = reducer_await_last(r, may_wait ? COHORT_FOREVER : 0);
	if (rc == COHORT_TIMED_OUT)
		return error_set(COHORT_STATE,
		                 "operations of the reducer are in flight: "
		                 "wait for them first");
	return rc == COHORT_WEDGED ? rc : COHORT_OK;
}

int cohort_reducer_free(struct cohort_reducer *r)
{
	int rc;

	if (!r)
		return COHORT_OK;
	rc = reducer_check(r);
	if (rc == COHORT_OK)
		rc = await_end(r);
	if (rc != COHORT_OK && rc != COHORT_WEDGED)
		return rc;
	if (atomic_load(&r->step))
		reducer_close(r);
	if (rc == COHORT_OK)
		rc = reducer_free_device(r);
	if (rc != COHORT_OK && rc != COHORT_WEDGED)
		return rc;
	atomic_fetch_sub(&r->comm->clique->held, 1);
	reducer_free_host(r);
	return rc;
}

void *cohort_reducer_view(const struct cohort_reducer *r, size_t i)
{
	return r && i < r->n ? r->items[i].gradient : NULL;
}

int cohort_reducer_used(const struct cohort_reducer *r, size_t i)
{
	return r && i < r->n && r->options.find_unused ? r->host.used[i] : -1;
}

int cohort_reducer_buckets(const struct cohort_reducer *r)
{
	return r ? (int)r->plan.buckets : -1;
}

int cohort_reducer_bucket(const struct cohort_reducer *r, size_t i)
{
	return r && i < r->n ? (int)r->plan.bucket_of[i] : -1;
}
