# Install rules: static or shared libraries, headers under include/tendril/, a CMake package for find_package(tendril).
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY TENDRIL_LIBRARIES)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tendril")

foreach(library IN LISTS libraries)
  install(TARGETS tendril_${library} EXPORT tendrilTargets)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${library}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tendril/${library}"
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
endforeach()
install(TARGETS tendril EXPORT tendrilTargets)
install(FILES "${TENDRIL_INCLUDE_DIR}/tendril/tendril.h" "${TENDRIL_INCLUDE_DIR}/tendril/version.h"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tendril")

install(EXPORT tendrilTargets NAMESPACE tendril:: DESTINATION "${package_dir}")
if(TENDRIL_HAS_CUDA)
  cmake_path(GET CUDAToolkit_BIN_DIR PARENT_PATH TENDRIL_CUDA_ROOT)
  if(TENDRIL_HAS_CUDNN)
    cmake_path(GET CUDNN_INCLUDE_DIR PARENT_PATH TENDRIL_CUDNN_ROOT)
  endif()
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/tendrilConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/tendrilConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tendrilConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_SOURCE_DIR}/cmake/FindOneDNN.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindCUDNN.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindTendrilCudaLibraries.cmake" "${PROJECT_BINARY_DIR}/tendrilConfig.cmake"
  "${PROJECT_BINARY_DIR}/tendrilConfigVersion.cmake"
  DESTINATION "${package_dir}")
