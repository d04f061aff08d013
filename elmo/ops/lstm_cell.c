/* One step of elmo.ops.lstm between its matrix products, forward and backward, each in one pass over the cells.

   elmo/ops/compiled.py compiles this file and calls it. Arrays hold `rows` rows for either reading direction; a row of
   gates has i, j, f, o, one after the other. A call does the cells `begin` to `end` of every row, so that threads may
   share them and no sum depends on how many there are. */

#include "shared.h"

typedef uint16_t bfloat16;

static inline float read_float(float x) { return x; }
static inline float write_float(float x) { return x; }
static inline float read_bfloat16(bfloat16 x) { return from_bits((uint32_t)x << 16); }
static inline bfloat16 write_bfloat16(float x) { /* the nearest, of two the even one */
    uint32_t bits = to_bits(x);
    return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

typedef struct {
    ptrdiff_t rows, size;     /* rows of a direction, cells of a row */
    float limit;              /* of a cell */
    float forget_bias;
    const void *inputs[2];    /* products of a step's inputs, rows x 4 size */
    const void *states[2];    /* products of the hidden states, rows x 4 size */
    const float *bias[2];     /* 4 size */
    float *cell[2];           /* rows x size: before the step, then after it */
    float *gates[2];          /* rows x 4 size: after their activations */
    float *cells[2];          /* a copy of the cells after the step */
    void *memory[2];          /* what is projected, rows x size */
} Forward;

typedef struct {
    ptrdiff_t rows, size;
    float limit;
    const void *to_memory[2]; /* the gradient of what is projected, rows x size */
    const float *gates[2], *cells[2]; /* of the forward step */
    const float *before[2];   /* the cells before the step */
    float *to_cell[2];        /* gradient of the cells: after the step, then before it */
    void *to_gates[2];        /* gradient before the activations, rows x 4 size */
    float *to_bias[2];        /* 4 size, added to */
} Backward;

#define FORWARD(NUMBER)                                                                                               \
    void forward_##NUMBER(const Forward *step, ptrdiff_t begin, ptrdiff_t end) {                                      \
        const ptrdiff_t size = step->size;                                                                            \
        const float limit = step->limit, forget_bias = step->forget_bias;                                             \
        for (ptrdiff_t row = 0; row < 2 * step->rows; row++) {                                                        \
            const ptrdiff_t d = row / step->rows, r = row % step->rows;                                               \
            const NUMBER *x = (const NUMBER *)step->inputs[d] + 4 * size * r;                                         \
            const NUMBER *h = (const NUMBER *)step->states[d] + 4 * size * r;                                         \
            const float *bias = step->bias[d];                                               \
            float *gates = step->gates[d] + 4 * size * r;                                                             \
            float *cell = step->cell[d] + size * r, *cells = step->cells[d] + size * r;                               \
            NUMBER *memory = (NUMBER *)step->memory[d] + size * r;                                                    \
            INDEPENDENT for (ptrdiff_t k = begin; k < end; k++) {                                                     \
                const ptrdiff_t j_ = k + size, f_ = k + 2 * size, o_ = k + 3 * size;                                  \
                float i = sigmoid(read_##NUMBER(x[k]) + read_##NUMBER(h[k]) + bias[k]);                               \
                float j = hyperbolic_tangent(read_##NUMBER(x[j_]) + read_##NUMBER(h[j_]) + bias[j_]);                 \
                float f = sigmoid(read_##NUMBER(x[f_]) + read_##NUMBER(h[f_]) + bias[f_] + forget_bias);              \
                float o = sigmoid(read_##NUMBER(x[o_]) + read_##NUMBER(h[o_]) + bias[o_]);                            \
                float c = clipped(f * cell[k] + i * j, limit);                                               \
                gates[k] = i, gates[j_] = j, gates[f_] = f, gates[o_] = o;                                            \
                cell[k] = cells[k] = c;                                                                               \
                memory[k] = write_##NUMBER(o * hyperbolic_tangent(c));                                                \
            }                                                                                                         \
        }                                                                                                             \
    }

#define BACKWARD(NUMBER)                                                                                              \
    void backward_##NUMBER(const Backward *step, ptrdiff_t begin, ptrdiff_t end) {                                    \
        const ptrdiff_t size = step->size;                                                                            \
        const float limit = step->limit;                                                                              \
        for (ptrdiff_t row = 0; row < 2 * step->rows; row++) {                                                        \
            const ptrdiff_t d = row / step->rows, r = row % step->rows;                                               \
            const NUMBER *to_memory = (const NUMBER *)step->to_memory[d] + size * r;                                  \
            const float *gates = step->gates[d] + 4 * size * r, *cells = step->cells[d] + size * r;                   \
            const float *before = step->before[d] + size * r;                                \
            float *to_cell = step->to_cell[d] + size * r, *to_bias = step->to_bias[d];                                \
            NUMBER *to_gates = (NUMBER *)step->to_gates[d] + 4 * size * r;                                            \
            INDEPENDENT for (ptrdiff_t k = begin; k < end; k++) {                                                     \
                const ptrdiff_t j_ = k + size, f_ = k + 2 * size, o_ = k + 3 * size;                                  \
                float i = gates[k], j = gates[j_], f = gates[f_], o = gates[o_];                                      \
                float c = cells[k], tanh_c = hyperbolic_tangent(c), m = read_##NUMBER(to_memory[k]);                  \
                float d_c = to_cell[k] + m * o * (1.0f - tanh_c * tanh_c);                                            \
                d_c = c > -limit && c < limit ? d_c : 0.0f;                                                           \
                float d_i = d_c * j * i * (1.0f - i), d_j = d_c * i * (1.0f - j * j);                                 \
                float d_f = d_c * before[k] * f * (1.0f - f), d_o = m * tanh_c * o * (1.0f - o);             \
                to_cell[k] = d_c * f;                                                                          \
                to_gates[k] = write_##NUMBER(d_i), to_gates[j_] = write_##NUMBER(d_j);                                \
                to_gates[f_] = write_##NUMBER(d_f), to_gates[o_] = write_##NUMBER(d_o);                               \
                to_bias[k] += d_i, to_bias[j_] += d_j, to_bias[f_] += d_f, to_bias[o_] += d_o;                        \
            }                                                                                                         \
        }                                                                                                             \
    }

#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

FORWARD(float)
FORWARD(bfloat16)
BACKWARD(float)
BACKWARD(bfloat16)
