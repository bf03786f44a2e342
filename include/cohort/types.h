/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_TYPES_H
#define COHORT_TYPES_H

/*
 * Element types, reductions, and the few constants that several parts use
 *
 * A @type of a call is an enum cohort_type, an @op an enum cohort_op.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A timeout or a deadline that never passes. */
#define COHORT_FOREVER UINT64_MAX

/* The most ranks of a group, and the words of a set of ranks: rank r is bit
 * r % 64 of word r / 64. */
#define COHORT_MAX_RANKS 1024
#define COHORT_RANK_WORDS (COHORT_MAX_RANKS / 64)

/*
 * Element types: name, value (as in NCCL), bytes, spelling
 *
 * The 8-bit floats are the OCP formats.  E4M3 has no infinity.  Results beyond
 * the range of either format, infinities among them, saturate to its largest
 * finite value.  On the gpu platform the 8-bit floats are what NCCL and the
 * devices make of them, and a call with a type that these refuse ends the group
 * with COHORT_NCCL.
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
	X(COHORT_F8E5M2, 11, 1, "float8e5m2")

enum cohort_type {
#define COHORT_TYPE_ENUM(name, value, bytes, text) name = value,
	COHORT_TYPE_LIST(COHORT_TYPE_ENUM)
#undef COHORT_TYPE_ENUM
};

/*
 * Reductions: name, value (as in NCCL), spelling
 *
 * On the host platform a result is folded in the order of the ranks, and is the
 * same to the bit on every rank and in every run:
 *
 *  - Integers wrap.
 *  - float16, bfloat16 and the 8-bit floats accumulate in float32 and round
 *    once, to nearest even; subnormals are kept.
 *  - For max and min a number wins over a NaN, and among equals (+0 and -0) the
 *    value of the lowest rank is taken.
 *  - A result that is NaN is the type's one quiet NaN.
 *  - avg is the sum divided by the number of ranks; for integers the wrapped
 *    sum, and the quotient is truncated toward zero.
 *
 * A group of one rank copies.  On the gpu platform the arithmetic is NCCL's.
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
 * cohort_type_name - the spelling of a type: "float32"
 * cohort_type_size - bytes of one element of a type; 0 for no such type
 * cohort_op_name   - the spelling of a reduction: "sum"
 *
 * A name is never NULL.  For a value that this version does not know, the text
 * says so.  The name of every number that cohort_premul_sum_create() may give
 * is "premul sum".  Any thread; none blocks.
 */
COHORT_API const char *cohort_type_name(int type);
COHORT_API size_t cohort_type_size(int type);
COHORT_API const char *cohort_op_name(int op);

/*
 * cohort_enum_name - the name of a constant: "COHORT_LAUNCH_AHEAD"
 * @of:    the tag of an enum of these headers: "cohort_launch"
 * @value: one of its values
 *
 * For bindings, and for what logs the options of a run.  NULL if there is no such
 * enum, or no such value in it.  Any thread; does not block.
 */
COHORT_API const char *cohort_enum_name(const char *of, int value);

/*
 * cohort_struct_size - sizeof of a struct, as the library was compiled
 * @name: the tag of a struct of these headers: "cohort_cause"
 *
 * For bindings, which check it against their own declaration when they load the
 * library.  0 for NULL, and for what is no struct whose fields are in these
 * headers.  Any thread; does not block.
 */
COHORT_API size_t cohort_struct_size(const char *name);

#ifdef __cplusplus
}
#endif

#endif
