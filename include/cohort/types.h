/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_TYPES_H
#define COHORT_TYPES_H

/*
 * Element types, reductions, and constants that several headers use
 *
 * The @type of a call is an enum cohort_type, and its @op is an enum cohort_op.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A timeout or a deadline that never passes. */
#define COHORT_FOREVER UINT64_MAX

/* The largest number of ranks of a group, and the number of words in a set of
 * ranks, where rank r is bit r % 64 of word r / 64. */
#define COHORT_MAX_RANKS 1024
#define COHORT_RANK_WORDS (COHORT_MAX_RANKS / 64)

/*
 * Element types: constant, value, bytes, name
 *
 * NCCL has the types up to COHORT_F8E5M2, with these values.  The types from
 * COHORT_BOOL on have no arithmetic: calls that only move elements, such as a
 * broadcast or a send, accept them; calls that reduce refuse them.
 *
 * The 8-bit floats are the OCP formats.  E4M3 has no infinity.  Results beyond
 * the range of either format, including infinities, saturate to its largest
 * finite value.  On the gpu platform, NCCL and the device determine which
 * 8-bit floats are supported and how they round; a call with an unsupported
 * type ends the group with COHORT_NCCL.
 */
#define COHORT_TYPE_LIST(X)                                                    \
	X(COHORT_I8, 0, 1, "int8")                                             \
	X(COHORT_U8, 1, 1, "uint8")                                            \
	X(COHORT_I32, 2, 4, "int32")                                           \
	X(COHORT_U32, 3, 4, "uint32")                                          \
	X(COHORT_I64, 4, 8, "int64")                                           \
	X(COHORT_U64, 5, 8, "uint64")                                          \
	X(COHORT_F16, 6, 2, "float16")                                         \
	X(COHORT_F32, 7, 4, "float32")                                         \
	X(COHORT_F64, 8, 8, "float64")                                         \
	X(COHORT_BF16, 9, 2, "bfloat16")                                       \
	X(COHORT_F8E4M3, 10, 1, "float8e4m3")                                  \
	X(COHORT_F8E5M2, 11, 1, "float8e5m2")                                  \
	X(COHORT_BOOL, 16, 1, "bool")                                          \
	X(COHORT_I16, 17, 2, "int16")                                          \
	X(COHORT_U16, 18, 2, "uint16")                                         \
	X(COHORT_C64, 19, 8, "complex64")                                      \
	X(COHORT_C128, 20, 16, "complex128")

enum cohort_type {
#define COHORT_TYPE_ENUM(name, value, bytes, text) name = value,
	COHORT_TYPE_LIST(COHORT_TYPE_ENUM)
#undef COHORT_TYPE_ENUM
};

/*
 * Reductions: constant, value (as in NCCL), name
 *
 * On the gpu platform the arithmetic is NCCL's.  On the host platform a result
 * is computed in the order of the ranks, and is bit-identical on every rank and
 * in every run:
 *
 *  - Integers wrap.
 *  - float16, bfloat16 and the 8-bit floats accumulate in float32 and round
 *    once, to nearest even; subnormals are kept.
 *  - For max and min a number wins over a NaN; of equal values (+0 and -0), the
 *    value of the lowest rank wins.
 *  - Every NaN result is the same quiet NaN of its type.
 *  - avg is the sum divided by the number of ranks; for integers the sum wraps,
 *    and the quotient is truncated toward zero.
 *
 * In a group of one rank, a reduction copies its input.
 */
#define COHORT_OP_LIST(X)                                                      \
	X(COHORT_SUM, 0, "sum")                                                \
	X(COHORT_PROD, 1, "prod")                                              \
	X(COHORT_MAX, 2, "max")                                                \
	X(COHORT_MIN, 3, "min")                                                \
	X(COHORT_AVG, 4, "avg")

enum cohort_op {
#define COHORT_OP_ENUM(name, value, text) name = value,
	COHORT_OP_LIST(COHORT_OP_ENUM)
#undef COHORT_OP_ENUM
};

/*
 * cohort_type_name - return the name of an element type
 * @type: enum cohort_type
 *
 * Returns: a name such as "float32"; for an unknown value, a text that says so;
 * never NULL
 */
COHORT_API const char *cohort_type_name(int type);

/*
 * cohort_type_size - return the size of one element of a type
 * @type: enum cohort_type
 *
 * Returns: the size in bytes, or 0 if there is no such type
 */
COHORT_API size_t cohort_type_size(int type);

/*
 * cohort_op_name - return the name of a reduction
 * @op: enum cohort_op, or a premultiplied sum
 *
 * Returns: a name such as "sum", or "premul sum" for every number that
 * cohort_premul_sum_create() may set; for an unknown value, a text that says
 * so; never NULL
 */
COHORT_API const char *cohort_op_name(int op);

/*
 * cohort_struct_size - return the size of a struct in the library
 * @name: tag of a struct of these headers, such as "cohort_cause"
 *
 * Bindings can compare the result with the size of their own declaration.
 *
 * Returns: sizeof the struct as the library was compiled, or 0 if @name is NULL
 * or not a struct whose fields are in these headers
 */
COHORT_API size_t cohort_struct_size(const char *name);

#ifdef __cplusplus
}
#endif

#endif
