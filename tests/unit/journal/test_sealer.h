// TestSealer: the sealer of all values that a test's daemons keep in etcd.
#ifndef ROLLCALL_TESTS_UNIT_JOURNAL_TEST_SEALER_H_
#define ROLLCALL_TESTS_UNIT_JOURNAL_TEST_SEALER_H_

#include <string>

#include "daemon/security/secrets/shared_secret.h"
#include "daemon/security/secrets/value_sealer.h"

namespace rollcall {

inline SharedSecret TestSealingKey() {
  return *SharedSecret::Parse(std::string(64, '7'));
}
inline ValueSealer TestSealer() { return ValueSealer(TestSealingKey()); }

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_JOURNAL_TEST_SEALER_H_
