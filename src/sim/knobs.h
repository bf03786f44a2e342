/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_KNOBS_H
#define SIM_KNOBS_H

#include "sim/dropin/calls.h"

/* From now on @knobs, those of the drop-in libraries that the gpu platform stands
 * on, are told all that sim.h is told; and first what it has been told so far.
 * Before their first use; their own error if they cannot be used. */
int sim_join(const struct host_knobs *knobs);

#endif
