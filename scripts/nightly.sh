#!/bin/bash
# nightly.sh [--fresh|--failed] [STEP...]: all checks that take long, one step
# after the other. Continues after a failure and prints a table at the end; exit
# status 1 if a step failed.
#
# It can be stopped at any time: started again on the same commit, it continues
# with the first step that has not ended. A step's log and result are in
# build/nightly/COMMIT.
#
#   nightly.sh --failed   also repeats the steps that failed
#   nightly.sh --fresh    forgets all results of this commit
#   nightly.sh STEP...    runs only these steps, even if they have results
#   nightly.sh --list     prints the steps
#
# A step that takes longer than six hours is ended and counts as failed.
set -u -o pipefail
cd "$(dirname "$0")/.."

# Fuzzing: ten minutes per target, two targets at a time. Simulation: a million
# runs in four parts, with other seeds for each commit.
steps=(packages format test dev pointers tsan tidy fuzz1 fuzz2 fuzz3 fuzz4 fuzz5 fuzz6
       soak1 soak2 soak3 soak4 faults benches churn kills repeat torch pytorch
       programs slurm page rdma_vm quickstart bookworm wheel trixie trixie_quickstart)
jobs=$(nproc)

# Simulates 250,000 seeds. The first seed is chosen once per commit.
soak() {
  local first
  [ -e "$state/first_seed" ] || echo $((10000000 + RANDOM * 1000000)) \
    >"$state/first_seed"
  first=$(($(cat "$state/first_seed") + ($1 - 1) * 250000))
  scripts/soak.sh 250000 "$first" && scripts/soak.sh 5000 "$first" --group
}

# e2e TEST: runs one end-to-end module or test, on the release binaries and with
# its own seed. A skipped test counts as failed, because an earlier step
# installed what it needs.
e2e() {
  local seed=$RANDOM
  echo "nightly.sh: ROLLCALL_TEST_SEED=$seed"
  (cd tests/e2e && ROLLCALL_BIN=../../build/release/bin ROLLCALL_TEST_S=3600 \
    ROLLCALL_TEST_SEED=$seed ROLLCALL_TEST_NO_SKIPS=1 \
    /usr/bin/python3 -B run_one.py "$1")
}

# Runs some benchmarks, with few nodes or runs, to see that they still work.
# Their figures mean nothing here.
benches() {
  local bin=build/release/bin
  scripts/build.sh release && $bin/loss 8 1 && $bin/formation 8 16 &&
    python3 -B tests/bench/launch/nccl_id.py 1 && $bin/plan && $bin/web 64
}

fresh_quickstart() {
  local clone status=0
  clone=$(mktemp -d)
  # Expand $clone now: when the trap runs, the function's variable no longer
  # exists.
  # shellcheck disable=SC2064
  trap "rm -rf '$clone'" EXIT
  trap 'exit 1' TERM
  git clone -q . "$clone/rollcall" &&
    CCACHE_DISABLE=1 bash -c 'time "$1"/rollcall/scripts/quickstart.sh' - \
      "$clone" || status=$?
  return $status
}

# Runs one step. The caller stores the output in the step's log.
do_step() {
  case $1 in
    packages) scripts/packages.sh check ;;
    format) scripts/check.sh verify-format ;;
    test) scripts/test.sh ;;
    dev) scripts/build.sh dev && ctest --preset dev -j "$jobs" -LE e2e ;;
    pointers) scripts/build.sh pointers unit_tests &&
      ctest --preset pointers -j "$jobs" -LE 'e2e|fuzz' ;;
    tsan) scripts/build.sh tsan unit_tests &&
      ctest --preset tsan -j "$jobs" -LE 'e2e|fuzz' ;;
    tidy) scripts/build.sh tidy ;;
    fuzz1) scripts/fuzz.sh 600 agent checkpoint ;;
    fuzz2) scripts/fuzz.sh 600 config flags hosts ;;
    fuzz3) scripts/fuzz.sh 600 job join ;;
    fuzz4) scripts/fuzz.sh 600 restore secrets ;;
    fuzz5) scripts/fuzz.sh 600 probe texts ;;
    fuzz6) scripts/fuzz.sh 600 frames store ;;
    soak[1-4]) soak "${1#soak}" ;;
    faults) tests/sim/faults.py ;;
    benches) benches ;;
    churn) ROLLCALL_CHURN_S=600 e2e churn_test ;;
    kills) for _ in 1 2 3; do e2e kills_test || return 1; done ;;
    repeat) scripts/repeat.sh 5 1 ;;
    torch) scripts/packages.sh torch &&
      e2e checkpoint_torch_test.InTransformers.test_loads_a_checkpoint &&
      e2e rank_frameworks_test.InTransformers ;;
    pytorch) scripts/packages.sh pytorch && (
        export ROLLCALL_ELASTIC_KILLS=54 ROLLCALL_ELASTIC_NODES=8
        e2e rank_elastic_test.Elastic) &&
      e2e elastic_parts_test.CurrentTorch &&
      e2e rank_notice_test && e2e frameworks_test && e2e pytorch_test.ElasticGpt && (
        export ROLLCALL_TEST_TORCH_PYTHON=${ROLLCALL_PYTORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/rollcall/pytorch}/bin/python3
        e2e rank_torch_test && ROLLCALL_TEST_PROGRAMS=1 e2e torchrun_test) ;;
    programs) scripts/packages.sh programs &&
      e2e programs_test.Jax && e2e programs_test.DeepSpeed &&
      ROLLCALL_TEST_PROGRAMS=1 e2e programs_test.OpenMpi &&
      ROLLCALL_TEST_PROGRAMS=1 e2e programs_test.TorchrunPerNode &&
      e2e specs_test.Schemas && e2e podman_test ;;
    slurm) ROLLCALL_TEST_SLURM=1 e2e slurm_test ;;
    page) scripts/packages.sh pictures && scripts/screenshots.sh &&
      e2e web_page_test.Page.test_the_page_names_who_is_waited_for ;;
    rdma_vm) scripts/packages.sh rdma_vm && e2e rdma_vm_test ;;
    quickstart) fresh_quickstart ;;
    bookworm) scripts/bare_root.sh bookworm run ;;
    wheel) scripts/bare_root.sh bookworm wheel ;;
    trixie) scripts/bare_root.sh trixie run ;;
    trixie_quickstart) scripts/bare_root.sh trixie quickstart ;;
    *) echo "nightly.sh: no step '$1'; there are ${steps[*]}" >&2; return 2 ;;
  esac
}

commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] ||
  commit+=-$(git diff HEAD | sha1sum | cut -c1-8)
state=build/nightly/$commit
wanted=() again=
for word in "$@"; do
  case $word in
    --list) printf '%s\n' "${steps[@]}"; exit 0 ;;
    --fresh) rm -rf "$state" ;;
    --failed) again=1 ;;
    *) [[ " ${steps[*]} " = *" $word "* ]] || { do_step "$word"; exit 2; }
       wanted+=("$word") ;;
  esac
done
mkdir -p "$state"
[ ${#wanted[@]} = 0 ] || for step in "${wanted[@]}"; do
  rm -f "$state/$step.result"
done
[ ${#wanted[@]} != 0 ] || wanted=("${steps[@]}")

# A result is `STATUS SECONDS`; a step without one has not ended.
table() {
  local step status seconds failed=0
  echo
  printf '%-18s %-8s %8s  %s\n' step result seconds "log below $state"
  for step in "${wanted[@]}"; do
    status=- seconds=-
    read -r status seconds 2>/dev/null <"$state/$step.result"
    case $status in
      -) printf '%-18s %-8s %8s\n' "$step" "not run" - ; failed=1 ;;
      0) printf '%-18s %-8s %8s\n' "$step" good "$seconds" ;;
      *) printf '%-18s %-8s %8s  %s.log, exit status %s\n' "$step" FAILED \
           "$seconds" "$step" "$status"
         failed=1 ;;
    esac
  done
  return $failed
}
# With job control each step has its own process group, so that all its
# processes can be ended.
set -m
running= limit=
stop() {
  [ -z "$limit" ] || kill -- "-$limit" 2>/dev/null
  [ -z "$running" ] || { kill -- "-$running" 2>/dev/null; wait "$running"; }
  table
  echo "nightly.sh: stopped; start it again to continue"
  exit 130
}
trap stop INT TERM

for step in "${wanted[@]}"; do
  status=
  [ ! -e "$state/$step.result" ] ||
    read -r status _ <"$state/$step.result"
  [ -z "$status" ] || { [ "$status" != 0 ] && [ -n "$again" ]; } || continue
  echo "nightly.sh: $step, at $(date +%H:%M:%S)"
  began=$SECONDS
  # The step runs in the background, so that the trap runs at once on a signal.
  (do_step "$step") >"$state/$step.log" 2>&1 </dev/null &
  running=$!
  (sleep 21600; kill -- "-$running") 2>/dev/null &
  limit=$!
  wait "$running"
  echo "$? $((SECONDS - began))" >"$state/$step.result"
  running=
  kill -- "-$limit"
  # Hides the shell's message that the job was terminated.
  wait "$limit" 2>/dev/null
done
table
