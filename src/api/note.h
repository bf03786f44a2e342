/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_NOTE_H
#define API_NOTE_H

/* Tell the listener, if there is one, of environment variables that the library
 * does not know; at most once in a process.  Calls it without any lock held. */
void note_environment(void);

#endif
