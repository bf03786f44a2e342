/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_RENDEZVOUS_H
#define SIM_EXEC_RENDEZVOUS_H

#include "sim/exec/stream_queue.h"

/* The step function of a launch: arrive, and with the others do the work. */
enum step rendezvous_step(struct stream *stream, struct work *work,
                          const struct drive *drive);

#endif
