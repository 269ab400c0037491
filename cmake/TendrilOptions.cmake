# Options for every target of the project. None of them reaches a consumer: FetchContent stays silent.

# include/tendril/ contains a link to each library's folder, so that #include lines are the same once installed.
set(TENDRIL_INCLUDE_DIR "${PROJECT_SOURCE_DIR}/include")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  elseif(NOT TENDRIL_INSTALL)  # of Tendril's libraries alone; install() would not find their targets
    set(CMAKE_BUILD_TYPE Release)
    message(STATUS "tendril: no CMAKE_BUILD_TYPE; its libraries are built as Release")
  endif()
endif()

find_program(TENDRIL_MOLD mold)
mark_as_advanced(TENDRIL_MOLD)
if(TENDRIL_LINKER STREQUAL "AUTO" AND TENDRIL_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(TENDRIL_LINKER AND NOT TENDRIL_LINKER STREQUAL "AUTO")
  add_link_options(-fuse-ld=${TENDRIL_LINKER})
endif()
# ccache caches sources with precompiled headers only if CCACHE_SLOPPINESS allows it. With CCACHE_DEPEND it gets a
# source's dependencies from the compiler instead of running the preprocessor first.
if(TENDRIL_CCACHE)
  find_program(TENDRIL_CCACHE_PROGRAM ccache)
  mark_as_advanced(TENDRIL_CCACHE_PROGRAM)
  if(TENDRIL_CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros
      "${TENDRIL_CCACHE_PROGRAM}")
  endif()
endif()
# Don't relink the dependents of a shared library when only its code has changed.
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)

add_library(tendril_options INTERFACE)
target_compile_features(tendril_options INTERFACE cxx_std_20)
target_compile_options(tendril_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:-Wno-unknown-pragmas>  # Clang has no ivdep
  $<$<AND:$<BOOL:${TENDRIL_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)
if(TENDRIL_SANITIZE)
  # GCC's own manual: sanitizers give false warnings of this kind. What is really uninitialised, they find themselves.
  target_compile_options(tendril_options INTERFACE
    -fsanitize=${TENDRIL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -Wno-maybe-uninitialized)
  target_link_options(tendril_options INTERFACE -fsanitize=${TENDRIL_SANITIZE})
  if(TENDRIL_SANITIZE MATCHES "address,undefined")
    # Checks that compile slowly: pointer-overflow alone takes a tenth of a source's time. The address sanitizer also
    # finds accesses through null pointers and beyond an object.
    target_compile_options(tendril_options INTERFACE -fno-sanitize=null,vptr,object-size,pointer-overflow)
  endif()
  if(TENDRIL_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Checks accesses in a function instead of inline, which compiles a fifth faster. The kernels check inline
    # (tensor/CMakeLists.txt).
    target_compile_options(tendril_options INTERFACE "SHELL:--param asan-instrumentation-with-call-threshold=0")
  endif()
  if(TENDRIL_SANITIZE MATCHES "thread")
    # ThreadSanitizer knows no fences, and the compiler says so. Asio's own mutexes order what matters.
    target_compile_definitions(tendril_options INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

# Tests, benchmarks and fuzzers reach for what programs may not see: beside them shared libraries show everything.
set(TENDRIL_EXPORT_ALL OFF)
if(BUILD_SHARED_LIBS AND (TENDRIL_TESTS OR TENDRIL_BENCH OR TENDRIL_FUZZ))
  set(TENDRIL_EXPORT_ALL ON)
endif()

find_package(Threads REQUIRED)

# Half of the time that the libraries' sources take is the same headers and templates over and over: in batches it is spent once. A
# change to one source then compiles its batch.
option(TENDRIL_UNITY "Compile sources of libraries and tests in batches" OFF)

# Headers that nearly every source reads are parsed once. What a library's source forgets to include may hide behind them: builds
# with the address sanitizer do without.
option(TENDRIL_PCH "Precompile the standard library's and Boost's headers" ${PROJECT_IS_TOP_LEVEL})
set(TENDRIL_PCH_HEADERS "")
if(TENDRIL_PCH)
  set(TENDRIL_PCH_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <functional> <map> <memory> <mutex> <optional>
    <sstream> <string> <unordered_map> <utility> <vector>)
endif()
