/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_H
#define PLAN_H

/*
 * What the parts of the model share
 */

#include "system/fuzz/program.h"

/* For each kind of step: complete it from its bytes, and note what it changes;
 * false if there is no such step at this place. */
#define PLAN_FUNCTION(name, weight)                                            \
	bool plan_##name(struct program *p, struct step *s);
STEP_LIST(PLAN_FUNCTION)
#undef PLAN_FUNCTION

/* An existing family, or NULL. */
struct family *plan_pick(struct program *p, unsigned byte);

/* The threads that have ranks of the family, as bits. */
unsigned plan_owners(const struct family *f);

/* Why the queues of its devices may be stuck; whether a call on it may hang. */
unsigned plan_taint(const struct program *p, const struct family *f);
bool plan_may_hang(const struct program *p, const struct family *f);
unsigned plan_bit(const struct program *p, const struct family *f);

/* From now on its calls may hang, and nothing about them is sure. */
void plan_doom(struct program *p, struct family *f);

/* Everything that hung because of it has ended. */
void plan_untaint(struct program *p, const struct family *f);

/* Nothing is sure about the calls on @f so far: they may be cut short. */
void plan_unsure(struct program *p, const struct family *f);

#endif
