// LocalExchange: the exchange between ranks that are threads of one process.
#ifndef ROLLCALL_TESTS_UNIT_TRAINER_LOCAL_EXCHANGE_H_
#define ROLLCALL_TESTS_UNIT_TRAINER_LOCAL_EXCHANGE_H_

#include <map>
#include <string>
#include <vector>

#include "daemon/base/mutex.h"
#include "trainer/collective/blob_exchange.h"

namespace rollcall {

class LocalExchange {
 public:
  explicit LocalExchange(size_t ranks) : ranks_(ranks) {}

  // The function that `rank` calls. This object must outlive it.
  Exchange For(int rank) {
    return [this, rank](const std::string& key, const std::string& value) {
      return Give(rank, key, value);
    };
  }

 private:
  absl::StatusOr<std::vector<std::string>> Give(int rank,
                                                const std::string& key,
                                                const std::string& value) {
    MutexLock lock(mutex_);
    auto& given = exchanges_[key];
    given[rank] = value;
    changed_.NotifyAll();
    while (given.size() < ranks_) changed_.Wait(mutex_);
    std::vector<std::string> values;
    for (const auto& [from, what] : given) values.push_back(what);
    return values;
  }

  const size_t ranks_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::map<int, std::string>> exchanges_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_TRAINER_LOCAL_EXCHANGE_H_
