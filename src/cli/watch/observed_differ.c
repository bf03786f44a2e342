/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/watch/observed.h"

#include <stdlib.h>

#include "base/util.h"
#include "cli/common/cli.h"
#include "core/agree_words.h"
#include "core/mismatch.h"

/* Store the ranks' calls with number @number.  Return false if a call is not on
 * record. */
static bool collect(const struct watch *w, const struct observed *o,
                    uint64_t number, struct rank_calls *v)
{
	const struct shared_rank *e;
	struct cohort_tensor tensor;
	struct remote_call *x;
	struct record c;

	v->n = 0;
	for (int r = 0; r < o->ranks; r++) {
		e = observed_entry(w, o, r);
		if (!e || shared_called(e) < number)
			continue;
		c = shared_record(e, shared_ticket(e, number));
		if (!c.ticket || !op_is_common(c.kind))
			return false;
		tensor = (struct cohort_tensor){ .count = c.count,
			                         .type = c.type };
		x = &v->of[v->n++];
		*x = (struct remote_call){
			.rank = r,
			.world = observed_world(w, o, r),
			.word = agree_digest(&(struct op){ .kind = c.kind,
			                                   .redop = c.redop,
			                                   .root = c.root,
			                                   .tensors = &tensor,
			                                   .n = 1 }),
		};
		record_add(&(struct text){ x->call, sizeof(x->call) }, &c);
	}
	return true;
}

bool observed_differs(const struct watch *w, struct observed *o,
                      uint64_t number)
{
	struct rank_calls *v = cli_need(
		calloc(1, sizeof(*v) + (size_t)o->ranks * sizeof(v->of[0])));
	struct cohort_cause cause = {
		.kind = COHORT_VERDICT_DIFFERENT_CALL,
		.rank = -1,
		.world_rank = -1,
		.collective = number,
	};
	struct text t = { cause.text, sizeof(cause.text) };
	bool is_found = false;

	if (collect(w, o, number, v))
		for (int i = 0; i < v->n; i++)
			is_found |= v->of[i].word != v->of[0].word;
	if (is_found) {
		text_add(&t, "DIFFER ");
		mismatch_describe(v, number, o->name, true, &cause, &t);
		verdict_ended(&o->now, &cause, &o->verdict);
	}
	free(v);
	return is_found;
}

bool observed_find_difference(const struct watch *w, struct observed *o)
{
	const struct shared_rank *e;
	uint64_t last = UINT64_MAX;

	for (int r = 0; r < o->ranks; r++) {
		e = observed_entry(w, o, r);
		last = MIN(last, e ? shared_called(e) : 0);
	}
	/* NCCL may have refused calls that were already compared.  The numbers
	 * of these calls are used again. */
	o->compared = MIN(o->compared, last);
	/* Earlier calls are no longer on record. */
	if (last > SHARED_SLOTS && o->compared < last - SHARED_SLOTS)
		o->compared = last - SHARED_SLOTS;
	while (o->compared < last && !o->different)
		if (observed_differs(w, o, ++o->compared))
			o->different = o->compared;
	return o->different;
}
