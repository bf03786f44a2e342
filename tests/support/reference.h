/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REFERENCE_H
#define REFERENCE_H

/*
 * The expected results of all collectives, computed in the simplest way
 *
 * cohort/types.h specifies the arithmetic of the host platform. Elements are
 * computed one at a time. All functions are pure, except for the tables of
 * reference_begin(). Types and operations are from enum cohort_type and enum
 * cohort_op. Buffers need no alignment.
 */

#include <stdbool.h>
#include <stddef.h>

/* Make the tables. Call this once, before other threads start. */
void reference_begin(void);

/* Return the size of an element in bytes, from the public list of types. */
size_t reference_size(int type);

/* Return whether the type has NaN and signed zeros. */
bool reference_is_float(int type);

/* Return the value of a 16- or 8-bit float. */
double reference_decode(int type, unsigned bits);

/*
 * Return the 16- or 8-bit float nearest to @value. Ties round to even. A value
 * out of range becomes infinity (16 bits) or the largest finite value (8 bits).
 */
unsigned reference_encode(int type, double value);

/* Reduce in[0] to in[n - 1], in this order, with @count elements each. */
void reference_reduce(void *out, const void *const in[], int n, size_t count,
                      int type, int op);

/* Concatenate in[0] to in[n - 1], with @count elements each. */
void reference_all_gather(void *out, const void *const in[], int n,
                          size_t count, int type);

/* Reduce all inputs, and return only block @rank, of @count elements. */
void reference_reduce_scatter(void *out, const void *const in[], int n,
                              size_t count, int type, int op, int rank);

/* Copy in[root]. */
void reference_broadcast(void *out, const void *const in[], size_t count,
                         int type, int root);

/* Concatenate block @rank, of @count elements, of every input. */
void reference_all_to_all(void *out, const void *const in[], int n,
                          size_t count, int type, int rank);

/* Copy block @rank, of @count elements, of in[root]. */
void reference_scatter(void *out, const void *const in[], size_t count,
                       int type, int root, int rank);

/* Multiply every element of @in by a scalar.  Each product is rounded to the
 * type. */
void reference_scale(void *out, const void *in, const void *scalar,
                     size_t count, int type);

/*
 * Return the index of the first element at which @a and @b differ, or @count if
 * they are equal. Bytes must be equal, except that any NaN equals any other NaN
 * of its type, because collectives may return any NaN.
 */
size_t reference_compare(const void *a, const void *b, size_t count, int type);

#endif
