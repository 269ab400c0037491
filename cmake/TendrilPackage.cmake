# Packages of distributions, from a finished build: cpack -G DEB (or RPM) --config <build>/CPackConfig.cmake
# One package holds libraries, headers, the CMake package and tendril.pc. What its users compile and link with is named
# as a dependency, in the names and versions of the machine that builds it.
set(CPACK_PACKAGE_NAME libtendril-dev)
set(CPACK_PACKAGE_VENDOR "The Tendril authors")
set(CPACK_PACKAGE_CONTACT "The Tendril authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "A tensor and autograd library with neural-network layers and an RPC of its own, over which
gradients flow between processes. Libraries, headers, and what CMake and pkg-config need to find them.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ${BUILD_SHARED_LIBS})

find_package(Boost 1.81 CONFIG QUIET REQUIRED COMPONENTS json)
set(boost libboost${Boost_VERSION_MAJOR}.${Boost_VERSION_MINOR}-dev)
string(REPLACE "libboost" "libboost-json" boost_json ${boost})
string(REPLACE "libboost" "libboost-context" CPACK_DEBIAN_PACKAGE_SUGGESTS ${boost})  # for tendril::simulation
set(debian ${boost} ${boost_json} libssl-dev)
set(fedora boost-devel openssl-devel)
foreach(library "ZLIB:zlib1g-dev:zlib-devel" "PNG:libpng-dev:libpng-devel" "JPEG:libjpeg-dev:libjpeg-turbo-devel"
    "ONEDNN:libdnnl-dev:onednn-devel")
  string(REPLACE ":" ";" library ${library})
  list(GET library 0 name)
  if(TENDRIL_HAS_${name})
    list(GET library 1 package)
    list(APPEND debian ${package})
    list(GET library 2 package)
    list(APPEND fedora ${package})
  endif()
endforeach()
list(JOIN debian ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
list(JOIN fedora ", " CPACK_RPM_PACKAGE_REQUIRES)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ${BUILD_SHARED_LIBS})
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_NAME tendril-devel)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
# Folders that a distribution's own packages own.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib/cmake /usr/lib64/cmake /usr/lib/pkgconfig /usr/lib64/pkgconfig)
include(CPack)
