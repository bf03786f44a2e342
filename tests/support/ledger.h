/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEDGER_H
#define LEDGER_H

/*
 * The native communicators of the host platform, accounted for
 *
 * A table in front of the platform's fails the program unless each communicator
 * is released once, all of a group by one thread, a reaper, that releases those of
 * no other group, and unless nobody is inside a call on any of them when the end
 * of the group frees them.
 */

/* Put it in front; before the first group.  Ends the program if it cannot. */
void ledger_open(void);

/* Fail the program unless all that were opened have been released.  While no group
 * is open. */
void ledger_check(void);

#endif
