#include "trainer/model/layers.h"

#include <algorithm>
#include <cmath>

#include "trainer/model/gemm.h"

namespace rollcall {
namespace {

constexpr Transpose kNo = Transpose::kNo;
constexpr Transpose kYes = Transpose::kYes;

}  // namespace

template <typename T>
void EmbedForward(T* out, const Token* tokens, const T* token_table,
                  const T* position_table, int64_t rows, int64_t context,
                  int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* token = token_table + tokens[r] * width;
    const T* position = position_table + (r % context) * width;
    T* row = out + r * width;
    for (int64_t i = 0; i < width; ++i) row[i] = token[i] + position[i];
  }
}

template <typename T>
void EmbedBackward(T* dtoken_table, T* dposition_table, const Token* tokens,
                   const T* dout, int64_t rows, int64_t context,
                   int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = dout + r * width;
    T* dtoken = dtoken_table + tokens[r] * width;
    T* dposition = dposition_table + (r % context) * width;
    for (int64_t i = 0; i < width; ++i) {
      dtoken[i] += row[i];
      dposition[i] += row[i];
    }
  }
}

template <typename T>
void LayerNormForward(T* out, T* mean, T* inverse_deviation, const T* in,
                      const T* gain, const T* bias, int64_t rows,
                      int64_t width) {
  constexpr T kEpsilon = T(1e-5);
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = in + r * width;
    T sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[i];
    const T m = sum / width;
    T squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - m) * (x[i] - m);
    const T s = 1 / std::sqrt(squares / width + kEpsilon);
    T* y = out + r * width;
    for (int64_t i = 0; i < width; ++i)
      y[i] = (x[i] - m) * s * gain[i] + bias[i];
    mean[r] = m;
    inverse_deviation[r] = s;
  }
}

template <typename T>
void LayerNormBackward(T* din, T* dgain, T* dbias, const T* dout, const T* in,
                       const T* gain, const T* mean, const T* inverse_deviation,
                       int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = in + r * width;
    const T* dy = dout + r * width;
    T* dx = din + r * width;
    const T m = mean[r];
    const T s = inverse_deviation[r];
    // With n the normalised input, dx = s (g - mean(g) - n mean(g n)), where
    // g = dy * gain.
    T g_sum = 0;
    T gn_sum = 0;
    for (int64_t i = 0; i < width; ++i) {
      const T n = (x[i] - m) * s;
      const T g = dy[i] * gain[i];
      g_sum += g;
      gn_sum += g * n;
      dgain[i] += dy[i] * n;
      dbias[i] += dy[i];
    }
    const T g_mean = g_sum / width;
    const T gn_mean = gn_sum / width;
    for (int64_t i = 0; i < width; ++i) {
      const T n = (x[i] - m) * s;
      dx[i] += s * (dy[i] * gain[i] - g_mean - n * gn_mean);
    }
  }
}

template <typename T>
void LinearForward(T* out, const T* in, const T* weight, const T* bias,
                   int64_t rows, int64_t from, int64_t to) {
  for (int64_t r = 0; r < rows; ++r) std::copy(bias, bias + to, out + r * to);
  Gemm(kNo, kNo, rows, to, from, T(1), in, from, weight, to, T(1), out, to);
}

template <typename T>
void LinearBackward(T* din, T* dweight, T* dbias, const T* dout, const T* in,
                    const T* weight, int64_t rows, int64_t from, int64_t to) {
  Gemm(kNo, kYes, rows, from, to, T(1), dout, to, weight, to, T(0), din, from);
  Gemm(kYes, kNo, from, to, rows, T(1), in, from, dout, to, T(1), dweight, to);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < to; ++i) dbias[i] += dout[r * to + i];
  }
}

namespace {

template <typename T>
constexpr T kGeluScale = T(0.79788456080286535588);  // sqrt(2 / pi)
template <typename T>
constexpr T kGeluCubic = T(0.044715);

}  // namespace

template <typename T>
void GeluForward(T* out, T* tanhs, const T* in, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T x = in[i];
    // tanh(u) by one exponential: several times faster than std::tanh, and the
    // clamp keeps the exponential finite where tanh is 1 to the last bit.
    const T u = kGeluScale<T> * (x + kGeluCubic<T> * x * x * x);
    const T e = std::exp(2 * std::clamp(u, T(-20), T(20)));
    const T t = (e - 1) / (e + 1);
    tanhs[i] = t;
    out[i] = T(0.5) * x * (1 + t);
  }
}

template <typename T>
void GeluBackward(T* d, const T* in, const T* tanhs, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T x = in[i];
    const T t = tanhs[i];
    const T du = kGeluScale<T> * (1 + 3 * kGeluCubic<T> * x * x);
    d[i] *= T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * du;
  }
}

template <typename T>
void AttentionForward(T* out, T* weights, const T* qkv, int64_t sequences,
                      int64_t context, int64_t width, int64_t heads) {
  const int64_t head = width / heads;
  const int64_t row = 3 * width;
  const T scale = 1 / std::sqrt(T(head));
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t h = 0; h < heads; ++h) {
      const T* q = qkv + s * context * row + h * head;
      const T* k = q + width;
      const T* v = k + width;
      T* w = weights + (s * heads + h) * context * context;
      Gemm(kNo, kYes, context, context, head, scale, q, row, k, row, T(0), w,
           context);
      for (int64_t t = 0; t < context; ++t) {
        T* scores = w + t * context;
        const T most = *std::max_element(scores, scores + t + 1);
        T sum = 0;
        for (int64_t i = 0; i <= t; ++i) {
          scores[i] = std::exp(scores[i] - most);
          sum += scores[i];
        }
        for (int64_t i = 0; i <= t; ++i) scores[i] /= sum;
        std::fill(scores + t + 1, scores + context, T(0));
      }
      Gemm(kNo, kNo, context, head, context, T(1), w, context, v, row, T(0),
           out + s * context * width + h * head, width);
    }
  }
}

template <typename T>
void AttentionBackward(T* dqkv, T* scratch, const T* dout, const T* qkv,
                       const T* weights, int64_t sequences, int64_t context,
                       int64_t width, int64_t heads) {
  const int64_t head = width / heads;
  const int64_t row = 3 * width;
  const T scale = 1 / std::sqrt(T(head));
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t h = 0; h < heads; ++h) {
      const T* q = qkv + s * context * row + h * head;
      const T* k = q + width;
      const T* v = k + width;
      T* dq = dqkv + s * context * row + h * head;
      T* dk = dq + width;
      T* dv = dk + width;
      const T* w = weights + (s * heads + h) * context * context;
      const T* dy = dout + s * context * width + h * head;
      Gemm(kYes, kNo, context, head, context, T(1), w, context, dy, width, T(0),
           dv, row);
      Gemm(kNo, kYes, context, context, head, T(1), dy, width, v, row, T(0),
           scratch, context);
      // Through the softmax; where w is zero (above the diagonal) so is this.
      for (int64_t t = 0; t < context; ++t) {
        T* d = scratch + t * context;
        const T* p = w + t * context;
        T dot = 0;
        for (int64_t i = 0; i <= t; ++i) dot += d[i] * p[i];
        for (int64_t i = 0; i <= t; ++i) d[i] = p[i] * (d[i] - dot);
        std::fill(d + t + 1, d + context, T(0));
      }
      Gemm(kNo, kNo, context, head, context, scale, scratch, context, k, row,
           T(0), dq, row);
      Gemm(kYes, kNo, context, head, context, scale, scratch, context, q, row,
           T(0), dk, row);
    }
  }
}

template <typename T>
double CrossEntropy(T* logits, const Token* targets, T scale, int64_t rows,
                    int64_t vocabulary) {
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r) {
    T* row = logits + r * vocabulary;
    const T most = *std::max_element(row, row + vocabulary);
    const T target = row[targets[r]];
    T sum = 0;
    for (int64_t i = 0; i < vocabulary; ++i) {
      row[i] = std::exp(row[i] - most);
      sum += row[i];
    }
    loss += std::log(sum) + most - target;
    const T factor = scale / sum;
    for (int64_t i = 0; i < vocabulary; ++i) row[i] *= factor;
    row[targets[r]] -= scale;
  }
  return loss;
}

#define ROLLCALL_INSTANCES(T)                                                  \
  template void EmbedForward<T>(T*, const Token*, const T*, const T*, int64_t, \
                                int64_t, int64_t);                             \
  template void EmbedBackward<T>(T*, T*, const Token*, const T*, int64_t,      \
                                 int64_t, int64_t);                            \
  template void LayerNormForward<T>(T*, T*, T*, const T*, const T*, const T*,  \
                                    int64_t, int64_t);                         \
  template void LayerNormBackward<T>(T*, T*, T*, const T*, const T*, const T*, \
                                     const T*, const T*, int64_t, int64_t);    \
  template void LinearForward<T>(T*, const T*, const T*, const T*, int64_t,    \
                                 int64_t, int64_t);                            \
  template void LinearBackward<T>(T*, T*, T*, const T*, const T*, const T*,    \
                                  int64_t, int64_t, int64_t);                  \
  template void GeluForward<T>(T*, T*, const T*, int64_t);                     \
  template void GeluBackward<T>(T*, const T*, const T*, int64_t);              \
  template void AttentionForward<T>(T*, T*, const T*, int64_t, int64_t,        \
                                    int64_t, int64_t);                         \
  template void AttentionBackward<T>(T*, T*, const T*, const T*, const T*,     \
                                     int64_t, int64_t, int64_t, int64_t);      \
  template double CrossEntropy<T>(T*, const Token*, T, int64_t, int64_t);

ROLLCALL_INSTANCES(float)
ROLLCALL_INSTANCES(double)
#undef ROLLCALL_INSTANCES

}  // namespace rollcall
