/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEDGER_H
#define LEDGER_H

/*
 * A check that native communicators are released correctly
 *
 * A table in front of the host platform's table fails the program if
 *
 *   - a communicator is not released exactly once,
 *   - two threads release communicators of the same group,
 *   - a reaper thread releases communicators of two groups, or
 *   - a thread is in a call on a communicator when ncclGroupEnd() frees it.
 */

/*
 * Install the table. Call this before the first group is opened. It ends the
 * program on failure.
 */
void ledger_open(void);

/*
 * Fail the program unless every communicator that was opened has been released.
 * Call this while no group is open.
 */
void ledger_check(void);

#endif
