/* Products with 8-bit weights, and the steps of an LSTM with such products: elmo/ops/int8_reading.py describes them.

   Inputs become integers of at most 16 bits, so that a sum is exact whatever its order. A row's result depends on no
   other row, and is the same on every processor. */

#include "shared.h"
#include <immintrin.h>

/* A vector has LANES sums of 32 bits; each step adds the products of a pair of inputs. */
#if defined(__AVX512BW__)
typedef __m512i Vector;
#define LANES 16
#define NOTHING _mm512_setzero_si512()
#define WIDENED(bytes) _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(bytes)))
#define EVERYWHERE(pair) _mm512_set1_epi32(pair)
#if defined(__AVX512VNNI__)
#define PLUS_PRODUCTS(sums, v, w) _mm512_dpwssd_epi32(sums, v, w)
#else
#define PLUS_PRODUCTS(sums, v, w) _mm512_add_epi32(sums, _mm512_madd_epi16(v, w))
#endif
#else
typedef __m256i Vector;
#define LANES 8
#define NOTHING _mm256_setzero_si256()
#define WIDENED(bytes) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(bytes)))
#define EVERYWHERE(pair) _mm256_set1_epi32(pair)
#define PLUS_PRODUCTS(sums, v, w) _mm256_add_epi32(sums, _mm256_madd_epi16(v, w))
#endif
#define UNROLLED _Pragma("GCC unroll 4")

typedef struct {
    ptrdiff_t size, inputs;   /* outputs and inputs of a row */
    const int8_t *weights;    /* of `lanes` outputs, for each pair of inputs, the pair of each output; zeros at the end */
    const float *scales;      /* of every output */
} Weights;

ptrdiff_t lanes(void) { return LANES; }

static inline ptrdiff_t even(ptrdiff_t inputs) { return inputs + inputs % 2; }

/* The largest number that an input becomes, so that no sum of `inputs` products exceeds 31 bits. */
static float most(ptrdiff_t inputs) {
    ptrdiff_t bound = INT32_MAX / (127 * inputs);
    return bound < INT16_MAX ? (float)bound : (float)INT16_MAX;
}

/* A row as integers, of an even number, and their scale, which is NaN if a number is not finite. */
static float to_integers(const float *restrict x, ptrdiff_t inputs, int16_t *restrict integers) {
    int32_t bits = 0;
    integers[even(inputs) - 1] = 0;
    for (ptrdiff_t k = 0; k < inputs; k++) { /* the bits of positive numbers have their order */
        int32_t magnitude = (int32_t)(to_bits(x[k]) & 0x7fffffff);
        bits = magnitude > bits ? magnitude : bits;
    }
    const float largest = from_bits((uint32_t)bits), limit = most(inputs);
    if (bits >= 0x7f800000 || largest < 1e-30f) {
        memset(integers, 0, (size_t)inputs * sizeof *integers);
        return bits >= 0x7f800000 ? from_bits(0x7fc00000) : 0.0f;
    }
    const float factor = limit / largest;
    for (ptrdiff_t k = 0; k < inputs; k++) /* 1.5 * 2^23: no digits are left behind the point */
        integers[k] = (int16_t)(int32_t)((x[k] * factor + 12582912.0f) - 12582912.0f);
    return largest / limit;
}

/* Sums of the products of `n` rows, at most 4, with two blocks of LANES outputs; `inputs` is even. */
static inline __attribute__((always_inline)) void two_blocks(const int8_t *weights, const int16_t *x, ptrdiff_t inputs,
                                                             int n, int32_t sums[4][2 * LANES]) {
    Vector first[4], second[4];
    UNROLLED for (int i = 0; i < n; i++) first[i] = second[i] = NOTHING;
    for (ptrdiff_t k = 0; k < inputs; k += 2) {
        const Vector v = WIDENED(weights + k * LANES), w = WIDENED(weights + (inputs + k) * LANES);
        UNROLLED for (int i = 0; i < n; i++) {
            int32_t pair;
            memcpy(&pair, x + i * inputs + k, sizeof pair);
            first[i] = PLUS_PRODUCTS(first[i], v, EVERYWHERE(pair));
            second[i] = PLUS_PRODUCTS(second[i], w, EVERYWHERE(pair));
        }
    }
    UNROLLED for (int i = 0; i < n; i++) {
        memcpy(sums[i], &first[i], sizeof(Vector));
        memcpy(sums[i] + LANES, &second[i], sizeof(Vector));
    }
}

/* Adds the product of `rows` rows to `out`. */
static void add_product(const Weights *of, const int16_t *x, const float *x_scales, ptrdiff_t rows, float *out) {
    const ptrdiff_t inputs = even(of->inputs), size = of->size;
    for (ptrdiff_t o = 0; o < size; o += 2 * LANES) {
        const ptrdiff_t outputs = size - o < 2 * LANES ? size - o : 2 * LANES;
        const int8_t *weights = of->weights + o * inputs;
        const float *scales = of->scales + o;
        for (ptrdiff_t r = 0; r < rows; r += 4) {
            const int n = rows - r < 4 ? (int)(rows - r) : 4;
            int32_t sums[4][2 * LANES];
            switch (n) {
            case 1: two_blocks(weights, x + r * inputs, inputs, 1, sums); break;
            case 2: two_blocks(weights, x + r * inputs, inputs, 2, sums); break;
            case 3: two_blocks(weights, x + r * inputs, inputs, 3, sums); break;
            default: two_blocks(weights, x + r * inputs, inputs, 4, sums);
            }
            for (int i = 0; i < n; i++) {
                float *row = out + (r + i) * size + o;
                const float scale = x_scales[r + i];
                for (ptrdiff_t p = 0; p < outputs; p++) row[p] += (float)sums[i][p] * (scales[p] * scale);
            }
        }
    }
}

/* `out` (rows x size) becomes the product of x (rows x inputs). */
static void multiply(const Weights *of, const float *x, ptrdiff_t rows, int16_t *integers, float *scales, float *out) {
    for (ptrdiff_t r = 0; r < rows; r++)
        scales[r] = to_integers(x + r * of->inputs, of->inputs, integers + r * even(of->inputs));
    memset(out, 0, (size_t)(rows * of->size) * sizeof *out);
    add_product(of, integers, scales, rows, out);
}

typedef struct {
    Weights weights;
    const float *x;           /* rows x inputs */
    float *out;               /* rows x size */
    float *scales;            /* room for rows */
    int16_t *integers;        /* room for rows x the inputs, an even number */
} Product;

/* The rows `begin` to `end`. */
void multiply_rows(const Product *of, ptrdiff_t begin, ptrdiff_t end) {
    const ptrdiff_t size = of->weights.size, inputs = of->weights.inputs;
    multiply(&of->weights, of->x + begin * inputs, end - begin, of->integers + begin * even(inputs),
             of->scales + begin, of->out + begin * size);
}

typedef struct {
    ptrdiff_t steps, rows, first_rows, cells;
    Weights state, projection;  /* no projection: `weights` is NULL */
    float cell_limit, projection_limit;
    const float *products;      /* of the inputs, with the bias: one for each number in `places` */
    const int64_t *places;      /* steps x first_rows: of the rows that have not ended at the first step */
    const int64_t *active;      /* steps: the rows that have not ended, which are the first ones */
    const uint8_t *keep;        /* steps x rows: 0 where a row starts from zero; may be NULL */
    float *hidden, *cell;       /* of every row, before the steps and then after them */
    float *outputs;             /* steps x rows x the size of `hidden` */
    float *gates, *memory, *scales; /* room for rows x 4 cells, rows x cells, and rows */
    int16_t *integers;          /* room for rows x the inputs of either product, an even number */
} Reading;

/* A row of gates i, j, f, o, of which j is doubled already; `memory` is what is projected. */
static void step_of_row(const float *restrict gates, ptrdiff_t cells, float limit, float *restrict cell,
                        float *restrict memory) {
    for (ptrdiff_t k = 0; k < cells; k++) {
        float i = sigmoid(gates[k]), j = 2.0f * sigmoid(gates[k + cells]) - 1.0f;
        float f = sigmoid(gates[k + 2 * cells]), o = sigmoid(gates[k + 3 * cells]);
        float c = clipped(f * cell[k] + i * j, limit);
        cell[k] = c;
        memory[k] = o * hyperbolic_tangent(c);
    }
}

/* All steps of the rows `begin` to `end`. */
void read_rows(const Reading *of, ptrdiff_t begin, ptrdiff_t end) {
    const ptrdiff_t cells = of->cells, size = of->projection.weights ? of->projection.size : cells;
    const ptrdiff_t inputs = even(size > cells ? size : cells);
    float *gates = of->gates + begin * 4 * cells, *memory = of->memory + begin * cells, *scales = of->scales + begin;
    float *hidden = of->hidden + begin * size, *cell = of->cell + begin * cells;
    int16_t *integers = of->integers + begin * inputs;
    for (ptrdiff_t t = 0; t < of->steps; t++) {
        const ptrdiff_t last = of->active[t] < end ? of->active[t] : end, rows = last > begin ? last - begin : 0;
        const uint8_t *keep = of->keep ? of->keep + t * of->rows + begin : NULL;
        float *out = of->outputs + (t * of->rows + begin) * size;
        for (ptrdiff_t r = 0; keep && r < end - begin; r++) {
            if (keep[r]) continue;
            memset(hidden + r * size, 0, (size_t)size * sizeof *hidden);
            memset(cell + r * cells, 0, (size_t)cells * sizeof *cell);
        }
        for (ptrdiff_t r = 0; r < rows; r++) {
            const float *product = of->products + of->places[t * of->first_rows + begin + r] * 4 * cells;
            memcpy(gates + r * 4 * cells, product, (size_t)(4 * cells) * sizeof *product);
            scales[r] = to_integers(hidden + r * size, size, integers + r * even(size));
        }
        add_product(&of->state, integers, scales, rows, gates);
        for (ptrdiff_t r = 0; r < rows; r++)
            step_of_row(gates + r * 4 * cells, cells, of->cell_limit, cell + r * cells, memory + r * cells);
        if (of->projection.weights) {
            multiply(&of->projection, memory, rows, integers, scales, out);
            for (ptrdiff_t k = 0; k < rows * size; k++) out[k] = clipped(out[k], of->projection_limit);
        } else {
            memcpy(out, memory, (size_t)(rows * size) * sizeof *out);
        }
        memcpy(hidden, out, (size_t)(rows * size) * sizeof *out);
        memset(out + rows * size, 0, (size_t)((end - begin - rows) * size) * sizeof *out);
    }
}
