#!/bin/bash
# check.sh: what a reviewer should not have to look for.
#
# Format (clang-format 14), clang's analysis and clang-tidy over all our code
# with warnings as errors, and the unit tests and stories under the thread
# sanitizer. Changes nothing; `scripts/check.sh format` reformats.
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
scripts/build.sh tidy
scripts/build.sh tsan
echo "--- tests: tsan"
ctest --preset tsan -j "$(nproc)" -LE e2e --output-on-failure
