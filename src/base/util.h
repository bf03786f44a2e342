/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

/*
 * Arithmetic macros that every folder needs
 *
 * Macros evaluate their arguments more than once, so arguments must not have
 * side effects.
 */

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define DIVIDE_UP(n, by) (((n) + (by)-1) / (by))

#define ROUND_UP(n, unit) (DIVIDE_UP(n, unit) * (unit))

#endif
