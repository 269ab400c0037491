#pragma once

#include <chrono>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "tendril/rpc/wire/archive/serializer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

template <class A, class B>
struct Serializer<std::pair<A, B>> {
  static void save(OutputArchive& archive, const std::pair<A, B>& pair) {
    const OutputArchive::Nested nested(archive);
    archive << pair.first << pair.second;
  }
  static void load(InputArchive& archive, std::pair<A, B>& pair) {
    const InputArchive::Nested nested(archive);
    archive >> pair.first >> pair.second;
  }
};

template <class... T>
struct Serializer<std::tuple<T...>> {
  static void save(OutputArchive& archive, const std::tuple<T...>& values) {
    const OutputArchive::Nested nested(archive);
    std::apply([&](const T&... value) { (void)(archive << ... << value); }, values);
  }
  static void load(InputArchive& archive, std::tuple<T...>& values) {
    const InputArchive::Nested nested(archive);
    std::apply([&](T&... value) { (void)(archive >> ... >> value); }, values);
  }
};

/// Writes a byte, 0 or 1, then the value if there is one.
template <class T>
struct Serializer<std::optional<T>> {
  static void save(OutputArchive& archive, const std::optional<T>& value) {
    const OutputArchive::Nested nested(archive);
    archive << value.has_value();
    if (value) archive << *value;
  }
  static void load(InputArchive& archive, std::optional<T>& value) {
    detail::check_default_constructible<T>();
    const InputArchive::Nested nested(archive);
    bool present;
    archive >> present;
    value.reset();
    if (present) archive >> value.emplace();
  }
};

template <>
struct Serializer<std::monostate> {
  static void save(OutputArchive&, std::monostate) {}
  static void load(InputArchive&, std::monostate) {}
};

/// Writes the alternative's index as 32 bits, then its value.
template <class... T>
struct Serializer<std::variant<T...>> {
  static void save(OutputArchive& archive, const std::variant<T...>& value) {
    const OutputArchive::Nested nested(archive);
    if (value.valueless_by_exception()) throw MessageError("a std::variant without a value cannot be sent");
    archive.number(static_cast<uint32_t>(value.index()));
    std::visit([&](const auto& alternative) { archive << alternative; }, value);
  }
  static void load(InputArchive& archive, std::variant<T...>& value) {
    const InputArchive::Nested nested(archive);
    const auto index = archive.number<uint32_t>();
    if (index >= sizeof...(T)) archive.fail("a std::variant has an unknown alternative");
    load_alternative(archive, value, index, std::index_sequence_for<T...>());
  }

 private:
  template <std::size_t... i>
  static void load_alternative(InputArchive& archive, std::variant<T...>& value, std::size_t index,
                               std::index_sequence<i...>) {
    (void)((index == i && (archive >> value.template emplace<i>(), true)) || ...);
  }
};

template <class Rep, class Period>
struct Serializer<std::chrono::duration<Rep, Period>> {
  static void save(OutputArchive& archive, const std::chrono::duration<Rep, Period>& time) { archive << time.count(); }
  static void load(InputArchive& archive, std::chrono::duration<Rep, Period>& time) {
    Rep count;
    archive >> count;
    time = std::chrono::duration<Rep, Period>(count);
  }
};

}  // namespace tendril::rpc

TENDRIL_API_END
