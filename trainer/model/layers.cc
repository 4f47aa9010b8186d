#include "trainer/model/layers.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "trainer/model/cpu/gemm.h"
#include "trainer/model/cpu/loops.h"

namespace rollcall {
namespace {

constexpr Transpose kNo = Transpose::kNo;
constexpr Transpose kYes = Transpose::kYes;

// The minimum work per thread, for each way to cut a loop. kColumns gives whole
// cache lines to one thread.
constexpr int64_t kRows = 16;
constexpr int64_t kColumns = 32;
constexpr int64_t kValues = 4096;

template <typename F>
void Split(ThreadPool* pool, int64_t count, int64_t grain, const F& work) {
  if (pool != nullptr) {
    pool->Split(count, grain, work);
  } else if (count > 0) {
    work(0, count, 0);
  }
}

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
void LayerNormForward(T* out, T* mean, T* rstd, const T* in, const T* gain,
                      const T* bias, int64_t rows, int64_t width,
                      ThreadPool* pool) {
  Split(pool, rows, kRows, [&](int64_t begin, int64_t end, int) {
    const int64_t at = begin * width;
    LoopsHere<T>().norm_forward(out + at, mean + begin, rstd + begin, in + at,
                                gain, bias, end - begin, width);
  });
}

template <typename T>
void LayerNormBackward(T* din, T* dgain, T* dbias, const T* dout, const T* in,
                       const T* gain, const T* mean, const T* rstd,
                       int64_t rows, int64_t width, ThreadPool* pool) {
  Split(pool, rows, kRows, [&](int64_t begin, int64_t end, int) {
    const int64_t at = begin * width;
    LoopsHere<T>().norm_backward(din + at, dout + at, in + at, gain,
                                 mean + begin, rstd + begin, end - begin,
                                 width);
  });
  Split(pool, width, kColumns, [&](int64_t begin, int64_t end, int) {
    LoopsHere<T>().norm_backward_weights(dgain, dbias, dout, in, mean, rstd,
                                         rows, width, begin, end);
  });
}

template <typename T>
void LinearForward(T* out, const T* in, const T* weight, const T* bias,
                   int64_t rows, int64_t from, int64_t to,
                   std::type_identity_t<const T*> more, ThreadPool* pool) {
  Split(pool, rows, kRows, [&](int64_t begin, int64_t end, int) {
    LoopsHere<T>().fill_rows(out + begin * to, bias,
                             more == nullptr ? nullptr : more + begin * to,
                             end - begin, to);
  });
  Gemm(kNo, kNo, rows, to, from, T(1), in, from, weight, to, T(1), out, to);
}

template <typename T>
void LinearBackward(T* din, T* dweight, T* dbias, const T* dout, const T* in,
                    const T* weight, int64_t rows, int64_t from, int64_t to,
                    ThreadPool* pool) {
  Gemm(kNo, kYes, rows, from, to, T(1), dout, to, weight, to, T(0), din, from);
  Gemm(kYes, kNo, from, to, rows, T(1), in, from, dout, to, T(1), dweight, to);
  Split(pool, to, kColumns, [&](int64_t begin, int64_t end, int) {
    LoopsHere<T>().add_rows(dbias, dout, rows, to, begin, end);
  });
}

template <typename T>
void GeluForward(T* out, T* tanhs, const T* in, int64_t count,
                 ThreadPool* pool) {
  Split(pool, count, kValues, [&](int64_t begin, int64_t end, int) {
    LoopsHere<T>().gelu_forward(out + begin, tanhs + begin, in + begin,
                                end - begin);
  });
}

template <typename T>
void GeluBackward(T* d, const T* in, const T* tanhs, int64_t count,
                  ThreadPool* pool) {
  Split(pool, count, kValues, [&](int64_t begin, int64_t end, int) {
    LoopsHere<T>().gelu_backward(d + begin, in + begin, tanhs + begin,
                                 end - begin);
  });
}

// --- Attention ---------------------------------------------------------------

namespace {

// True: each head is computed by one thread. False: the heads are large enough
// that all threads share each product.
bool HeadsAreSmall(int64_t context) { return context <= kAttentionAlone; }

// Computes one head of one sequence.
template <typename T>
void HeadForward(T* out, T* w, const T* q, int64_t context, int64_t width,
                 int64_t head, ThreadPool* pool) {
  const int64_t row = 3 * width;
  const T* k = q + width;
  const T* v = k + width;
  const T scale = 1 / std::sqrt(T(head));
  Gemm(kNo, kYes, context, context, head, scale, q, row, k, row, T(0), w,
       context);
  Split(pool, context, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      LoopsHere<T>().softmax(w + t * context, t + 1, context);
    }
  });
  Gemm(kNo, kNo, context, head, context, T(1), w, context, v, row, T(0), out,
       width);
}

template <typename T>
void HeadBackward(T* dq, T* scratch, const T* dy, const T* q, const T* w,
                  int64_t context, int64_t width, int64_t head,
                  ThreadPool* pool) {
  const int64_t row = 3 * width;
  const T* k = q + width;
  const T* v = k + width;
  T* dk = dq + width;
  T* dv = dk + width;
  const T scale = 1 / std::sqrt(T(head));
  Gemm(kYes, kNo, context, head, context, T(1), w, context, dy, width, T(0), dv,
       row);
  Gemm(kNo, kYes, context, context, head, T(1), dy, width, v, row, T(0),
       scratch, context);
  // The gradient through the softmax. Where w is zero (above the diagonal) the
  // result is zero too.
  Split(pool, context, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      LoopsHere<T>().softmax_backward(scratch + t * context, w + t * context,
                                      t + 1, context);
    }
  });
  Gemm(kNo, kNo, context, head, context, scale, scratch, context, k, row, T(0),
       dq, row);
  Gemm(kYes, kNo, context, head, context, scale, scratch, context, q, row, T(0),
       dk, row);
}

}  // namespace

template <typename T>
void AttentionForward(T* out, T* weights, const T* qkv, int64_t sequences,
                      int64_t context, int64_t width, int64_t heads,
                      ThreadPool* pool) {
  const int64_t head = width / heads;
  const bool small = HeadsAreSmall(context);
  Split(small ? pool : nullptr, sequences * heads, 1,
        [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t at = i / heads * context * width;
            const int64_t column = i % heads * head;
            HeadForward(out + at + column, weights + i * context * context,
                        qkv + 3 * at + column, context, width, head,
                        small ? nullptr : pool);
          }
        });
}

template <typename T>
void AttentionBackward(T* dqkv, T* scratch, const T* dout, const T* qkv,
                       const T* weights, int64_t sequences, int64_t context,
                       int64_t width, int64_t heads, ThreadPool* pool) {
  const int64_t head = width / heads;
  const bool small = HeadsAreSmall(context);
  Split(small ? pool : nullptr, sequences * heads, 1,
        [&](int64_t begin, int64_t end, int part) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t at = i / heads * context * width;
            const int64_t column = i % heads * head;
            HeadBackward(dqkv + 3 * at + column,
                         scratch + part * context * context, dout + at + column,
                         qkv + 3 * at + column, weights + i * context * context,
                         context, width, head, small ? nullptr : pool);
          }
        });
}

size_t AttentionScratch(int64_t context, int threads) {
  return size_t(context) * context * (HeadsAreSmall(context) ? threads : 1);
}

template <typename T>
double CrossEntropy(T* logits, const Token* targets, T scale, int64_t rows,
                    int64_t vocabulary, ThreadPool* pool, double before) {
  // The losses are summed in the order of the rows, whichever thread computed
  // them.
  std::vector<double> losses(rows);
  Split(pool, rows, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      losses[r] = LoopsHere<T>().cross_entropy(logits + r * vocabulary,
                                               targets[r], scale, vocabulary);
    }
  });
  return std::accumulate(losses.begin(), losses.end(), before);
}

#define ROLLCALL_INSTANCES(T)                                                  \
  template void EmbedForward<T>(T*, const Token*, const T*, const T*, int64_t, \
                                int64_t, int64_t);                             \
  template void EmbedBackward<T>(T*, T*, const Token*, const T*, int64_t,      \
                                 int64_t, int64_t);                            \
  template void LayerNormForward<T>(T*, T*, T*, const T*, const T*, const T*,  \
                                    int64_t, int64_t, ThreadPool*);            \
  template void LayerNormBackward<T>(T*, T*, T*, const T*, const T*, const T*, \
                                     const T*, const T*, int64_t, int64_t,     \
                                     ThreadPool*);                             \
  template void LinearForward<T>(T*, const T*, const T*, const T*, int64_t,    \
                                 int64_t, int64_t, const T*, ThreadPool*);     \
  template void LinearBackward<T>(T*, T*, T*, const T*, const T*, const T*,    \
                                  int64_t, int64_t, int64_t, ThreadPool*);     \
  template void GeluForward<T>(T*, T*, const T*, int64_t, ThreadPool*);        \
  template void GeluBackward<T>(T*, const T*, const T*, int64_t, ThreadPool*); \
  template void AttentionForward<T>(T*, T*, const T*, int64_t, int64_t,        \
                                    int64_t, int64_t, ThreadPool*);            \
  template void AttentionBackward<T>(T*, T*, const T*, const T*, const T*,     \
                                     int64_t, int64_t, int64_t, int64_t,       \
                                     ThreadPool*);                             \
  template double CrossEntropy<T>(T*, const Token*, T, int64_t, int64_t,       \
                                  ThreadPool*, double);

ROLLCALL_INSTANCES(float)
ROLLCALL_INSTANCES(double)
#undef ROLLCALL_INSTANCES

}  // namespace rollcall
