/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_NOTE_H
#define API_NOTE_H

/* Tell the listener, if there is one, of variables that mean nothing; once in a
 * process.  Holds no lock that the listener could need. */
void note_environment(void);

#endif
