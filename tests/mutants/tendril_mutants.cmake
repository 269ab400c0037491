# Many mutants in one program: each source is copied once, with every change in place and switched on at run time by
# TENDRIL_MUTANT=number (on.h). The copies are linked ahead of the library.

# tendril_mutant(SET SOURCE CHECK FROM TO): one row of a table. In SOURCE, FROM, which must be there exactly once, becomes
# TO while the mutant is on. FROM is a statement if it ends with a semicolon, else an expression; or TO says itself where
# the switch is: @ON@. CHECK is what the set's program must be given to find it.
# A row whose source has changed is a test that fails, not a build that does.
function(tendril_mutant set source check from to)
  get_property(sources GLOBAL PROPERTY mutants_${set}_sources)
  string(MAKE_C_IDENTIFIER "${source}" key)
  if(NOT source IN_LIST sources)
    file(READ "${PROJECT_SOURCE_DIR}/${source}" text)
    set_property(GLOBAL PROPERTY mutants_${set}_${key} "${text}")
    set_property(GLOBAL APPEND PROPERTY mutants_${set}_sources "${source}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${source}")
  endif()
  get_property(text GLOBAL PROPERTY mutants_${set}_${key})
  get_property(number GLOBAL PROPERTY mutants_${set}_count)
  math(EXPR number "${number} + 1")
  set_property(GLOBAL PROPERTY mutants_${set}_count ${number})

  get_filename_component(name "${source}" NAME_WE)
  set(test mutants/${set}${number}_${name})
  set(on "::tendril::mutants::on(${number})")
  if(to MATCHES "@ON@")
    string(REPLACE "@ON@" "${on}" switched "${to}")
  elseif(from MATCHES ";$")
    set(switched "{ if (${on}) { ${to} } else { ${from} } }")
  else()
    set(switched "(${on} ? (${to}) : (${from}))")
  endif()
  string(REPLACE "${from}" "" without "${text}")
  string(LENGTH "${text}" before)
  string(LENGTH "${without}" after)
  string(LENGTH "${from}" length)
  math(EXPR removed "${before} - ${after}")
  if(removed EQUAL length)
    string(REPLACE "${from}" "${switched}" text "${text}")
    set_property(GLOBAL PROPERTY mutants_${set}_${key} "${text}")
    # A crash finds it too, and so does an end that does not come.
    add_test(NAME ${test} COMMAND sh -c "! TENDRIL_MUTANT=${number} timeout 20 \"$0\" \"$1\""
      $<TARGET_FILE:mutants_${set}> "${check}")
    get_property(checks GLOBAL PROPERTY mutants_${set}_checks)
    if(NOT check IN_LIST checks)
      set_property(GLOBAL APPEND PROPERTY mutants_${set}_checks "${check}")
    endif()
  else()
    message(WARNING "${test}: '${from}' is not in ${source} exactly once: mend the row")
    add_test(NAME ${test} COMMAND ${CMAKE_COMMAND} -E false)
  endif()
  set_tests_properties(${test} PROPERTIES LABELS mutants TIMEOUT 90 COST 190)  # one of them takes 20 s
  tendril_test_needs(${test} mutants_${set})
endfunction()

# tendril_mutant_program(SET LIBRARIES...): the program of the set's rows. Its own sources and objects are added to the
# target mutants_SET.
function(tendril_mutant_program set)
  get_property(sources GLOBAL PROPERTY mutants_${set}_sources)
  set(copies "")
  foreach(source IN LISTS sources)
    string(MAKE_C_IDENTIFIER "${source}" key)
    get_property(text GLOBAL PROPERTY mutants_${set}_${key})
    set(copy "${CMAKE_CURRENT_BINARY_DIR}/${set}/${source}")
    file(CONFIGURE OUTPUT "${copy}" CONTENT "#include \"tests/mutants/on.h\"\n${text}" @ONLY)
    list(APPEND copies "${copy}")
  endforeach()
  add_executable(mutants_${set} ${copies})
  target_link_libraries(mutants_${set} PRIVATE ${ARGN} tendril_options)
  target_include_directories(mutants_${set} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(mutants_${set} PRIVATE -O0)
  # The library's object of a copied source is linked too where it holds other sources: what comes first counts.
  target_link_options(mutants_${set} PRIVATE -Wl,-z,muldefs)
  if(TENDRIL_UNITY)
    set_target_properties(mutants_${set} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# tendril_mutants_unchanged(SET): without a mutant every check finds nothing.
function(tendril_mutants_unchanged set)
  get_property(checks GLOBAL PROPERTY mutants_${set}_checks)
  foreach(check IN LISTS checks)
    string(REGEX REPLACE "^--run_test=" "" title "${check}")
    add_test(NAME mutants/${set}_unchanged_${title} COMMAND mutants_${set} "${check}")
    set_tests_properties(mutants/${set}_unchanged_${title} PROPERTIES LABELS mutants TIMEOUT 120)
    tendril_test_needs(mutants/${set}_unchanged_${title} mutants_${set})
  endforeach()
endfunction()
