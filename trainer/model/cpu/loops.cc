#include "trainer/model/cpu/loops.h"

namespace rollcall {

// Each is defined in one of the files loops_*.cc. They are constants, so the
// order of initialization does not matter.
extern const Loops<float>* const kFloatPlain;
extern const Loops<double>* const kDoublePlain;
extern const AdamWLoop kAdamWPlain;
#ifdef __x86_64__
extern const Loops<float>* const kFloatAvx2;
extern const Loops<double>* const kDoubleAvx2;
extern const AdamWLoop kAdamWAvx2;
extern const Loops<float>* const kFloatAvx512;
extern const Loops<double>* const kDoubleAvx512;
extern const AdamWLoop kAdamWAvx512;
#endif

namespace {

// Whether this processor has the instruction set.
bool Has(int set) {
#ifdef __x86_64__
  if (set == 0) {
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq");
  }
  if (set == 1) return __builtin_cpu_supports("avx2");
#endif
  return set == kLoopSets - 1;
}

template <typename V>
V Of(int set, V avx512, V avx2, V plain) {
  if (set < 0 || set >= kLoopSets || !Has(set)) return nullptr;
  return set == 0 ? avx512 : set == 1 ? avx2 : plain;
}

int BestSet() {
  static const int best = [] {
    int set = 0;
    while (!Has(set)) ++set;
    return set;
  }();
  return best;
}

}  // namespace

#ifdef __x86_64__
template <>
const Loops<float>* LoopsOf(int set) {
  return Of(set, kFloatAvx512, kFloatAvx2, kFloatPlain);
}
template <>
const Loops<double>* LoopsOf(int set) {
  return Of(set, kDoubleAvx512, kDoubleAvx2, kDoublePlain);
}
AdamWLoop AdamWLoopOf(int set) {
  return Of(set, kAdamWAvx512, kAdamWAvx2, kAdamWPlain);
}
#else
template <>
const Loops<float>* LoopsOf(int set) {
  return Of(set, kFloatPlain, kFloatPlain, kFloatPlain);
}
template <>
const Loops<double>* LoopsOf(int set) {
  return Of(set, kDoublePlain, kDoublePlain, kDoublePlain);
}
AdamWLoop AdamWLoopOf(int set) {
  return Of(set, kAdamWPlain, kAdamWPlain, kAdamWPlain);
}
#endif

template <>
const Loops<float>& LoopsHere() {
  return *LoopsOf<float>(BestSet());
}
template <>
const Loops<double>& LoopsHere() {
  return *LoopsOf<double>(BestSet());
}
AdamWLoop AdamWLoopHere() { return AdamWLoopOf(BestSet()); }

}  // namespace rollcall
