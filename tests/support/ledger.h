/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEDGER_H
#define LEDGER_H

/*
 * An account of the host platform's native communicators
 *
 * A table in front of the platform's own fails the program if a communicator is
 * not released exactly once; if two threads release communicators of one group,
 * or one thread, a reaper, those of two groups; or if a thread is inside a call
 * on a communicator when the end of the group frees it.
 */

/*
 * Put the table in front, before the first group.  Ends the program if that
 * fails.
 */
void ledger_open(void);

/*
 * Fail the program unless all communicators that were opened have been
 * released.  Call it while no group is open.
 */
void ledger_check(void);

#endif
