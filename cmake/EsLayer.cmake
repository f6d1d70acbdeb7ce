# SPDX-License-Identifier: Apache-2.0
# es_layer(NAME [DEPS layers or packages...]) builds src/NAME as library es_NAME.
# Every *_test.cc beside the code becomes part of the one test program NAME_test.
function(es_layer name)
  cmake_parse_arguments(ARG "" "" "DEPS;TEST_DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(es_${name} STATIC ${sources})
  target_include_directories(es_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(es_${name} PUBLIC ${ARG_DEPS})
  if(ES_TESTS AND tests)
    es_test(${name}_test SOURCES ${tests} DEPS es_${name} ${ARG_TEST_DEPS})
  endif()
endfunction()

# es_test(NAME SOURCES ... DEPS ...) is one GoogleTest program whose cases ctest runs one by one, labelled NAME.
function(es_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  # Tests are compiled far more often than run; what they test keeps its flags.
  if(ES_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)
  else()
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  target_compile_definitions(${name} PRIVATE ES_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ES_BINARY_DIR="${PROJECT_BINARY_DIR}")
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    target_compile_definitions(${name} PRIVATE ES_EMULATED)  # see tests/sanitized.h
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS ${name})
endfunction()
