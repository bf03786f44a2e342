/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

/*
 * Arithmetic that every folder needs
 *
 * Macros evaluate their arguments more than once, so these must not have side
 * effects.
 */

/* Number of elements of an array. */
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Quotient, rounded up, of integers that are not negative. */
#define DIVIDE_UP(n, by) (((n) + (by)-1) / (by))

/* @n, rounded up to a multiple of @unit. */
#define ROUND_UP(n, unit) (DIVIDE_UP(n, unit) * (unit))

#endif
