#include "tendril/tensor/detail/named_error.h"

#include <algorithm>
#include <string>
#include <typeinfo>

#include "tendril/tensor/error.h"

namespace tendril::detail {
namespace {

/// The text before the first ": ", which is the operation.
std::string_view named_by(std::string_view text) { return text.substr(0, text.find(": ")); }

std::string renamed(std::string_view op, std::string_view text) {
  return std::string(op) + std::string(text.substr(named_by(text).size()));
}

}  // namespace

void rethrow_named(std::string_view op, std::initializer_list<std::string_view> made_of) {
  try {
    throw;
  } catch (const Error& error) {
    if (std::ranges::find(made_of, named_by(error.what())) == made_of.end()) throw;
  }
  try {
    throw;
  } catch (const ShapeError& error) {
    throw ShapeError(renamed(op, error.what()));
  } catch (const DTypeError& error) {
    throw DTypeError(renamed(op, error.what()));
  } catch (const IndexError& error) {
    throw IndexError(renamed(op, error.what()));
  } catch (const AutogradError& error) {
    throw AutogradError(renamed(op, error.what()));
  } catch (const Error& error) {
    if (typeid(error) != typeid(Error)) throw;
    throw Error(renamed(op, error.what()));
  }
}

}  // namespace tendril::detail
