#pragma once

#include <array>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tendril/rpc/wire/archive/serializer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {
namespace detail {

/// Whether T is a number whose bytes in memory are those on the wire.
template <class T>
inline constexpr bool is_bulk = std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8;

/// Writes an element, with a padding byte if it takes no bytes, so that a count can be checked against the bytes left.
template <class T>
void save_element(OutputArchive& archive, const T& element) {
  const std::size_t before = archive.position();
  archive << element;
  if (archive.position() == before) archive.number(uint8_t{0});
}
template <class T>
void load_element(InputArchive& archive, T& element) {
  const std::size_t before = archive.position();
  archive >> element;
  if (archive.position() == before) archive.number<uint8_t>();
}

/// Writes a count, then the elements in order.
template <class Container>
struct SequenceSerializer {
  static void save(OutputArchive& archive, const Container& values) {
    const OutputArchive::Nested nested(archive);
    archive.count(values.size());
    for (const auto& value : values) save_element(archive, value);
  }
  static void load(InputArchive& archive, Container& values) {
    check_default_constructible<typename Container::value_type>();
    const InputArchive::Nested nested(archive);
    values.clear();
    for (std::size_t left = archive.count(); left > 0; --left) {
      values.emplace_back();
      load_element(archive, values.back());
    }
  }
};

/// Writes a count, then the keys, or keys and values alternately. Duplicate keys are an error.
template <class Container, bool is_map>
struct AssociativeSerializer {
  static void save(OutputArchive& archive, const Container& values) {
    const OutputArchive::Nested nested(archive);
    archive.count(values.size());
    for (const auto& value : values) {
      if constexpr (is_map) {
        save_element(archive, value.first);
        save_element(archive, value.second);
      } else {
        save_element(archive, value);
      }
    }
  }
  static void load(InputArchive& archive, Container& values) {
    check_default_constructible<typename Container::key_type>();
    if constexpr (is_map) check_default_constructible<typename Container::mapped_type>();
    const InputArchive::Nested nested(archive);
    values.clear();
    for (std::size_t left = archive.count(); left > 0; --left) {
      typename Container::key_type key{};
      load_element(archive, key);
      const std::size_t before = values.size();
      if constexpr (is_map) {
        typename Container::mapped_type value{};
        load_element(archive, value);
        values.emplace_hint(values.end(), std::move(key), std::move(value));
      } else {
        values.emplace_hint(values.end(), std::move(key));
      }
      if (values.size() == before) archive.fail("duplicate key");
    }
  }
};

}  // namespace detail

template <class C, class R, class A>
struct Serializer<std::basic_string<C, R, A>> {
  static_assert(sizeof(C) == 1, "only strings of bytes can be sent");
  static void save(OutputArchive& archive, const std::basic_string<C, R, A>& text) {
    archive.count(text.size());
    archive.bytes(text.data(), text.size());
  }
  static void load(InputArchive& archive, std::basic_string<C, R, A>& text) {
    text.resize(archive.count());
    archive.bytes(text.data(), text.size());
  }
};

template <class T, class A>
struct Serializer<std::vector<T, A>> {
  using Vector = std::vector<T, A>;

  static void save(OutputArchive& archive, const Vector& values) {
    if constexpr (std::is_same_v<T, bool>) {
      archive.count(values.size());
      for (const bool value : values) archive << value;
    } else if constexpr (detail::is_bulk<T>) {
      archive.count(values.size());
      archive.bytes(values.data(), values.size() * sizeof(T));
    } else {
      detail::SequenceSerializer<Vector>::save(archive, values);
    }
  }
  static void load(InputArchive& archive, Vector& values) {
    if constexpr (std::is_same_v<T, bool>) {
      values.assign(archive.count(), false);
      for (std::size_t i = 0; i < values.size(); ++i) {
        bool value;
        archive >> value;
        values[i] = value;
      }
    } else if constexpr (detail::is_bulk<T>) {
      values.resize(archive.count(sizeof(T)));
      archive.bytes(values.data(), values.size() * sizeof(T));
    } else {
      detail::SequenceSerializer<Vector>::load(archive, values);
    }
  }
};

template <class T, std::size_t n>
struct Serializer<std::array<T, n>> {
  static void save(OutputArchive& archive, const std::array<T, n>& values) {
    if constexpr (detail::is_bulk<T>) {
      archive.bytes(values.data(), sizeof(T) * n);
    } else {
      const OutputArchive::Nested nested(archive);
      for (const T& value : values) archive << value;
    }
  }
  static void load(InputArchive& archive, std::array<T, n>& values) {
    if constexpr (detail::is_bulk<T>) {
      archive.bytes(values.data(), sizeof(T) * n);
    } else {
      const InputArchive::Nested nested(archive);
      for (T& value : values) archive >> value;
    }
  }
};

template <class T, class A>
struct Serializer<std::list<T, A>> : detail::SequenceSerializer<std::list<T, A>> {};
template <class T, class A>
struct Serializer<std::deque<T, A>> : detail::SequenceSerializer<std::deque<T, A>> {};
template <class K, class... P>
struct Serializer<std::set<K, P...>> : detail::AssociativeSerializer<std::set<K, P...>, false> {};
template <class K, class... P>
struct Serializer<std::unordered_set<K, P...>> : detail::AssociativeSerializer<std::unordered_set<K, P...>, false> {};
template <class K, class V, class... P>
struct Serializer<std::map<K, V, P...>> : detail::AssociativeSerializer<std::map<K, V, P...>, true> {};
template <class K, class V, class... P>
struct Serializer<std::unordered_map<K, V, P...>>
    : detail::AssociativeSerializer<std::unordered_map<K, V, P...>, true> {};

}  // namespace tendril::rpc

TENDRIL_API_END
