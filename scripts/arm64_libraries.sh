#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the libraries for 64-bit Arm into a folder: arm64_libraries.sh FOLDER. They are Debian's packages, checked by
# apt, but not installed: the machine's own list of architectures and packages stays as it is, and no root is needed.
# Silent and instant when the folder is complete.
set -euo pipefail

packages=(libfmt-dev libfmt9 libhwy-dev libhwy1 liburing-dev liburing2 libxxhash-dev libxxhash0 libgtest-dev
  libgmock-dev zlib1g-dev zlib1g nlohmann-json3-dev libcli11-dev)
folder=$1
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[[ "$(cat "$folder/packages" 2> /dev/null)" == "${packages[*]}" ]] && exit 0

if ! command -v apt-get dpkg-deb > /dev/null; then
  echo "arm64_libraries: not a Debian system; please unpack the arm64 counterparts of ${packages[*]} into $folder" >&2
  exit 1
fi

# A view of the same archive in which the machine is an Arm one without a package.
apt=$folder/apt
mkdir -p "$apt/lists/partial" "$apt/cache" "$apt/packages"
: > "$apt/status"
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$apt"
  -o "Dir::State::lists=$apt/lists"
  -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=$(id -un)"
  -o Acquire::Languages=none)

echo "arm64_libraries: fetching ${packages[*]}" >&2
cd "$apt/packages"
if ! { apt-get "${options[@]}" update && apt-get "${options[@]}" download "${packages[@]}"; } > "$apt/log" 2>&1; then
  tail -n 5 "$apt/log" >&2
  echo "arm64_libraries: could not fetch ${packages[*]}; is this machine offline? See the lines above." >&2
  exit 1
fi
for package in ./*.deb; do
  dpkg-deb -x "$package" "$folder"
done
rm -rf "$apt"
echo "${packages[*]}" > "$folder/packages"
