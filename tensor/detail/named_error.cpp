#include "tendril/tensor/detail/named_error.h"

#include <string>
#include <typeinfo>

#include "tendril/tensor/error.h"

namespace tendril::detail {
namespace {

std::string renamed(std::string_view op, std::string_view text) {
  const std::size_t end = text.find(": ");
  return std::string(op) + std::string(end == std::string_view::npos ? ": " : "") +
         std::string(end == std::string_view::npos ? text : text.substr(end));
}

}  // namespace

void rethrow_named(std::string_view op) {
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
