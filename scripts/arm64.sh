#!/usr/bin/env bash
# Builds for arm64 with Debian's cross compiler and runs the suites of tensor, autograd, nn, data and envs in QEMU:
#   scripts/arm64.sh [CTest arguments]
# rpc and dist are excluded: at the emulator's speed, most of their deadlines expire.
source "$(dirname "$0")/lib.sh"
# QEMU does not enforce memory limits and cannot start other arm64 programs; the last two tests need this machine's
# Python.
not_here='out_of_memory|memory_limit|memory_blocks|signals|nn/checkpoint|pytorch_gives|tensorboard_reads'
[ $# -gt 0 ] || set -- -R '^(tensor|autograd|nn|data|envs)/' -E "$not_here"
dpkg --print-foreign-architectures | grep -qx arm64 || as_root dpkg --add-architecture arm64
boost=
! grep -q 'VERSION_ID="12"' /etc/os-release || boost=1.81
install_packages crossbuild-essential-arm64 qemu-user-static
install_packages "libboost$boost-dev:arm64" "libboost-test$boost-dev:arm64" "libboost-context$boost-dev:arm64" \
  "libboost-json$boost-dev:arm64" zlib1g-dev:arm64 libssl-dev:arm64 libpng-dev:arm64 libjpeg-dev:arm64 libspdlog-dev:arm64
# Otherwise pkg-config finds the libraries of this machine.
export PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig
export TENDRIL_PRESET=arm64
exec ./scripts/test.sh "$@"
