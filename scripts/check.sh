#!/bin/bash
# check.sh: the checks that a reviewer should not have to do by hand.
#
# Format (clang-format 14) of all our code; clang's warnings, its thread-safety
# analysis and clang-tidy over the shipped code, with each finding an error; the
# unit tests and stories under the thread sanitizer. Changes nothing.
#
#   check.sh verify-format   checks only the format
#   check.sh format          reformats the code
set -eu
cd "$(dirname "$0")/.."

sources() {
  find daemon client trainer tests \( -name '*.cc' -o -name '*.h' \) -print0
}

if [ "${1:-}" = format ]; then
  sources | xargs -0 clang-format-14 -i
  exit 0
fi
scripts/packages.sh check
echo "--- format"
sources | xargs -0 clang-format-14 --dry-run -Werror
[ "${1:-}" != verify-format ] || exit 0
scripts/build.sh tidy
scripts/build.sh tsan unit_tests
echo "--- tests: tsan"
ctest --preset tsan -j "$(nproc)" -LE "e2e|fuzz" --output-on-failure
