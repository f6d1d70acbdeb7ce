#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing: setup.sh [test|dev|arm64]. "test" adds what sanitizers and fuzzing need,
# "dev" what linting needs, too, "arm64" what compiling for 64-bit Arm and running the result here needs.
# Silent and instant when there is nothing to do.
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config libfmt-dev nlohmann-json3-dev libcli11-dev libhwy-dev liburing-dev
  libxxhash-dev libgtest-dev libgmock-dev zlib1g-dev)
case "${1:-}" in
  dev) packages+=(clang-14 libclang-rt-14-dev clang-tidy-14 clang-format-14) ;;
  test) packages+=(clang-14 libclang-rt-14-dev) ;;
  arm64) packages=(g++-aarch64-linux-gnu cmake ninja-build pkg-config qemu-user) ;;
esac

if ! command -v dpkg-query > /dev/null; then
  echo "setup: not a Debian system; please install the counterparts of: ${packages[*]}" >&2
  for tool in cmake ninja pkg-config; do
    command -v "$tool" > /dev/null || exit 1
  done
  exit 0
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2> /dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "installed $package" <<< "$installed" || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo > /dev/null; then
    echo "setup: as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" < /dev/null
}

echo "setup: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists may be fresh enough, absent or stale: fetch them only when the first try fails.
if ! apt_get install -y --no-install-recommends "${missing[@]}" > "$log" 2>&1; then
  if ! { apt_get update && apt_get install -y --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "setup: could not install ${missing[*]}; is this machine offline? See the lines above." >&2
    exit 1
  fi
fi
