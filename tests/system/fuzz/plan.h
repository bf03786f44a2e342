/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_H
#define PLAN_H

/*
 * Functions shared by the parts of the planner
 */

#include "system/fuzz/program.h"

/*
 * Declare the planner of a kind of step. It completes the step from its bytes
 * and updates the model. It returns false if the step is illegal at this point.
 */
#define PLAN_FUNCTION(name, weight)                                            \
	bool plan_##name(struct program *p, struct step *s);
STEP_LIST(PLAN_FUNCTION)
#undef PLAN_FUNCTION

/* Return the existing family that @byte selects, or NULL if there is none. */
struct family *plan_pick(struct program *p, unsigned byte);

/* Return the threads that have ranks of the family, as bits. */
unsigned plan_owners(const struct family *f);

/*
 * plan_taint() returns, as bits, why the queues of the family's devices may be
 * stuck. plan_may_hang() returns whether a call on the family may hang.
 * plan_bit() returns the bit of the family.
 */
unsigned plan_taint(const struct program *p, const struct family *f);
bool plan_may_hang(const struct program *p, const struct family *f);
unsigned plan_bit(const struct program *p, const struct family *f);

/* Record that the family's calls may hang from now on, and that their results
 * are uncertain. */
void plan_doom(struct program *p, struct family *f);

/* Record that everything that hung because of the family has ended. */
void plan_untaint(struct program *p, const struct family *f);

/*
 * Record that earlier calls on @f may be cut short, so their results are not
 * certain.
 */
void plan_unsure(struct program *p, const struct family *f);

#endif
