/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SELF_WAIT_H
#define SIM_EXEC_SELF_WAIT_H

/*
 * Strict mode: a thread that waits for itself
 */

#include <stdint.h>

struct stream;

/*
 * The calling thread has been waiting for @stream since @since_ns.  If it is
 * the only thread of the program, and a rank that the stream's first work needs
 * has called nothing, then it waits for itself, which ends the program: one
 * thread may speak for several ranks only in groups.  Where there are other
 * threads nothing is said, as any of them might make the call.  For use in
 * strict mode only.
 */
void self_wait_check(struct stream *stream, uint64_t since_ns);

#endif
