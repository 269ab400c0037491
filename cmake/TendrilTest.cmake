# tendril_suites([LABELS labels...] [TIMEOUT seconds] [PROCESSORS n] [PARTS n] [LOCK resources...] [DEVICES cpu cuda]
#   SUITES names...)
#
# Configures suites of one folder, in tests/FOLDER/suites.cmake. Each name is a regular expression that matches whole
# suite names. Calls accumulate. By default a suite has the label FOLDER, a timeout of 120 s, one processor and the
# device cpu.
#   LABELS      additional CTest labels. smoke: a quick suite that scripts/test.sh --changed also runs after a change to
#               a folder that this one depends on. threads: uses the kernels' thread pool or starts threads; runs under
#               ThreadSanitizer and counts as two processors.
#   PROCESSORS  number of processors that the suite keeps busy; CTest runs fewer tests beside it.
#   PARTS       splits a suite that mostly waits into n CTest tests, FOLDER/NAME_1_of_n and so on, each with every n-th
#               test case.
#   LOCK        resources: suites that share one never run at the same time.
#   DEVICES     with cuda, the test FOLDER/NAME_on_cuda runs the suite with the first CUDA device as the default device,
#               if the build has the CUDA backend or its emulator. It is skipped if there is no device (tests/main.cpp).
function(tendril_suites)
  cmake_parse_arguments(ARG "" "TIMEOUT;PROCESSORS;PARTS" "LABELS;LOCK;DEVICES;SUITES" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SUITES)
    message(FATAL_ERROR "tendril_suites: got '${ARGN}', expected settings and SUITES")
  endif()
  foreach(pattern IN LISTS ARG_SUITES)
    set(matching ${suites})
    list(FILTER matching INCLUDE REGEX "^(${pattern})$")
    if(NOT matching)
      message(FATAL_ERROR "tendril_suites: SUITES: got '${pattern}', expected a suite of tests/${folder}")
    endif()
    foreach(suite IN LISTS matching)
      foreach(setting LABELS LOCK DEVICES)
        set(suite_${suite}_${setting} ${suite_${suite}_${setting}} ${ARG_${setting}} PARENT_SCOPE)
      endforeach()
      foreach(setting TIMEOUT PROCESSORS PARTS)
        if(DEFINED ARG_${setting})
          set(suite_${suite}_${setting} ${ARG_${setting}} PARENT_SCOPE)
        endif()
      endforeach()
    endforeach()
  endforeach()
endfunction()

# tendril_test_needs(TEST TARGETS...): declares the targets that scripts/test.sh builds before it runs TEST. For a test
# without a declaration it builds everything.
function(tendril_test_needs name)
  string(JOIN " " targets ${ARGN})
  set_property(GLOBAL APPEND PROPERTY TENDRIL_TEST_TARGETS "${name}\t${targets}\n")
endfunction()

# tendril_tests(FOLDER LIBRARIES...)
#
# Builds one executable for tests/FOLDER and adds one CTest test for each file in it. The file name_test.cpp contains
# the Boost.Test suite `name` and opens it before its own definitions: a suite is a namespace, and TENDRIL_UNITY
# compiles several files as one. tests/FOLDER/suites.cmake configures the suites. A suite that calls skip_suite
# (tests/skip.h) is reported as skipped. Sources in tests/FOLDER/samples are compiled once, as FOLDER_samples, which
# other programs also link (tests/mutants). Each tests/FOLDER/programs/name.cpp is a program that the tests start as
# TENDRIL_TEST_PROGRAMS "/name".
function(tendril_tests folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
  set(programs "")
  set(samples "")
  set(suites "")
  foreach(source IN LISTS sources)  # by the path inside the folder: the checkout may be below a folder called programs
    file(RELATIVE_PATH inside "${CMAKE_CURRENT_SOURCE_DIR}/${folder}" "${source}")
    if(inside MATCHES "(^|/)(programs|samples)/")
      list(APPEND ${CMAKE_MATCH_2} "${source}")
    elseif(inside MATCHES "([^/]*)_test\\.cpp$")
      list(APPEND suites ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(REMOVE_ITEM sources ${programs} ${samples})
  include("${CMAKE_CURRENT_SOURCE_DIR}/${folder}/suites.cmake" OPTIONAL)

  if(TENDRIL_SANITIZE MATCHES "thread" AND NOT folder MATCHES "^(rpc|dist)$")
    foreach(suite IN LISTS suites)
      if(NOT "threads" IN_LIST suite_${suite}_LABELS)
        list(REMOVE_ITEM suites ${suite})
        list(FILTER sources EXCLUDE REGEX "/${suite}_test\\.cpp$")
      endif()
    endforeach()
    if(NOT suites)
      return()
    endif()
  endif()
  set(target test_${folder})
  add_executable(${target} ${sources} "${PROJECT_SOURCE_DIR}/tests/main.cpp")
  target_link_libraries(${target} PRIVATE ${ARGN} tendril::tensor tendril_options)
  target_compile_definitions(${target} PRIVATE
    TENDRIL_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/${folder}/data"
    TENDRIL_TEST_PROGRAMS="${CMAKE_CURRENT_BINARY_DIR}/${folder}_programs")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  tendril_test_options(${target} ${folder})
  if(samples)
    add_library(${folder}_samples OBJECT ${samples})
    target_link_libraries(${folder}_samples PRIVATE ${ARGN} tendril_options)
    target_include_directories(${folder}_samples PRIVATE "${PROJECT_SOURCE_DIR}")
    tendril_test_options(${folder}_samples ${folder})
    set_target_properties(${folder}_samples PROPERTIES UNITY_BUILD ${TENDRIL_UNITY} UNITY_BUILD_BATCH_SIZE 14)
    target_link_libraries(${target} PRIVATE ${folder}_samples)
  endif()
  set(batched ${sources})
  list(FILTER batched INCLUDE REGEX "_test\\.cpp$")
  list(LENGTH batched count)
  if(TENDRIL_UNITY AND count GREATER 10 AND NOT folder STREQUAL "cuda")
    # Half the time: each test opens its suite, which is a namespace, before anything of its own.
    set(alone ${sources})
    list(REMOVE_ITEM alone ${batched})
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
  foreach(source IN LISTS programs)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(test_${folder}_${name} "${source}")
    target_link_libraries(test_${folder}_${name} PRIVATE ${ARGN} tendril_options)
    target_include_directories(test_${folder}_${name} PRIVATE "${PROJECT_SOURCE_DIR}")
    tendril_test_options(test_${folder}_${name} ${folder})
    set_target_properties(test_${folder}_${name} PROPERTIES
      OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/${folder}_programs")
    add_dependencies(${target} test_${folder}_${name})
  endforeach()

  foreach(suite IN LISTS suites)
    set(devices ${suite_${suite}_DEVICES})
    if(NOT devices)
      set(devices cpu)
    endif()
    foreach(device IN LISTS devices)
      if(device STREQUAL "cpu" AND suite_${suite}_PARTS)
        foreach(part RANGE 1 ${suite_${suite}_PARTS})
          tendril_suite_test(${folder}/${suite}_${part}_of_${suite_${suite}_PARTS}
            ENVIRONMENT TENDRIL_TEST_PART=${part}/${suite_${suite}_PARTS})
        endforeach()
      elseif(device STREQUAL "cpu")
        tendril_suite_test(${folder}/${suite})
      elseif(NOT device STREQUAL "cuda")
        message(FATAL_ERROR "tests/${folder}/suites.cmake: ${suite}: DEVICES: got '${device}', expected cpu or cuda")
      elseif(TENDRIL_HAS_CUDA)
        tendril_suite_test(${folder}/${suite}_on_cuda LABELS cuda ENVIRONMENT TENDRIL_TEST_DEVICE=cuda)
        # A suite with this label allocates all memory of a device, and other tests need some for each launch.
        if("alone" IN_LIST suite_${suite}_LABELS AND NOT TENDRIL_CUDA_EMULATOR)
          set_tests_properties(${folder}/${suite}_on_cuda PROPERTIES RUN_SERIAL ON)
        endif()
      endif()
    endforeach()
  endforeach()
endfunction()

# Adds one CTest test. Reads the variables of its caller, tendril_tests.
function(tendril_suite_test name)
  cmake_parse_arguments(ARG "" "" "LABELS;ENVIRONMENT" ${ARGN})
  set(timeout 120)
  if(DEFINED suite_${suite}_TIMEOUT)
    set(timeout ${suite_${suite}_TIMEOUT})
  endif()
  set(processors 1)
  if(DEFINED suite_${suite}_PROCESSORS)
    set(processors ${suite_${suite}_PROCESSORS})
  elseif("threads" IN_LIST suite_${suite}_LABELS)
    set(processors 2)
  endif()
  # The longest tests start first, so that none of them runs alone at the end. Those that need several processors start
  # before them: later, CTest would run them only after all others, because it fills each free processor at once.
  math(EXPR cost "${timeout} * ${processors} * ${processors}")
  if(TENDRIL_SANITIZE OR CMAKE_CROSSCOMPILING)
    math(EXPR timeout "10 * ${timeout}")  # sanitizers and emulators slow everything down
  endif()
  if(TENDRIL_SANITIZE MATCHES "address")
    # One test allocates more memory than is available and expects the library's own error. The emulator's tests let
    # processes crash and check the emulator's message and the signal.
    set(asan "allocator_may_return_null=1")
    if(folder STREQUAL "emulator")
      string(APPEND asan ":handle_segv=0:abort_on_error=1")
    endif()
    list(APPEND ARG_ENVIRONMENT "ASAN_OPTIONS=${asan}"
      "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0")
  elseif(TENDRIL_SANITIZE MATCHES "thread")
    list(APPEND ARG_ENVIRONMENT "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
  endif()
  add_test(NAME ${name} COMMAND test_${folder} --run_test=${suite} --catch_system_errors=no)
  set_tests_properties(${name} PROPERTIES
    LABELS "${folder};${suite_${suite}_LABELS};${ARG_LABELS}" TIMEOUT ${timeout} COST ${cost} PROCESSORS ${processors}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${ARG_ENVIRONMENT}")
  if(suite_${suite}_LOCK)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK "${suite_${suite}_LOCK}")
  endif()
  tendril_test_needs(${name} test_${folder})
endfunction()

# Tests are not optimised: that would double their compile time, and the libraries that they test are optimised.
function(tendril_test_flags target)
  target_compile_options(${target} PRIVATE -O0)
  if(TENDRIL_SANITIZE MATCHES "undefined" AND target MATCHES "rpc")
    target_compile_options(${target} PRIVATE -fno-sanitize=alignment)
  elseif(TENDRIL_SANITIZE MATCHES "undefined")
    # These checks are for the libraries' code. Only tests of rpc instantiate much of it, from headers.
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()
function(tendril_test_options target folder)
  tendril_test_flags(${target})
  target_link_libraries(${target} PRIVATE Boost::unit_test_framework)  # programs too: it is among what is precompiled
  target_compile_definitions(${target} PRIVATE BOOST_TEST_DYN_LINK)
  if(TARGET ${folder}_tests_precompiled)
    target_precompile_headers(${target} REUSE_FROM ${folder}_tests_precompiled)
  elseif(TARGET tests_precompiled)
    target_precompile_headers(${target} REUSE_FROM tests_precompiled)
  endif()
endfunction()
