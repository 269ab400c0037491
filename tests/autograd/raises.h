#pragma once

#include <boost/test/unit_test.hpp>
#include <string>

/// The statement throws this type, and what() contains the text.
#define CHECK_RAISES(Type, text, ...)                                             \
  BOOST_CHECK_EXCEPTION(__VA_ARGS__, Type, [](const Type& error) {                \
    const bool found = std::string(error.what()).find(text) != std::string::npos; \
    if (!found) BOOST_TEST_MESSAGE("the message is: " << error.what());           \
    return found;                                                                 \
  })
