/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The fold of n buffers into one, for every element type and operation
 *
 * A range is taken in blocks small enough for the first-level cache.  Of each
 * block the first source is loaded into an accumulator of the type it is folded
 * in, the others are folded into that one after the other, and the result is
 * stored.  So every source is read once, a block of the output is written only
 * after that block of every source was read (the output may be one of them),
 * and small floats are rounded once.
 *
 * REDUCE_TYPES describes the element types; DEFINE_TYPE makes the loops of
 * each, plain enough for the compiler to vectorise; arithmetic[] is the table
 * of them.
 */

#include "platform/host/reduce.h"

#include <assert.h>
#include <float.h>
#include <stdint.h>
#include <string.h>

#include "platform/host/convert.h"
#include "platform/nccl_abi.h"

/* Guarantee C needs arithmetic in the type itself, not in something wider (16
 * says so too, of machines with f16 arithmetic). */
static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16,
              "f32 and f64 must be evaluated as such");

#define BLOCK 512 /* elements; the accumulator is 4 KiB at most */

/* The accumulator, in the type that the elements are folded in. */
union block {
	uint8_t u8[BLOCK];
	uint32_t u32[BLOCK];
	uint64_t u64[BLOCK];
	float f32[BLOCK];
	double f64[BLOCK];
};

/* One element of a buffer of any alignment. */
#define DEFINE_ACCESS(name, type)                                              \
	static inline type name##_get(const char *src, size_t i)               \
	{                                                                      \
		type x;                                                        \
                                                                               \
		memcpy(&x, src + i * sizeof(x), sizeof(x));                    \
		return x;                                                      \
	}                                                                      \
	static inline void name##_put(char *out, size_t i, type x)             \
	{                                                                      \
		memcpy(out + i * sizeof(x), &x, sizeof(x));                    \
	}

DEFINE_ACCESS(u8, uint8_t)
DEFINE_ACCESS(u16, uint16_t)
DEFINE_ACCESS(u32, uint32_t)
DEFINE_ACCESS(u64, uint64_t)
DEFINE_ACCESS(f32, float)
DEFINE_ACCESS(f64, double)

/*
 * Which payload a sum of NaNs has depends on the order in which the compiler
 * puts the operands, which may differ between a loop's body and its tail.
 */
static inline float f32_one_nan(float x)
{
	return x != x ? f32_from_bits(0x7fc00000) : x;
}

static inline double f64_one_nan(double x)
{
	const uint64_t bits = UINT64_C(0x7ff8000000000000);
	double nan;

	memcpy(&nan, &bits, sizeof(nan));
	return x != x ? nan : x;
}

#define AS_IS(x) (x)

/* True if a number must replace @x in max and min: for integers and floats. */
#define NEVER(x) 0
#define IS_NAN(x) ((x) != (x))

/*
 * The element types: X(NCCL's name, our name, stored as, folded as, compared
 * and divided as, stored to folded, folded to stored, what loses).  Signed
 * integers are folded as unsigned ones, whose overflow is defined.
 */
#define REDUCE_TYPES(X)                                                        \
	X(ncclInt8, i8, u8, u8, int8_t, AS_IS, AS_IS, NEVER)                   \
	X(ncclUint8, u8, u8, u8, uint8_t, AS_IS, AS_IS, NEVER)                 \
	X(ncclInt32, i32, u32, u32, int32_t, AS_IS, AS_IS, NEVER)              \
	X(ncclUint32, u32, u32, u32, uint32_t, AS_IS, AS_IS, NEVER)            \
	X(ncclInt64, i64, u64, u64, int64_t, AS_IS, AS_IS, NEVER)              \
	X(ncclUint64, u64, u64, u64, uint64_t, AS_IS, AS_IS, NEVER)            \
	X(ncclFloat16, f16, u16, f32, float, f16_to_f32, f32_to_f16, IS_NAN)   \
	X(ncclFloat32, f32, f32, f32, float, AS_IS, f32_one_nan, IS_NAN)       \
	X(ncclFloat64, f64, f64, f64, double, AS_IS, f64_one_nan, IS_NAN)      \
	X(ncclBfloat16, bf16, u16, f32, float, bf16_to_f32, f32_to_bf16,       \
	  IS_NAN)                                                              \
	X(ncclFloat8e4m3, e4m3, u8, f32, float, e4m3_to_f32, f32_to_e4m3,      \
	  IS_NAN)                                                              \
	X(ncclFloat8e5m2, e5m2, u8, f32, float, e5m2_to_f32, f32_to_e5m2,      \
	  IS_NAN)

/* What becomes of @a, folded so far, and @b of the next source. */
#define SUM(a, b, value, loses) ((a) + (b))
#define PROD(a, b, value, loses) ((a) * (b))
#define MAX(a, b, value, loses)                                                \
	((((value)(b) > (value)(a)) | loses(a)) ? (b) : (a))
#define MIN(a, b, value, loses)                                                \
	((((value)(b) < (value)(a)) | loses(a)) ? (b) : (a))

/* The loop that folds a block of one source into the accumulator. */
#define DEFINE_FOLD(name, OP, type, stored, folded, value, widen, loses)       \
	static void name(union block *restrict acc, const char *restrict src,  \
	                 size_t count)                                         \
	{                                                                      \
		for (size_t i = 0; i < count; i++) {                           \
			const __typeof__(acc->folded[0])                       \
				a = acc->folded[i],                            \
				b = widen(stored##_get(src, i));               \
                                                                               \
			acc->folded[i] = OP(a, b, value, loses);               \
		}                                                              \
	}

/* All the loops of one element type. */
#define DEFINE_TYPE(id, type, stored, folded, value, widen, narrow, loses)     \
	static void type##_load(union block *restrict acc,                     \
	                        const char *restrict src, size_t count)        \
	{                                                                      \
		for (size_t i = 0; i < count; i++)                             \
			acc->folded[i] = widen(stored##_get(src, i));          \
	}                                                                      \
	DEFINE_FOLD(type##_sum, SUM, type, stored, folded, value, widen,       \
	            loses)                                                     \
	DEFINE_FOLD(type##_prod, PROD, type, stored, folded, value, widen,     \
	            loses)                                                     \
	DEFINE_FOLD(type##_max, MAX, type, stored, folded, value, widen,       \
	            loses)                                                     \
	DEFINE_FOLD(type##_min, MIN, type, stored, folded, value, widen,       \
	            loses)                                                     \
	static void type##_scale(union block *acc, size_t count,               \
	                         const char *scalar)                           \
	{                                                                      \
		const __typeof__(acc->folded[0]) b =                           \
			widen(stored##_get(scalar, 0));                        \
                                                                               \
		for (size_t i = 0; i < count; i++)                             \
			acc->folded[i] = acc->folded[i] * b;                   \
	}                                                                      \
	static void type##_divide(union block *acc, size_t count, int n)       \
	{                                                                      \
		for (size_t i = 0; i < count; i++)                             \
			acc->folded[i] = (value)acc->folded[i] / (n);          \
	}                                                                      \
	static void type##_store(char *restrict out,                           \
	                         const union block *restrict acc,              \
	                         size_t count)                                 \
	{                                                                      \
		for (size_t i = 0; i < count; i++)                             \
			stored##_put(out, i, narrow(acc->folded[i]));          \
	}

REDUCE_TYPES(DEFINE_TYPE)

typedef void (*fold_fn)(union block *restrict acc, const char *restrict src,
                        size_t count);

/* The loops of a type; each does one block of at most BLOCK elements. */
struct arithmetic {
	size_t size; /* bytes of an element */
	fold_fn load;
	fold_fn fold[ncclNumOps];
	void (*scale)(union block *acc, size_t count, const char *scalar);
	void (*divide)(union block *acc, size_t count, int n);
	void (*store)(char *restrict out, const union block *restrict acc,
	              size_t count);
};

#define TYPE_ENTRY(id, type, stored, ...)                                      \
	[id] = {                                                               \
		.size = sizeof(stored##_get(NULL, 0)),                         \
		.load = type##_load,                                           \
		.fold = {                                                      \
			[ncclSum] = type##_sum,                                \
			[ncclProd] = type##_prod,                              \
			[ncclMax] = type##_max,                                \
			[ncclMin] = type##_min,                                \
			[ncclAvg] = type##_sum,                                \
		},                                                             \
		.scale = type##_scale,                                         \
		.divide = type##_divide,                                       \
		.store = type##_store,                                         \
	},

/* clang-format off */
static const struct arithmetic arithmetic[ncclNumTypes] = {
	REDUCE_TYPES(TYPE_ENTRY)
};
/* clang-format on */

/* One block: @skip bytes into every buffer, @count elements. */
static void fold_block(const struct arithmetic *a, char *out,
                       const void *const src[], int n, size_t skip,
                       size_t count, int op)
{
	union block acc;

	a->load(&acc, (const char *)src[0] + skip, count);
	for (int i = 1; i < n; i++)
		a->fold[op](&acc, (const char *)src[i] + skip, count);
	if (op == ncclAvg)
		a->divide(&acc, count, n);
	a->store(out + skip, &acc, count);
}

void reduce_fold(void *out, const void *const src[], int n, size_t count,
                 int type, int op)
{
	const struct arithmetic *a;

	assert(n >= 1);
	assert(type >= 0 && type < ncclNumTypes);
	assert(op >= 0 && op < ncclNumOps);

	a = &arithmetic[type];
	for (size_t done = 0; done < count; done += BLOCK) {
		const size_t left = count - done;

		fold_block(a, out, src, n, done * a->size,
		           left < BLOCK ? left : BLOCK, op);
	}
}

/* The same of sums, each input first replaced by its product with the scalar of
 * its rank. */
static void fold_block_scaled(const struct arithmetic *a, char *out,
                              const void *const src[],
                              const void *const scalars[], int n, size_t skip,
                              size_t count)
{
	char product[BLOCK * sizeof(uint64_t)];
	union block acc, one;

	for (int i = 0; i < n; i++) {
		a->load(&one, (const char *)src[i] + skip, count);
		a->scale(&one, count, scalars[i]);
		a->store(product, &one, count);
		if (i == 0)
			a->load(&acc, product, count);
		else
			a->fold[ncclSum](&acc, product, count);
	}
	a->store(out + skip, &acc, count);
}

void reduce_fold_scaled(void *out, const void *const src[],
                        const void *const scalars[], int n, size_t count,
                        int type)
{
	const struct arithmetic *a;

	assert(n >= 1);
	assert(type >= 0 && type < ncclNumTypes);

	a = &arithmetic[type];
	for (size_t done = 0; done < count; done += BLOCK) {
		const size_t left = count - done;

		fold_block_scaled(a, out, src, scalars, n, done * a->size,
		                  left < BLOCK ? left : BLOCK);
	}
}
