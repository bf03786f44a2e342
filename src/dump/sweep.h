/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_SWEEP_H
#define DUMP_SWEEP_H

/*
 * Remove what dumps of processes of @host that are gone have left in the directory @dir:
 * temporary files of ours that nobody has open to write.  Takes no memory; what cannot
 * be removed stays.
 */
void sweep(int dir, const char *host);

#endif
