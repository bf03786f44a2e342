/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_NOTE_H
#define API_NOTE_H

/* Tell of variables that mean nothing, once in a process, if anybody wants to hear of
 * it.  Without a lock that the listener could need. */
void note_environment(void);

#endif
