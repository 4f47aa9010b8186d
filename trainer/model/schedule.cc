#include "trainer/model/schedule.h"

#include <algorithm>

namespace rollcall {
namespace {

// The cosine for x from 0 to pi, by the Taylor series, because the cosines of
// libraries differ in the last bit.
double Cosine(double x) {
  double term = 1;
  double sum = 1;
  for (int i = 1; i <= 24; i += 2) {
    term *= -x * x / (i * (i + 1));
    sum += term;
  }
  return sum;
}

}  // namespace

const char* NameOf(Schedule schedule) {
  switch (schedule) {
    case Schedule::kCosine:
      return "cosine";
    case Schedule::kLinear:
      return "linear";
    case Schedule::kConstant:
      return "constant";
  }
  return "";
}

float LearningRates::At(int64_t step) const {
  if (step <= warmup) return peak * static_cast<float>(step) / warmup;
  if (schedule == Schedule::kConstant) return peak;
  const double done =
      steps > warmup
          ? std::min(1.0, double(step - warmup) / double(steps - warmup))
          : 1.0;
  constexpr double kPi = 3.14159265358979323846;
  const double left =
      schedule == Schedule::kLinear ? 1 - done : 0.5 * (1 + Cosine(kPi * done));
  return static_cast<float>(last + (double{peak} - last) * left);
}

}  // namespace rollcall
