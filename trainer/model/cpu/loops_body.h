// The loops of loops.h, for the instruction set that this file is compiled for.
// Only the files loops_*.cc include it, each with names of its own by
// ROLLCALL_LOOPS.
//
// It includes nothing with inline functions, because those would be built for
// that instruction set too, and the linker might use them in the whole program.
#include "trainer/model/cpu/loops.h"

namespace rollcall {
namespace {

constexpr int kLanes = 16;

template <typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kLanes * sizeof(T))));
};
template <typename T>
using Vector = typename VectorOf<T>::Type;

// X is T or Vector<T>.
template <typename X, typename T>
inline X Get(const T* from) {
  X x;
  __builtin_memcpy(&x, from, sizeof(x));
  return x;
}

template <typename X, typename T>
inline void Put(T* to, const X& x) {
  __builtin_memcpy(to, &x, sizeof(x));
}

template <typename X>
inline X Larger(const X& a, const X& b) {
  return a > b ? a : b;
}

// Computes f<X>(i) for all i in [begin, end): first whole vectors, then single
// values.
template <typename T, typename F>
inline void Each(int64_t begin, int64_t end, const F& f) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    f.template operator()<Vector<T>>(i);
  }
  for (; i < end; ++i) f.template operator()<T>(i);
}

// Reduces f<X>(i) over all i, first per lane and then over the lanes.
template <typename T, typename F, typename Merge>
inline T Reduce(int64_t count, T empty, const F& f, const Merge& merge) {
  Vector<T> all = empty - Vector<T>{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    all = merge(all, f.template operator()<Vector<T>>(i));
  }
  T lanes[kLanes];
  Put(lanes, all);
  for (int lane = 0; i < count; ++i, ++lane) {
    lanes[lane] = merge(lanes[lane], f.template operator()<T>(i));
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      lanes[lane] = merge(lanes[lane], lanes[lane + half]);
    }
  }
  return lanes[0];
}

template <typename T, typename F>
inline T Sum(int64_t count, const F& f) {
  return Reduce(count, T(0), f,
                [](const auto& a, const auto& b) { return a + b; });
}

// --- The exponential -------------------------------------------------------

inline double Exp(double x) { return __builtin_exp(x); }
inline Vector<double> Exp(const Vector<double>& x) {
  Vector<double> y;
  for (int i = 0; i < kLanes; ++i) y[i] = __builtin_exp(x[i]);
  return y;
}

typedef uint32_t Bits __attribute__((vector_size(kLanes * sizeof(float))));

// exp(x) = 2^n exp(r) with |r| <= ln(2) / 2, where eight terms of the series
// are exact to a tenth of the last bit. Rounding adds less than 2e-7 of the
// value. The result is 0 below -87, where floats lose precision; above 88 it is
// the value at 88.
template <typename X, typename U>
inline X ExpFloat(const X& in) {
  constexpr float kMin = -87, kMax = 88;
  constexpr float kRound = 0x1.8p23f;  // Adding it rounds off the fraction.
  const X min = kMin - X{}, max = kMax - X{};
  X x = in < min ? min : in;
  x = x > max ? max : x;
  const X shifted = x * 0x1.715476p0f + kRound;
  const X n = shifted - kRound;
  // ln 2 is split in two parts; the product of n and the first part is exact.
  const X r = (x - n * 0x1.62e4p-1f) - n * 1.42860682e-6f;
  X sum = r * (1 / 5040.0f) + 1 / 720.0f;
  sum = sum * r + 1 / 120.0f;
  sum = sum * r + 1 / 24.0f;
  sum = sum * r + 1 / 6.0f;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  U bits;
  __builtin_memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits << 23) + (127u << 23);  // 2^n.
  X power;
  __builtin_memcpy(&power, &bits, sizeof(power));
  return in < min ? X{} : sum * power;
}
inline float Exp(float x) { return ExpFloat<float, uint32_t>(x); }
inline Vector<float> Exp(const Vector<float>& x) {
  return ExpFloat<Vector<float>, Bits>(x);
}

template <typename T>
void Exponentials(T* out, const T* in, int64_t count) {
  Each<T>(0, count,
          [&]<typename X>(int64_t i) { Put(out + i, Exp(Get<X>(in + i))); });
}

// --- Layer norm ------------------------------------------------------------

template <typename T>
void NormForward(T* out, T* mean, T* rstd, const T* in, const T* gain,
                 const T* bias, int64_t rows, int64_t width) {
  constexpr T kEpsilon = T(1e-5);
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = in + r * width;
    T* y = out + r * width;
    const T m =
        Sum<T>(width, [&]<typename X>(int64_t i) { return Get<X>(x + i); }) /
        width;
    const T variance = Sum<T>(width,
                              [&]<typename X>(int64_t i) {
                                const X d = Get<X>(x + i) - m;
                                return X(d * d);
                              }) /
                       width;
    T s;
    if constexpr (sizeof(T) == sizeof(float)) {
      s = 1 / __builtin_sqrtf(variance + kEpsilon);
    } else {
      s = 1 / __builtin_sqrt(variance + kEpsilon);
    }
    Each<T>(0, width, [&]<typename X>(int64_t i) {
      Put(y + i,
          X((Get<X>(x + i) - m) * s * Get<X>(gain + i) + Get<X>(bias + i)));
    });
    mean[r] = m;
    rstd[r] = s;
  }
}

// With n the normalized input and g = dy * gain: dx = s (g - mean(g) - n mean(g
// n)).
template <typename T>
void NormBackward(T* din, const T* dout, const T* in, const T* gain,
                  const T* mean, const T* rstd, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = in + r * width;
    const T* dy = dout + r * width;
    T* dx = din + r * width;
    const T m = mean[r];
    const T s = rstd[r];
    const T g_mean = Sum<T>(width,
                            [&]<typename X>(int64_t i) {
                              return X(Get<X>(dy + i) * Get<X>(gain + i));
                            }) /
                     width;
    const T gn_mean = Sum<T>(width,
                             [&]<typename X>(int64_t i) {
                               return X(Get<X>(dy + i) * Get<X>(gain + i) *
                                        ((Get<X>(x + i) - m) * s));
                             }) /
                      width;
    Each<T>(0, width, [&]<typename X>(int64_t i) {
      const X n = (Get<X>(x + i) - m) * s;
      const X g = Get<X>(dy + i) * Get<X>(gain + i);
      Put(dx + i, X(Get<X>(dx + i) + s * (g - g_mean - n * gn_mean)));
    });
  }
}

template <typename T>
void NormBackwardWeights(T* dgain, T* dbias, const T* dout, const T* in,
                         const T* mean, const T* rstd, int64_t rows,
                         int64_t width, int64_t begin, int64_t end) {
  Each<T>(begin, end, [&]<typename X>(int64_t i) {
    X gain = Get<X>(dgain + i);
    X bias = Get<X>(dbias + i);
    for (int64_t r = 0; r < rows; ++r) {
      const X dy = Get<X>(dout + r * width + i);
      gain += dy * ((Get<X>(in + r * width + i) - mean[r]) * rstd[r]);
      bias += dy;
    }
    Put(dgain + i, gain);
    Put(dbias + i, bias);
  });
}

// --- Rows around matrix products -------------------------------------------

template <typename T>
void FillRows(T* out, const T* bias, const T* more, int64_t rows,
              int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    T* y = out + r * width;
    if (more == nullptr) {
      __builtin_memcpy(y, bias, width * sizeof(T));
      continue;
    }
    const T* x = more + r * width;
    Each<T>(0, width, [&]<typename X>(int64_t i) {
      Put(y + i, X(Get<X>(x + i) + Get<X>(bias + i)));
    });
  }
}

template <typename T>
void AddRows(T* sums, const T* in, int64_t rows, int64_t width, int64_t begin,
             int64_t end) {
  Each<T>(begin, end, [&]<typename X>(int64_t i) {
    X sum = Get<X>(sums + i);
    for (int64_t r = 0; r < rows; ++r) sum += Get<X>(in + r * width + i);
    Put(sums + i, sum);
  });
}

// --- GELU ------------------------------------------------------------------

template <typename T>
constexpr T kGeluScale = T(0.79788456080286535588);  // sqrt(2 / pi)
template <typename T>
constexpr T kGeluCubic = T(0.044715);

template <typename T>
void GeluForward(T* out, T* tanhs, const T* in, int64_t count) {
  // From here on, tanh is 1 to the last bit, and the exponential stays finite.
  constexpr T kMax = T(20);
  Each<T>(0, count, [&]<typename X>(int64_t i) {
    const X x = Get<X>(in + i);
    X u = kGeluScale<T> * (x + kGeluCubic<T> * x * x * x);
    u = Larger(u, X(-kMax - X{}));
    u = -Larger(X(-u), X(-kMax - X{}));
    const X e = Exp(X(u + u));
    const X t = (e - T(1)) / (e + T(1));
    Put(tanhs + i, t);
    Put(out + i, X(T(0.5) * x * (T(1) + t)));
  });
}

template <typename T>
void GeluBackward(T* d, const T* in, const T* tanhs, int64_t count) {
  Each<T>(0, count, [&]<typename X>(int64_t i) {
    const X x = Get<X>(in + i);
    const X t = Get<X>(tanhs + i);
    const X du = kGeluScale<T> * (T(1) + 3 * kGeluCubic<T> * x * x);
    Put(d + i, X(Get<X>(d + i) *
                 (T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * du)));
  });
}

// --- Softmax ---------------------------------------------------------------

template <typename T>
inline T Largest(const T* row, int64_t count) {
  return Reduce(
      count, row[0], [&]<typename X>(int64_t i) { return Get<X>(row + i); },
      [](const auto& a, const auto& b) { return Larger(a, b); });
}

// In place: value becomes exp(value - max). Returns the sum.
template <typename T>
inline T ExponentialsFrom(T* row, T max, int64_t count) {
  return Sum<T>(count, [&]<typename X>(int64_t i) {
    const X e = Exp(X(Get<X>(row + i) - max));
    Put(row + i, e);
    return e;
  });
}

template <typename T>
inline void Multiply(T* row, T factor, int64_t count) {
  Each<T>(0, count, [&]<typename X>(int64_t i) {
    Put(row + i, X(Get<X>(row + i) * factor));
  });
}

template <typename T>
inline void Clear(T* row, int64_t begin, int64_t end) {
  __builtin_memset(row + begin, 0, (end - begin) * sizeof(T));
}

template <typename T>
void Softmax(T* row, int64_t count, int64_t width) {
  const T sum = ExponentialsFrom(row, Largest(row, count), count);
  Multiply(row, 1 / sum, count);
  Clear(row, count, width);
}

template <typename T>
void SoftmaxBackward(T* d, const T* weights, int64_t count, int64_t width) {
  const T dot = Sum<T>(count, [&]<typename X>(int64_t i) {
    return X(Get<X>(d + i) * Get<X>(weights + i));
  });
  Each<T>(0, count, [&]<typename X>(int64_t i) {
    Put(d + i, X(Get<X>(weights + i) * (Get<X>(d + i) - dot)));
  });
  Clear(d, count, width);
}

template <typename T>
double CrossEntropyRow(T* row, uint16_t target, T scale, int64_t vocabulary) {
  const T max = Largest(row, vocabulary);
  const T wanted = row[target];
  const T sum = ExponentialsFrom(row, max, vocabulary);
  Multiply(row, scale / sum, vocabulary);
  row[target] -= scale;
  return __builtin_log(double(sum)) + max - wanted;
}

// --- AdamW -----------------------------------------------------------------

template <typename T>
double Squares(const T* values, int64_t count) {
  double sum = 0;
  // The sum is made in pieces, each of which is first converted to double.
  constexpr int64_t kPiece = int64_t{16} * kLanes;
  for (int64_t from = 0; from < count; from += kPiece) {
    double wide[kPiece];
    const int64_t size = count - from < kPiece ? count - from : kPiece;
    for (int64_t i = 0; i < size; ++i) wide[i] = values[from + i];
    sum += Sum<double>(size, [&]<typename X>(int64_t i) {
      const X x = Get<X>(wide + i);
      return X(x * x);
    });
  }
  return sum;
}

void AdamWStep(float* weights, float* first, float* second,
               const float* gradients, int64_t count,
               const AdamWFactors& factors) {
  const AdamWFactors f = factors;
  // A plain loop, because the compiler vectorizes square roots and our vector
  // type has none.
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradients[i] * f.shrink;
    first[i] = f.beta1 * first[i] + (1 - f.beta1) * g;
    second[i] = f.beta2 * second[i] + (1 - f.beta2) * g * g;
    const float step =
        first[i] * f.bias1 / (__builtin_sqrtf(second[i] * f.bias2) + f.epsilon);
    weights[i] = weights[i] * f.keep - f.learning_rate * step;
  }
}

template <typename T>
constexpr Loops<T> kLoops = {
    NormForward<T>,     NormBackward<T>,    NormBackwardWeights<T>, FillRows<T>,
    AddRows<T>,         GeluForward<T>,     GeluBackward<T>,        Softmax<T>,
    SoftmaxBackward<T>, CrossEntropyRow<T>, Exponentials<T>,        Squares<T>,
};

}  // namespace

// Declared in loops.cc.
extern const Loops<float>* const ROLLCALL_LOOPS(kFloat);
extern const Loops<double>* const ROLLCALL_LOOPS(kDouble);
extern const AdamWLoop ROLLCALL_LOOPS(kAdamW);
const Loops<float>* const ROLLCALL_LOOPS(kFloat) = &kLoops<float>;
const Loops<double>* const ROLLCALL_LOOPS(kDouble) = &kLoops<double>;
const AdamWLoop ROLLCALL_LOOPS(kAdamW) = AdamWStep;

}  // namespace rollcall
