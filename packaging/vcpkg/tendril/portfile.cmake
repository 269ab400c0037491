# An overlay port of this checkout: vcpkg install tendril --overlay-ports=packaging/vcpkg
# oneDNN is not among vcpkg's ports under a name that we look for; without it, kernels of our own run.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DTENDRIL_TESTS=OFF -DTENDRIL_EXAMPLES=OFF -DTENDRIL_CUDA=OFF -DTENDRIL_ONEDNN=OFF -DTENDRIL_INSTALL=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/tendril)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
