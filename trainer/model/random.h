// Random: numbers that are the same on every machine for the same seed
// (splitmix64: a counter through a mixing function). Not for secrets.
#ifndef ROLLCALL_TRAINER_MODEL_RANDOM_H_
#define ROLLCALL_TRAINER_MODEL_RANDOM_H_

#include <cstdint>

namespace rollcall {

// A bijection on 64 bits. Each input bit changes about half of the output bits.
inline uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15u); }

 private:
  uint64_t state_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_RANDOM_H_
