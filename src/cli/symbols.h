/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SYMBOLS_H
#define CLI_SYMBOLS_H

/*
 * Names in the stacks that verdicts of this command have: with file and line where
 * it was built with libdw of elfutils, and there is debug information
 */

/* From here on; before a group is opened. */
void symbols_use(void);

#endif
