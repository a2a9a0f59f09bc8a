# shellcheck shell=bash
# Sourced by the scripts beside it: where the project is, and how one step is run, timed and
# reported. A step says nothing while it goes well; its output is shown when it fails.

export LC_ALL=C.UTF-8 # the decimal point of EPOCHREALTIME follows the locale
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$project"
jobs=$(nproc)

steps_failed=()
step_log=$(mktemp)
trap 'rm -f "$step_log"' EXIT

# Milliseconds since the epoch.
now_ms() {
    local us=${EPOCHREALTIME/./}
    echo $((us / 1000))
}

# seconds_since MS: the time since then, as "12.3 s".
seconds_since() {
    local ms=$(($(now_ms) - $1))
    printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
}

# step NAME COMMAND [ARG ...]: runs the command, which may be a function, in a subshell with
# `set -e` on. It always returns 0 and notes a failure in steps_failed: in `step ... || x` or
# `if step ...` bash would ignore `set -e` inside the command too.
step() {
    local name=$1 status=0 began
    shift
    began=$(now_ms)
    set +e
    (
        set -e
        "$@"
    ) >"$step_log" 2>&1 </dev/null
    status=$?
    set -e
    if [[ $status = 0 ]]; then
        printf 'ok      %8s  %s\n' "$(seconds_since "$began")" "$name"
        return
    fi
    printf 'FAILED  %8s  %s\n' "$(seconds_since "$began")" "$name"
    sed 's/^/    /' "$step_log"
    steps_failed+=("$name")
}

# The same, for steps that nothing can follow when they fail.
step_or_exit() {
    step "$@"
    [[ ${#steps_failed[@]} = 0 ]] || exit 1
}

# cmake_build PRESET [ARG ...]: configures where needed, then builds; the further arguments go
# to the build. ninja runs CMake again when a CMakeLists.txt has changed, but does not know
# the presets.
cmake_build() {
    local preset=$1
    shift
    if [[ ! build/$preset/build.ninja -nt CMakePresets.json ]]; then
        cmake --preset "$preset"
    fi
    cmake --build "build/$preset" --parallel "$jobs" "$@"
}
